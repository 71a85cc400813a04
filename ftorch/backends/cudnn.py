"""``torch.backends.cudnn``: flags of XLA's library on GPUs.

``benchmark`` lets XLA try out which kernel of a product or a convolution is fastest, in the programs that are compiled from
then on; the others are remembered. Trying takes seconds a program, and may choose another kernel in the next process.
"""

from __future__ import annotations

from ..eager.core.device import jax_devices
from ..eager.core.jax_internals import cudnn_version
from ..eager.runtime import compilation
from . import make_flags
from .precision import Precision
from .precision import allow_tf32 as _allow_tf32
from .precision import allows_tf32 as _allows_tf32

conv, rnn = Precision("cuda", "conv"), Precision("cuda", "rnn")


def is_available() -> bool:
    """Whether there is a GPU, for which XLA uses cuDNN."""
    return bool(jax_devices("cuda"))


def version() -> int | None:
    """The version of cuDNN that JAX found, or None."""
    return cudnn_version() if is_available() else None


def is_acceptable(tensor) -> bool:
    """Whether cuDNN may work on a tensor."""
    return is_available() and tensor.is_cuda and tensor.dtype.is_floating_point


make_flags(
    __name__, precision="cuda", enabled=True, benchmark=False, benchmark_limit=10, deterministic=False,
    allow_tf32=True, acts={"benchmark": compilation.try_kernels, "allow_tf32": _allow_tf32},
    reads={"allow_tf32": _allows_tf32},
    bools={
        "enabled": "set_enabled_cudnn", "benchmark": "set_benchmark_cudnn", "deterministic": "set_deterministic_cudnn",
        "allow_tf32": "set_allow_tf32_cublas",
    },
)
