"""Optimizers that update a bucket's parameters as soon as its gradients are averaged."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod

from ...optim.utils import as_functional_optim
from ..ddp_comm_hooks.default_hooks import allreduce_hook
from ..ddp_comm_hooks.optimizer_overlap_hooks import _hook_then_optimizer, _OptimizerHookState

__all__ = ["OverlappedOptimizer", "register_overlapped"]

_registered: dict = {}


def register_overlapped(optim_cls):
    """Makes a class of `OverlappedOptimizer` that of an optimizer class.

    Raises:
        ValueError: if there is one already.
    """

    def register(overlapped):
        if optim_cls in _registered:
            raise ValueError(
                f"{overlapped} already registered with optim_cls {_registered[optim_cls]} {optim_cls}, trying "
                f"to re-register it for {optim_cls} is not supported."
            )
        _registered[optim_cls] = overlapped
        return overlapped

    return register


class OverlappedOptimizer(ABC):
    """An optimizer that steps while backward runs."""

    def __init__(self, optim_cls: type):
        self.optim_cls = optim_cls

    @abstractmethod
    def register_ddp(self, ddp) -> None:
        """Makes `DistributedDataParallel` step."""
        ...

    @abstractmethod
    def register_fsdp(self, fsdp) -> None:
        """Makes `FullyShardedDataParallel` step."""
        ...


class _Overlapped(OverlappedOptimizer):
    def __init__(self, optim_cls, params, *args, **kwargs):
        super().__init__(optim_cls)
        functional = as_functional_optim(optim_cls, *args, **kwargs)
        self._opt_hook_state = _OptimizerHookState(functional, params)

    def register_ddp(self, ddp) -> None:
        """Steps with each bucket of a `DistributedDataParallel`."""
        ddp.register_comm_hook(None, _hook_then_optimizer(allreduce_hook, self._opt_hook_state))

    def register_fsdp(self, fsdp) -> None:
        """Raises RuntimeError: parts of parameters are updated by an optimizer of its own."""
        raise RuntimeError("FSDP does not support overlapped optimizers: call optimizer.step()")


def _as_overlapped_optim(optim_cls, params, *args, **kwargs):
    for known in inspect.getmro(optim_cls):
        if known in _registered:
            return _registered[known](optim_cls, params, *args, **kwargs)
    return _Overlapped(optim_cls, params, *args, **kwargs)
