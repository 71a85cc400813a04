"""``torch.backends.cuda``: matrix products and attention on GPUs."""

from __future__ import annotations

from ..eager.core.device import jax_devices
from ..eager.functions.nn import attention_choice as _attention_choice
from ..eager.native.contexts import contextmanager, putting_back
from ..eager.surface import settings as _settings
from .precision import Precision

__all__ = [
    "allow_fp16_bf16_reduction_math_sdp", "cudnn_sdp_enabled", "enable_cudnn_sdp",
    "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed", "is_built", "is_flash_attention_available",
    "math_sdp_enabled", "matmul", "mem_efficient_sdp_enabled", "preferred_blas_library",
    "preferred_linalg_library", "sdp_kernel",
    "SDPAParams", "can_use_cudnn_attention", "can_use_efficient_attention", "can_use_flash_attention",
    "cufft_plan_cache",
]


def __getattr__(name):
    if name == "SDPBackend":
        import importlib  # what stands above

        return importlib.import_module(f"{__name__.partition('.')[0]}.nn.attention").SDPBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_built() -> bool:
    """Whether JAX has GPUs here."""
    return bool(jax_devices("cuda"))


class _Matmul(Precision):
    """Flags of matrix products on GPUs.

    Attributes:
        allow_tf32: the same setting as ``set_float32_matmul_precision``.
        allow_fp16_reduced_precision_reduction, allow_bf16_reduced_precision_reduction,
        allow_fp16_accumulation: remembered; XLA accumulates in float32.
    """

    def __init__(self):
        super().__init__("cuda", "matmul")
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False
        self._names = tuple(self.__dict__)  # that may be set from here on

    @property
    def allow_tf32(self) -> bool:
        return _settings.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool):
        if type(value) is not bool:
            raise RuntimeError(f"set_allow_tf32_cublas expects a bool, but got {type(value).__name__}")
        _settings.set_float32_matmul_precision("high" if value else "highest")


    def __getattr__(self, name):
        raise AttributeError(f"Unknown attribute {name}")

    def __setattr__(self, name, value):
        if name not in self.__dict__ and not hasattr(type(self), name) and "_names" in self.__dict__:
            raise AttributeError(f"Unknown attribute {name}")
        super().__setattr__(name, value)


matmul = _Matmul()

def flash_sdp_enabled() -> bool:
    """What `enable_flash_sdp` set."""
    return _attention_choice.allowed["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Notes whether flash attention may be used."""
    _attention_choice.allowed["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What `enable_mem_efficient_sdp` set."""
    return _attention_choice.allowed["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Notes whether memory-efficient attention may be used."""
    _attention_choice.allowed["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What `enable_math_sdp` set."""
    return _attention_choice.allowed["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Notes whether plain attention may be used."""
    _attention_choice.allowed["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What `enable_cudnn_sdp` set."""
    return _attention_choice.allowed["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Notes whether cuDNN's attention may be used."""
    _attention_choice.allowed["cudnn"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What `allow_fp16_bf16_reduction_math_sdp` set."""
    return _attention_choice.allowed["reduction"]


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Notes whether plain attention may add in half precision."""
    _attention_choice.allowed["reduction"] = bool(enabled)


def is_flash_attention_available() -> bool:
    """False: XLA's lowering of attention is used everywhere."""
    return False


@contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Sets which forms of attention may be chosen inside the block."""
    with putting_back(_attention_choice.allowed.update, dict(_attention_choice.allowed)):
        _attention_choice.allowed.update(
            flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
        )
        yield {}


_preferred = {"linalg": "default", "blas": "default"}


def preferred_linalg_library(backend=None) -> str:
    """Notes, and gives, the library wished for linear algebra; XLA chooses."""
    _preferred["linalg"] = _preferred["linalg"] if backend is None else backend
    return _preferred["linalg"]


def preferred_blas_library(backend=None) -> str:
    """Notes, and gives, the library wished for matrix products; XLA chooses."""
    _preferred["blas"] = _preferred["blas"] if backend is None else backend
    return _preferred["blas"]


# --- which attention ---------------------------------------------------------------------


class SDPAParams:
    """The arguments of `torch.nn.functional.scaled_dot_product_attention`."""

    def __init__(self, query, key, value, attn_mask=None, dropout=0.0, is_causal=False, enable_gqa=False):
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: XLA's lowering of attention is used everywhere."""
    return False


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: XLA's lowering of attention is used everywhere."""
    return False


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """False: XLA's lowering of attention is used everywhere."""
    return False


class _PlanCache:
    """Plans of Fourier transforms on a GPU: XLA keeps them; the sizes are what programs set."""

    def __init__(self):
        self.max_size = 4096
        self.size = 0

    def clear(self):
        """Does nothing: XLA keeps its plans."""


class _PlanCaches:
    """The plan caches of the GPUs; attributes are those of this thread's."""

    def __init__(self):
        self.__dict__["_caches"] = {}

    def __getitem__(self, device):
        import ftorch

        index = device if isinstance(device, int) else ftorch.device(device).index or 0
        if not 0 <= index < len(jax_devices("cuda")):
            raise RuntimeError(
                f"cufft_plan_cache: expected 0 <= device index < {len(jax_devices('cuda'))}, but got device with "
                f"index {index}"
            )
        return self._caches.setdefault(index, _PlanCache())

    def _current(self):
        import ftorch

        return self[ftorch.cuda.current_device()]

    def __getattr__(self, name):
        if name not in ("size", "max_size", "clear"):
            raise AttributeError(name)
        return getattr(self._current(), name)

    def __setattr__(self, name, value):
        setattr(self._current(), name, value)


cufft_plan_cache = _PlanCaches()
