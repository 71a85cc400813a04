"""`Join`: processes with different numbers of inputs."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import NamedTuple

import ftorch as torch

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process does that has no more inputs."""

    def main_hook(self) -> None:
        """Takes part in the collectives of one iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once when nobody has inputs any more."""


class Joinable(ABC):
    """What can be given to `Join`."""

    def __init__(self):
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs) -> JoinHook:
        """The hook of this object."""
        ...

    @property
    @abstractmethod
    def join_device(self):
        """Where the collectives of `Join` itself are."""
        ...

    @property
    @abstractmethod
    def join_process_group(self):
        """The group of the collectives."""
        ...


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config():
        return _JoinConfig(False, False, False)


class Join:
    """Within it, processes may have different numbers of inputs (``torch.distributed.algorithms.Join``).

    Each iteration begins with a count of who still has inputs; who has none runs the hooks of the
    joinables until nobody has.

    Args:
        joinables: objects of one group.
        throw_on_early_termination: whether all raise when the first has no more.
        kwargs: for the hooks.
    """

    def __init__(self, joinables: list, enable: bool = True, throw_on_early_termination: bool = False,
                 **kwargs):
        if len(joinables) == 0:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        self._enable, self._throw = enable, throw_on_early_termination
        for i, j in enumerate(joinables):
            j._join_config = _JoinConfig(enable, throw_on_early_termination, i == 0)
        groups = {id(j.join_process_group) for j in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        if len({str(j.join_device) for j in joinables}) > 1:
            raise ValueError("Using join context manager with multiple devices")
        self._group = joinables[0].join_process_group
        self._rank = self._group.rank()

    def __enter__(self):
        return self

    def __exit__(self, type, value, traceback):
        if not self._enable or type:
            return
        iterations, last = 0, True
        while True:
            if iterations > 1000:
                warnings.warn(
                    "Detected uneven input skew of greater than 1000. This means that rank "
                    f"{self._rank} has at least 1000 fewer inputs than other currently-active ranks. "
                    "This level of skew could lead to performance degradation during training.",
                    stacklevel=2,
                )
            if not _active(self._group, 0):
                break
            last = False
            if self._throw:
                _terminate(self._group)
                raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")
            for hook in self._hooks:
                hook.main_hook()
            iterations += 1
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable):
        """Called at the beginning of an iteration: counts who still has inputs.

        Raises:
            RuntimeError: if somebody has none, with ``throw_on_early_termination``.
        """
        if not hasattr(joinable, "_join_config"):
            raise AssertionError(
                f"Check that the {type(joinable)} constructor calls the ``Joinable`` constructor"
            )
        config = joinable._join_config
        if not config.is_first_joinable or not config.enable:
            return None
        group = joinable.join_process_group
        work = torch.distributed.all_reduce(torch.ones(1), group=group, async_op=True)
        work.wait()
        if config.throw_on_early_termination and _terminate(group, False):
            raise RuntimeError(
                "Detected at least one rank that exhausted inputs. Throwing across all ranks."
            )
        return work


def _active(group, own):
    """How many processes have inputs."""
    count = torch.tensor([float(own)])
    torch.distributed.all_reduce(count, group=group)
    return int(count.item())


def _terminate(group, own=True):
    """Whether a process has no more inputs and wants all to raise."""
    flag = torch.tensor([float(own)])
    torch.distributed.all_reduce(flag, group=group)
    return flag.item() > 0
