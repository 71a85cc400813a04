"""The names of PyTorch's extension module that programs reach for (``torch._C``)."""

from __future__ import annotations

from .eager.device import device  # noqa: F401
from .eager.dtype import dtype  # noqa: F401
from .eager.executor import OutOfMemoryError  # noqa: F401
from .eager.formats import layout, memory_format  # noqa: F401
from .eager.generator import Generator, default_generator  # noqa: F401
from .eager.geometry import Size  # noqa: F401
from .eager.tensor import Tensor as TensorBase  # noqa: F401
from .eager.tensor import TensorMeta as _TensorMeta  # noqa: F401
from .eager.tensor import modes
from .overrides import (  # noqa: F401
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    _disabled_torch_function_impl,
)

_TensorBase = TensorBase


def _set_grad_enabled(mode: bool) -> None:
    """Says whether operations record a graph from now on: what graphs call (`torch.no_grad`)."""
    modes.grad = bool(mode)


def _log_api_usage_once(event: str) -> None:
    """Does nothing: nothing is logged."""


def _get_tracing_state():
    """What ``jit.trace`` records into, or None where none is at work."""
    import sys

    recorder = sys.modules.get("ftorch.jit._recorder")
    return None if recorder is None else recorder.Recorder.current


_jit_settings: dict[str, bool] = {}


def _jit_setting(name: str, default: bool):
    """A setting of PyTorch's interpreter: kept, and without an effect on XLA's programs."""

    def set_to(value: bool):
        before = _jit_settings.get(name, default)
        _jit_settings[name] = value
        return before

    return set_to


_jit_set_profiling_executor = _jit_setting("profiling_executor", True)
_jit_set_profiling_mode = _jit_setting("profiling_mode", True)
_jit_set_texpr_fuser_enabled = _jit_setting("texpr_fuser", True)
_jit_set_nvfuser_enabled = _jit_setting("nvfuser", False)
_jit_override_can_fuse_on_cpu = _jit_setting("can_fuse_on_cpu", False)
_jit_override_can_fuse_on_gpu = _jit_setting("can_fuse_on_gpu", True)


def _get_default_device() -> str:
    """The type of the default device."""
    from .eager.device import get_default_device

    return get_default_device().type


def _get_accelerator(check: bool | None = None):
    """The device type of the accelerator, or the CPU."""
    from .accelerator import current_accelerator

    return current_accelerator() or device("cpu")


# What `torch.library` and dispatch modes bring, found when it is first asked for.
_LIBRARY = {
    "DispatchKey": "_keys", "DispatchKeySet": "_keys",
    "_AutoDispatchBelowAutograd": "_keys.AutoDispatchBelowAutograd",
    "_ExcludeDispatchKeyGuard": "_keys.ExcludeKeys", "_dispatch_keys": "_queries",
    "_dispatch_key_name": "_queries", "_dispatch_key_parse": "_queries",
    "_dispatch_key_for_device": "_queries", "_dispatch_has_kernel": "_queries",
    "_dispatch_has_kernel_for_dispatch_key": "_queries", "_dispatch_dump": "_queries",
    "_dispatch_get_all_op_names": "_queries",
    "_dispatch_get_registrations_for_dispatch_key": "_queries",
}  # fmt: skip


def __getattr__(name: str):
    import importlib

    if name in ("_DisableTorchDispatch", "_disabled_torch_dispatch_impl"):
        from . import _python_dispatch

        own = {"_DisableTorchDispatch": "DisableTorchDispatch"}.get(name, "disabled")
        return getattr(_python_dispatch, own)
    if name == "_nn":
        from types import SimpleNamespace

        from .nn.modules._conversion import _parse_to

        return SimpleNamespace(_parse_to=_parse_to)
    if name not in _LIBRARY:
        raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
    module, _, own = _LIBRARY[name].partition(".")
    return getattr(importlib.import_module(f"ftorch.library.{module}"), own or name)
