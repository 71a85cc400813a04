"""Modules whose activations are computed again in backward, or wait on the CPU (``checkpoint_wrapper``)."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from enum import Enum, auto

import ftorch as torch

from ....autograd.graph import save_on_cpu
from ....utils.checkpoint import checkpoint
from ...utils import _pack_kwargs, _unpack_kwargs

__all__ = [
    "ActivationWrapper", "CheckpointImpl", "CheckpointWrapper", "OffloadWrapper",
    "apply_activation_checkpointing", "checkpoint_wrapper", "offload_wrapper",
]

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """Which of `ftorch.utils.checkpoint`'s ways."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(torch.nn.Module, ABC):
    """A module around another one, whose names it has."""

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._clean)
        self.register_load_state_dict_pre_hook(self._prefixed)

    @staticmethod
    def _clean(module, state_dict, prefix, *_):
        for key in [k for k in state_dict if k.startswith(prefix + _PREFIX)]:
            state_dict[prefix + key[len(prefix) + len(_PREFIX) :]] = state_dict.pop(key)
        return state_dict

    @staticmethod
    def _prefixed(module, state_dict, prefix, *_):
        for key in [k for k in state_dict if k.startswith(prefix)]:
            state_dict[prefix + _PREFIX + key[len(prefix) :]] = state_dict.pop(key)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args, **kwargs):
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), p

    @abstractmethod
    def forward(self, *args, **kwargs):
        """The wrapped module's result."""
        raise ValueError("Subclasses should implement forward().")


class OffloadWrapper(ActivationWrapper):
    """A module whose saved activations wait on the CPU."""

    def forward(self, *args, **kwargs):
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """A module whose activations are computed again."""

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **options):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        reentrant = checkpoint_impl == CheckpointImpl.REENTRANT
        self.checkpoint_fn = functools.partial(
            checkpoint_fn or functools.partial(checkpoint, use_reentrant=reentrant), **options
        )

    def forward(self, *args, **kwargs):
        if self.checkpoint_impl != CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)
        flat, keys = _pack_kwargs(*args, **kwargs)

        def positional(*inputs):
            given, named = _unpack_kwargs(inputs, keys)
            return self._checkpoint_wrapped_module(*given, **named)

        return self.checkpoint_fn(positional, *flat)


def offload_wrapper(module):
    """A module whose saved activations wait on the CPU."""
    return OffloadWrapper(module)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **options):
    """A module that computes its forward again in backward."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **options)


def apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper,
                                   check_fn=lambda _: True, auto_wrap_policy=None):
    """Wraps submodules, in place.

    Args:
        check_fn: which ones.
        auto_wrap_policy: instead: a policy of `ftorch.distributed.fsdp.wrap`.
    """
    from ...fsdp.wrap import CustomPolicy, _recursive_wrap, _wrap_chosen, lambda_auto_wrap_policy

    policy = auto_wrap_policy or functools.partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    if isinstance(policy, CustomPolicy):
        _wrap_chosen(model, policy._run_policy(model, set(), {}), checkpoint_wrapper_fn)
        return
    _recursive_wrap(model, policy, checkpoint_wrapper_fn, set(), set(), only_wrap_children=True)
