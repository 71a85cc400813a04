"""What is known of Triton (``torch.utils._triton``): its kernels do not run here, XLA compiles for GPUs."""

from __future__ import annotations


def has_triton_package() -> bool:
    """Whether Triton can be imported and its kernels be launched on tensors: they cannot.

    >>> import ftorch as torch
    >>> torch.utils._triton.has_triton()
    False
    """
    return False


def has_triton() -> bool:
    """Whether a device runs Triton's kernels."""
    return False


def has_triton_tma() -> bool:
    """Whether kernels may use the tensor memory accelerator."""
    return False


has_triton_tma_device = has_triton_experimental_host_tma = has_triton_tensor_descriptor_host_tma = has_triton_tma
has_triton_stable_tma_api = has_datacenter_blackwell_tma_device = has_triton_tma


def triton_backend():
    """Triton's backend for this machine.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("Triton's kernels do not run on XLA's devices; write them in JAX (jax.experimental.pallas)")


def triton_hash_with_backend():
    """A hash of Triton and its backend: see `triton_backend`."""
    return triton_backend()
