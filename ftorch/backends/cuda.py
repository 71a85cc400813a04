"""``torch.backends.cuda``: matrix products and attention on GPUs."""

from __future__ import annotations

import contextlib

from .. import _settings
from ..eager.device import jax_devices

__all__ = [
    "allow_fp16_bf16_reduction_math_sdp", "cudnn_sdp_enabled", "enable_cudnn_sdp",
    "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed", "is_built", "is_flash_attention_available",
    "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled", "preferred_blas_library",
    "preferred_linalg_library", "sdp_kernel",
]  # fmt: skip


def is_built() -> bool:
    """Whether JAX has GPUs here."""
    return bool(jax_devices("cuda"))


class _Matmul:
    """Flags of matrix products on GPUs.

    Attributes:
        allow_tf32: the same setting as ``set_float32_matmul_precision``.
        allow_fp16_reduced_precision_reduction, allow_bf16_reduced_precision_reduction,
        allow_fp16_accumulation: remembered; XLA accumulates in float32.
    """

    def __init__(self):
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        return _settings.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool):
        _settings.set_float32_matmul_precision("high" if value else "highest")


matmul = _Matmul()

# Which forms of attention may be chosen. There is one kernel, which XLA lowers; programs switch
# these to get PyTorch's fused ones.
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True, "reduction": False}


def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` set."""
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Notes whether flash attention may be used."""
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` set."""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Notes whether memory-efficient attention may be used."""
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` set."""
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Notes whether plain attention may be used."""
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` set."""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Notes whether cuDNN's attention may be used."""
    _attention["cudnn"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What `allow_fp16_bf16_reduction_math_sdp` set."""
    return _attention["reduction"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Notes whether plain attention may add in half precision."""
    _attention["reduction"] = bool(enabled)


def is_flash_attention_available() -> bool:
    """False: XLA's lowering of attention is used everywhere."""
    return False


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Sets which forms of attention may be chosen inside the block."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield {}
    finally:
        _attention.update(before)


_preferred = {"linalg": "default", "blas": "default"}


def preferred_linalg_library(backend=None) -> str:
    """Notes, and gives, the library wished for linear algebra; XLA chooses."""
    _preferred["linalg"] = _preferred["linalg"] if backend is None else backend
    return _preferred["linalg"]


def preferred_blas_library(backend=None) -> str:
    """Notes, and gives, the library wished for matrix products; XLA chooses."""
    _preferred["blas"] = _preferred["blas"] if backend is None else backend
    return _preferred["blas"]
