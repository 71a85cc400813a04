"""``torch.backends.cudnn``: flags that XLA's own choices stand for."""

from __future__ import annotations

from ..eager.device import jax_devices
from . import make_flags


def is_available() -> bool:
    """Whether there is a GPU, for which XLA uses cuDNN."""
    return bool(jax_devices("cuda"))


def version() -> int | None:
    """The version of cuDNN that JAX found, or None."""
    if not is_available():
        return None
    from jax._src.lib import cuda_versions

    return None if cuda_versions is None else cuda_versions.cudnn_get_version()


def is_acceptable(tensor) -> bool:
    """Whether cuDNN may work on a tensor."""
    return is_available() and tensor.is_cuda and tensor.dtype.is_floating_point


make_flags(
    __name__, enabled=True, benchmark=False, benchmark_limit=10, deterministic=False,
    allow_tf32=True, fp32_precision="none",
)  # fmt: skip
