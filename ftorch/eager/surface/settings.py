"""Settings of the whole process: threads, precision of matrix products, determinism, default types."""

from __future__ import annotations

import builtins
import os
import warnings

from ..core import determinism, fill, jax_scope, user_warnings
from ..core import device as _device
from ..core.dtype import set_default_dtype
from ..native import module as _kernels
from ..runtime import executor
from ..tensor_api.legacy_types import _TypeMeta, type_target

__all__ = [
    "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads",
    "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled",
    "set_default_tensor_type", "set_deterministic_debug_mode", "set_flush_denormal",
    "set_float32_matmul_precision", "set_num_interop_threads", "set_num_threads", "set_warn_always",
    "use_deterministic_algorithms",
]


# --- threads -------------------------------------------------------------------------

# XLA's thread pool is sized when JAX starts, by the CPUs the process may use; the numbers here are
# what programs set and read back.
_threads = {"intra": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else
            os.cpu_count() or 1}
_threads["inter"] = _threads["intra"]


def _set_threads(kind, name, n):
    if not isinstance(n, int) or isinstance(n, bool):
        raise RuntimeError(f"{name} expects an int, but got {type(n).__name__}")
    if not -(1 << 31) <= n < 1 << 31:
        raise ValueError(f"Overflow when unpacking long{'' if -(1 << 63) <= n < 1 << 63 else ' long'}")
    if n <= 0:
        raise RuntimeError(f"{name} expects a positive integer")
    _threads[kind] = n


def get_num_threads() -> int:
    """The number of threads given to `set_num_threads`; at first, that of the usable CPUs."""
    return _threads["intra"]


def set_num_threads(n: int) -> None:
    """Sets the number of threads of kernels that run without XLA, whose pool keeps the size it started with.

    Raises:
        RuntimeError: unless ``n`` is a positive int.
    """
    _set_threads("intra", "set_num_threads", n)
    if _kernels is not None:
        _kernels.set_threads(n)


_interop_set: list[int] = []


def get_num_interop_threads() -> int:
    """The number given to `set_num_interop_threads`."""
    return _threads["inter"]


def set_num_interop_threads(n: int) -> None:
    """Notes a number of threads for parallel operations; XLA chooses its own.

    Raises:
        RuntimeError: unless ``n`` is a positive int, and from the second call on.
    """
    _set_threads("inter", "set_num_interop_threads", n)
    if _interop_set:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or set_num_interop_threads called"
        )
    _interop_set.append(n)


# --- precision -----------------------------------------------------------------------

# JAX's name for each: float32 throughout, TensorFloat32, bfloat16 passes.
_PRECISIONS = {"highest": "highest", "high": "high", "medium": "default"}
_precision = "highest"
precision_set = 0  # how often


def get_float32_matmul_precision() -> str:
    """How float32 matrices are multiplied: see `set_float32_matmul_precision`."""
    return _precision


def set_float32_matmul_precision(precision: str) -> None:
    """Sets how float32 matrices are multiplied on accelerators.

    Args:
        precision: "highest" (float32 throughout, the default), "high" (TensorFloat32, or bfloat16
            in three passes) or "medium" (the fastest of the device). CPUs always use float32.

    Another name changes nothing, with a warning.

    >>> import ftorch as torch
    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    global _precision, precision_set
    if precision not in _PRECISIONS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the currentsetFloat32MatmulPrecision call has no "
            "effect.",
            stacklevel=2,
        )
        return
    if precision != _precision:
        executor.flush()  # what was called before is as precise as was set then
    _precision = precision
    precision_set += 1
    jax_scope.set_precision(_PRECISIONS[precision])


def set_flush_denormal(mode: bool) -> bool:
    """False: XLA decides how subnormal numbers are treated (they are kept on the CPU)."""
    return False


# --- determinism ---------------------------------------------------------------------

_deterministic = {"mode": False, "warn_only": False}


def use_deterministic_algorithms(mode: builtins.bool, *, warn_only: builtins.bool = False) -> None:
    """Notes the wish for deterministic operations.

    XLA's programs for CPUs and TPUs always are; on NVIDIA GPUs, start Python with
    ``XLA_FLAGS=--xla_gpu_deterministic_ops=true``.

    Raises:
        TypeError: unless the arguments are bools.
    """
    for name, value in (("mode' (position 1)", mode), ("warn_only'", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"_set_deterministic_algorithms(): argument '{name} must be bool, not {type(value).__name__}"
            )
    _deterministic.update(mode=mode, warn_only=warn_only)
    fill.is_deterministic = mode
    determinism.is_asked, determinism.only_warns = mode, warn_only


def are_deterministic_algorithms_enabled() -> builtins.bool:
    """Whether `use_deterministic_algorithms` was asked for."""
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> builtins.bool:
    """Whether operations without a deterministic form would only warn."""
    return _deterministic["warn_only"]


_DEBUG_MODES = {"default": 0, "warn": 1, "error": 2}


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a mode: "default" (0), "warn" (1) or "error" (2).

    Raises:
        TypeError, RuntimeError: for other modes.
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got "
                f"{debug_mode}"
            )
        debug_mode = _DEBUG_MODES[debug_mode]
    if debug_mode not in _DEBUG_MODES.values():
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """The mode as a number: see `set_deterministic_debug_mode`."""
    if not _deterministic["mode"]:
        return 0
    return 1 if _deterministic["warn_only"] else 2


def set_warn_always(b: builtins.bool) -> None:
    """Whether warnings that are given once in a process are given each time."""
    user_warnings.always[0] = bool(b)


def is_warn_always_enabled() -> builtins.bool:
    """What was given to `set_warn_always`."""
    return user_warnings.always[0]


# --- default types -------------------------------------------------------------------


def set_default_tensor_type(t) -> None:
    """Sets the default dtype and device by a tensor type, ``torch.DoubleTensor`` or its name.

    Raises:
        TypeError: unless it is a floating-point type.
    """
    user_warnings.warn_once(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives."
    )
    if isinstance(t, str) or isinstance(t, _TypeMeta):
        where, dtype = ("cpu", *type_target(t))[-2:]
        if dtype.is_floating_point:
            set_default_dtype(dtype)
            _device.set_default_device(where)
            return
        raise TypeError("only floating-point types are supported as the default type")
    raise TypeError("invalid type object: only floating-point types are supported as the default type")
