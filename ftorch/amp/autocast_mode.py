"""``torch.autocast``: chosen ops run in half precision, the others in float32."""

from __future__ import annotations

import collections.abc
import functools
import warnings

import numpy as np

from ..eager.core import dtype as _dtype
from ..eager.core.device import device
from ..eager.dispatch import autocast as _autocast
from ..eager.dispatch.autocast import state
from ..eager.native.contexts import repeatable
from ..eager.tensor import Tensor

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

_HALVES = (_dtype.bfloat16, _dtype.float16)


def _device_type(name) -> str:
    if not isinstance(name, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(name)}`")
    return device(name).type


# --- the state, read and set ---------------------------------------------------------


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for a device type."""
    return _device_type(device_type) in _autocast.DEVICE_TYPES


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device type in this thread."""
    return _autocast.is_enabled(_device_type(device_type))


def set_autocast_enabled(device_type, enabled=None) -> None:
    """Switches autocast for a device type (CUDA if only a bool is given) in this thread."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    _autocast.set_enabled(_device_type(device_type), bool(enabled))


def get_autocast_dtype(device_type: str):
    """The dtype that autocast lowers to on a device type."""
    return state.dtypes[_device_type(device_type)]


def set_autocast_dtype(device_type: str, dtype) -> None:
    """Sets the dtype that autocast lowers to on a device type."""
    state.dtypes[_device_type(device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether weights are cast once in a context."""
    return state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Sets whether weights are cast once in a context."""
    state.cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Forgets the weights cast so far."""
    state.cache.clear()


def autocast_increment_nesting() -> int:
    """Counts one more context; gives the number."""
    state.nesting += 1
    return state.nesting


def autocast_decrement_nesting() -> int:
    """Counts one context less; gives the number."""
    state.nesting -= 1
    return state.nesting


def _older(name, function, *bound):
    given = "enabled" if "enabled" in name else "dtype"
    taken = f"({given})" if name.startswith("set") else "()"
    now = f"{bound[0]!r}, {given}" if name.startswith("set") else repr(bound[0])
    message = f"torch.{name}{taken} is deprecated. Please use torch.{function.__name__}({now}) instead."

    def older(*args):
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return function(*bound, *args)

    older.__name__ = older.__qualname__ = name
    older.__doc__ = f"The older name of ``{function.__name__}({bound[0]!r}, ...)``."
    return older


is_autocast_cpu_enabled = _older("is_autocast_cpu_enabled", is_autocast_enabled, "cpu")
set_autocast_cpu_enabled = _older("set_autocast_cpu_enabled", set_autocast_enabled, "cpu")
get_autocast_cpu_dtype = _older("get_autocast_cpu_dtype", get_autocast_dtype, "cpu")
set_autocast_cpu_dtype = _older("set_autocast_cpu_dtype", set_autocast_dtype, "cpu")
get_autocast_gpu_dtype = _older("get_autocast_gpu_dtype", get_autocast_dtype, "cuda")
set_autocast_gpu_dtype = _older("set_autocast_gpu_dtype", set_autocast_dtype, "cuda")


# --- the context ---------------------------------------------------------------------


def autocast_decorator(autocast_instance, func):
    """``func`` run inside a context."""

    @functools.wraps(func)
    def decorated(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    return decorated


class autocast:
    """Runs chosen ops in half precision inside a ``with`` block, or a decorated function.

    Args:
        device_type: "cpu", "cuda", ...
        dtype: bfloat16 or float16; by default bfloat16 on the CPU and float16 on GPUs.
        enabled: False switches autocast off inside.
        cache_enabled: whether weights are cast once in the context.

    >>> import ftorch as torch
    >>> x = torch.ones(2, 2)
    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     print((x @ x).dtype, (x + x).dtype)
    torch.bfloat16 torch.float32
    """

    def __init__(self, device_type: str, dtype=None, enabled: bool = True,
                 cache_enabled: bool | None = None):
        self.device = _device_type(device_type)
        if self.device not in _autocast.DEVICE_TYPES:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{self.device}'")
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self._cache_enabled = state.cache_enabled if cache_enabled is None else cache_enabled
        if self.device == "cuda" and enabled:
            from ..cuda import is_available

            if not is_available():
                warnings.warn(
                    "CUDA is not available or torch_xla is imported. Disabling autocast.",
                    stacklevel=2,
                )
                enabled = False
        if self.device == "cpu" and enabled and self.fast_dtype not in _HALVES:
            warnings.warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\nCPU "
                "Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._previous: list[tuple] = []

    def __enter__(self):
        outer = (is_autocast_enabled(self.device), state.dtypes[self.device], state.cache_enabled, state.nesting)
        self._previous = [*self._previous, outer]
        try:
            set_autocast_enabled(self.device, self._enabled)
            set_autocast_dtype(self.device, self.fast_dtype)
            autocast_increment_nesting()
            set_autocast_cache_enabled(self._cache_enabled)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    @repeatable
    def __exit__(self, exc_type, exc_val, exc_tb):
        enabled, dtype, cache_enabled, nesting = self._previous[-1]
        if nesting == 0:
            clear_autocast_cache()
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, dtype)
        set_autocast_cache_enabled(cache_enabled)
        state.nesting = nesting
        self._previous = self._previous[:-1]  # the last: until then it can be done again
        return False

    def __call__(self, func):
        return autocast_decorator(self, func)


# --- autograd.Function ---------------------------------------------------------------


def _cast(value, device_type, dtype):
    if isinstance(value, Tensor):
        eligible = (
            value.is_floating_point() and value.device.type == device_type
            and value.dtype is not _dtype.float64
        )
        return value.to(dtype) if eligible else value
    if isinstance(value, (str, np.ndarray)):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {
            _cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()
        }
    if isinstance(value, collections.abc.Iterable):
        items = (_cast(v, device_type, dtype) for v in value)
        return type(value)(items) if isinstance(value, (list, tuple)) else items
    return value


def custom_fwd(fwd=None, *, device_type: str, cast_inputs=None):
    """Decorates ``forward`` of an ``autograd.Function`` that is used inside `autocast`.

    Args:
        cast_inputs: the dtype that floating-point tensors are cast to; autocast is off inside then.
    """
    kind = _device_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args, **kwargs):
        args[0]._dtype = get_autocast_dtype(kind)
        if cast_inputs is None or not is_autocast_enabled(kind):
            args[0]._fwd_used_autocast = is_autocast_enabled(kind)
            return fwd(*args, **kwargs)
        args[0]._fwd_used_autocast = False
        with autocast(device_type=kind, enabled=False):
            return fwd(*_cast(args, kind, cast_inputs), **_cast(kwargs, kind, cast_inputs))

    return decorated


def custom_bwd(bwd=None, *, device_type: str):
    """Decorates ``backward`` of an ``autograd.Function``: autocast is as it was in ``forward``."""
    kind = _device_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args, **kwargs):
        context = autocast(
            device_type=kind, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype
        )
        with context:
            return bwd(*args, **kwargs)

    return decorated


def _enter_autocast(*vals):
    """Enters `autocast`, as graphs say it; gives what `_exit_autocast` takes."""
    mode = autocast(*vals)
    mode.__enter__()
    return mode


def _exit_autocast(mode) -> None:
    """Leaves an `autocast`."""
    mode.__exit__(None, None, None)
