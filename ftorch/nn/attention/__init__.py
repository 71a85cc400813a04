"""``torch.nn.attention``: which kernels attention may use, biases, and attention with own scores."""

from __future__ import annotations

import enum

from ...backends import cuda as _settings
from ...eager.native.contexts import contextmanager, putting_back

__all__ = [
    "SDPBackend",
    "WARN_FOR_UNFUSED_KERNELS",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """The kernels that `torch.nn.functional.scaled_dot_product_attention` is said to use.

    One kernel makes all of them here. On the CPU what the choice does not allow is refused, as in PyTorch.
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self):
        return self.value

    __index__ = __int__


# What turns each on and says whether it is; overrideable kernels are for backends that do not exist here.
_SWITCHES = {
    SDPBackend.CUDNN_ATTENTION: (_settings.enable_cudnn_sdp, _settings.cudnn_sdp_enabled),
    SDPBackend.FLASH_ATTENTION: (_settings.enable_flash_sdp, _settings.flash_sdp_enabled),
    SDPBackend.EFFICIENT_ATTENTION: (
        _settings.enable_mem_efficient_sdp, _settings.mem_efficient_sdp_enabled,
    ),
    SDPBackend.MATH: (_settings.enable_math_sdp, _settings.math_sdp_enabled),
}


def _cur_sdpa_kernel_backends(with_priority=False):
    return [backend for backend, (_, enabled) in _SWITCHES.items() if enabled()]


def _sdpa_kernel(backends):
    for backend, (enable, _) in _SWITCHES.items():
        enable(backend in backends)


@contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Allows only some kernels for attention in a block.

    Args:
        backends: an `SDPBackend` or a list of them.
        set_priority: whether their order is the order of preference.

    >>> import ftorch as torch
    >>> from ftorch.nn.attention import SDPBackend, sdpa_kernel
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     torch.backends.cuda.flash_sdp_enabled()
    False
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    with putting_back(_sdpa_kernel, _cur_sdpa_kernel_backends()):
        _sdpa_kernel([backends] if isinstance(backends, SDPBackend) else backends)
        yield {}


_implementations: dict = {}
_active: list = [None]


def register_flash_attention_impl(impl, *, register_fn):
    """Registers an implementation of flash attention: ``register_fn()`` installs it."""
    _implementations[impl] = register_fn


def activate_flash_attention_impl(impl):
    """Installs a registered implementation. Raises ValueError for an unknown one."""
    if impl not in _implementations:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: "
            f"{list_flash_attention_impls()}"
        )
    if _active[0] is not None:
        restore_flash_attention_impl()
    _active[0] = (impl, _implementations[impl]())


def restore_flash_attention_impl():
    """Removes the active implementation."""
    if _active[0] is not None:
        handle = _active[0][1]
        _active[0] = None
        if handle is not None:
            handle.remove()


def list_flash_attention_impls() -> list[str]:
    """The names of the registered implementations, sorted."""
    return sorted(_implementations)


def current_flash_attention_impl():
    """The name of the active implementation, or None."""
    return None if _active[0] is None else _active[0][0]
