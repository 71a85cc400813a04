"""`ZeroRedundancyOptimizer`: each process keeps the optimizer states of some parameters."""

from __future__ import annotations

import copy
import logging

import ftorch as torch

from .. import distributed_c10d as dist
from .._reducer import broadcast_coalesced
from ..algorithms.join import Joinable, JoinHook

_log = logging.getLogger(__name__)
__all__ = ["ZeroRedundancyOptimizer"]


class _Hook(JoinHook):
    def __init__(self, zero):
        self.zero = zero

    def main_hook(self):
        """Takes part in the others' step."""
        self.zero.step()


def _checked(params):
    """Parameters, or groups of them, as a list."""
    wanted = "`params` argument should be an iterable of Tensors"
    if isinstance(params, torch.Tensor):
        raise TypeError(f"{wanted}, but got {torch.typename(params)}")
    try:
        params = list(params)
    except TypeError as error:
        raise TypeError(f"{wanted} or dicts, but got {torch.typename(params)}") from error
    if not params:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    if not all(isinstance(p, (torch.Tensor, dict)) for p in params):
        raise TypeError(f"{wanted} or dicts")
    if len({isinstance(p, dict) for p in params}) > 1:
        raise TypeError(f"{wanted} or dicts")
    _check_types([p for g in params for p in _parameters(g)])
    return params


def _parameters(group):
    if not isinstance(group, dict):
        return [group]
    if "params" not in group:
        raise ValueError(
            "Each parameter group passed-in via `params` must have a 'params' key mapping to the parameters in the group"
        )
    found = group["params"]
    return [found] if isinstance(found, torch.Tensor) else found if isinstance(found, list) else []


def _check_types(params):
    name = torch.typename(params[0]) if params else None
    for p in params:
        if p.is_sparse or torch.typename(p) != name:
            said = name if p is params[0] else f"both {name} and {torch.typename(p)}"
            raise ValueError(
                f"ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got {said}"
            )


class ZeroRedundancyOptimizer(torch.optim.Optimizer, Joinable):
    """An optimizer of which each process updates some of the parameters and gives them to all
    (``torch.distributed.optim.ZeroRedundancyOptimizer``, ZeRO stage 1).

    Args:
        optimizer_class: the optimizer of each process' share.
        process_group: the processes; the default group by default.
        overlap_with_ddp: whether a communication hook takes the steps (`hook_with_zero_step`).
        defaults: for the optimizer.

    Raises:
        TypeError: for parameters that are no tensors. ValueError: for none.
    """

    def __init__(self, params, optimizer_class, process_group=None, parameters_as_bucket_view=False,
                 overlap_with_ddp=False, **defaults):
        params = _checked(params)
        self._overlap_with_ddp = overlap_with_ddp
        Joinable.__init__(self)
        self.process_group = process_group or dist.group_of(None)
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self._optim_constructor, self._optim_defaults = optimizer_class, defaults
        self._states: list = []
        self.initialized = False
        torch.optim.Optimizer.__init__(self, params, defaults)
        self._own()
        self.initialized = True

    def _own(self):
        self._owner = {}
        load = [0] * self.world_size
        for group in self.param_groups:  # the largest first, to whom has least
            for p in sorted(group["params"], key=lambda p: -p.numel()):
                rank = load.index(min(load))
                self._owner[p] = rank
                load[rank] += p.numel()
        mine = [
            {**{k: v for k, v in g.items() if k != "params"},
             "params": [p for p in g["params"] if self._owner[p] == self.rank]}
            for g in self.param_groups
        ]
        self.optim = self._optim_constructor(mine, **self._optim_defaults)
        if self.initialized:
            return
        for g in self.param_groups:  # those of the beginning say what the optimizer's defaults are
            for k, v in self.optim.defaults.items():
                g.setdefault(k, v)

    def add_param_group(self, param_group) -> None:
        """Adds parameters."""
        super().add_param_group(param_group)
        if self.initialized:
            old = dict(self.optim.state)
            self._own()
            for p, state in old.items():
                if self._owner.get(p) == self.rank:
                    self.optim.state[p] = state

    def _sync_groups(self):
        for local, own in zip(self.optim.param_groups, self.param_groups):
            local.update({k: v for k, v in own.items() if k != "params"})

    def step(self, closure=None, **kwargs):
        """Updates the own share and gives it to all. With ``overlap_with_ddp`` backward's hook does so, and this nothing."""
        if self._overlap_with_ddp:
            _log.warning("`step()` should not be included in the training loop when `overlap_with_ddp=True`")
            return None
        return self._step(closure, **kwargs)

    def _step(self, closure=None, **kwargs):
        self._sync_groups()
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        for local, own in zip(self.optim.param_groups, self.param_groups):
            own.update({k: v for k, v in local.items() if k != "params"})
        if self.world_size > 1:
            for rank in range(self.world_size):
                shares = [p for p, owner in self._owner.items() if owner == rank]
                if shares:
                    broadcast_coalesced(self.process_group, shares, rank)
        return loss

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings all states to one rank, whose `state_dict` then has them. All ranks call it."""
        self._sync_groups()
        numbers = {p: i for i, p in enumerate(self._owner_order())}
        own = {numbers[p]: dict(s) for p, s in self.optim.state.items()}
        everybody = [None] * self.world_size if self.rank == to else None
        dist.gather_object(own, everybody, group=self.process_group, group_dst=to)
        self._states = everybody or []

    def _owner_order(self):
        return [p for g in self.param_groups for p in g["params"]]

    def state_dict(self) -> dict:
        """The whole state, on the rank that `consolidate_state_dict` brought it to.

        Raises:
            RuntimeError: before that.
        """
        if not self._states:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the "
                "global state."
            )
        state, groups, at = {}, [], 0
        for row in self._states:
            state |= copy.deepcopy(row)
        for g in self.param_groups:
            groups.append({**{k: v for k, v in g.items() if k != "params"},
                           "params": list(range(at, at + len(g["params"])))})
            at += len(g["params"])
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict) -> None:
        """Takes the states of the own share out of a whole state."""
        parameters = self._owner_order()
        for g, given in zip(self.param_groups, state_dict["param_groups"]):
            g.update({k: v for k, v in given.items() if k != "params"})
        self._sync_groups()
        for i, state in state_dict["state"].items():
            p = parameters[int(i)]
            if self._owner[p] == self.rank:
                self.optim.state[p] = copy.deepcopy(state)

    def join_hook(self, **kwargs):
        """What a process without inputs does."""
        return _Hook(self)

    @property
    def join_device(self):
        """Where the parameters are."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self):
        """The group."""
        return self.process_group
