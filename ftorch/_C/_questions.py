"""What is there and what is switched on, as ``torch._C`` is asked."""

from __future__ import annotations

from ..eager.core.formats import strided
from ..eager.dispatch.overrides import HiddenModes
from ..eager.tensor import modes
from ..overrides import has_torch_function as _has_torch_function
from ..overrides import has_torch_function_unary as _has_torch_function_unary
from ..overrides import has_torch_function_variadic as _has_torch_function_variadic

__all__ = [
    "_has_distributed", "_has_storage", "_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic",
    "_is_any_autocast_enabled", "_is_autocast_available", "_is_multithreading_enabled", "_is_torch_function_all_disabled",
    "_is_view_replay_enabled", "_mps_is_available", "_mps_is_in_bad_fork", "_mps_is_on_macos_or_newer",
]


def _mps_is_available() -> bool:
    """Whether Apple's devices can be used: never, which a test may replace."""
    return False


def _mps_is_in_bad_fork() -> bool:
    """False: nothing of Apple's devices is lost in a forked process."""
    return False


def _mps_is_on_macos_or_newer(major: int, minor: int) -> bool:
    """Raises RuntimeError: there is no MPS backend."""
    raise RuntimeError("Cannot execute isOnMacOSorNewer() without MPS backend.")


def _is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for a device type. Raises RuntimeError for one that does not exist."""
    from ..amp.autocast_mode import is_autocast_available

    return is_autocast_available(device_type)


def _is_any_autocast_enabled() -> bool:
    """Whether autocast is on for a device type in this thread.

    >>> import ftorch as torch
    >>> with torch.autocast("cpu"):
    ...     torch._C._is_any_autocast_enabled()
    True
    """
    from ..amp.autocast_mode import is_autocast_available, is_autocast_enabled

    return any(is_autocast_enabled(t) for t in ("cpu", "cuda", "xpu", "hpu", "mtia", "xla", "mps", "ipu", "maia")
               if is_autocast_available(t))


def _is_multithreading_enabled() -> bool:
    """Whether backward passes may use several threads (`torch.autograd.set_multithreading_enabled`)."""
    from ..autograd.grad_mode import is_multithreading_enabled

    return is_multithreading_enabled()


def _is_view_replay_enabled() -> bool:
    """Whether views that were written to are made again call by call (`torch.autograd.set_view_replay_enabled`)."""
    from ..autograd.grad_mode import is_view_replay_enabled

    return is_view_replay_enabled()


def _is_torch_function_all_disabled() -> bool:
    """Whether neither subclasses nor modes see calls."""
    return not modes.subclasses and isinstance(modes.function_modes, HiddenModes)


def _has_storage(tensor) -> bool:
    """Whether a tensor has memory of its own: not a sparse one."""
    return tensor.layout is strided


def _has_distributed() -> bool:
    """Whether there is ``torch.distributed``."""
    return True
