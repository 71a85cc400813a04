"""Products of Householder reflectors, as QR factorizations leave them."""

from __future__ import annotations

import jax.numpy as jnp

from ...core.registry import op
from .._common import dtype_name
from ..nn._windows import sizes
from ._checks import adjoint, columns, product, require_kernel, twin
from .solve import triangular


def _reflectors(a, tau):
    """``V`` and ``T`` of the compact form ``I - V T V^H`` of ``H_1 H_2 ... H_k``."""
    k = tau.shape[-1]
    v = jnp.tril(a[..., :k], -1) + jnp.eye(a.shape[-2], k, dtype=a.dtype)
    overlaps = jnp.triu(product(adjoint(v), v), 1) * tau[..., None, :]
    identity = jnp.broadcast_to(jnp.eye(k, dtype=a.dtype), overlaps.shape)
    t = tau[..., :, None] * triangular(identity + overlaps, identity, upper=True, unit=True)
    return v, t


@op("linalg_householder_product(Tensor input, Tensor tau) -> Tensor", forms="function out",
    layout=columns(0))
def linalg_householder_product(input, tau):
    """The first columns of ``H_1 H_2 ... H_k`` for Householder vectors below the diagonal.

    Args:
        input: (..., m, n) with m >= n; tau: (..., k) with k <= n, the reflectors' factors.
    """
    name = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    m, n = input.shape[-2:]
    if m < n:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if n < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal "
            f"to {tau.ndim} and input.ndim is equal to {input.ndim}"
        )
    if input.shape[:-2] != tau.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{sizes(tau.shape[:-1])}"
        )
    if input.dtype != tau.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {dtype_name(tau.dtype)} does not match input dtype "
            f"{dtype_name(input.dtype)}"
        )
    require_kernel(input, "orgqr_cpu")
    v, t = _reflectors(input, tau)
    return jnp.eye(m, n, dtype=input.dtype) - product(v, product(t, adjoint(v[..., :n, :])))


orgqr = twin(
    linalg_householder_product, "orgqr(Tensor self, Tensor input2) -> Tensor",
    forms="function method out",
)


@op("ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> "
    "Tensor", forms="function method out", layout=columns(0))
def ormqr(self, input2, input3, left, transpose):
    """``Q other`` (``other Q`` with ``left=False``) for Q of `torch.geqrf`, without forming Q."""
    for name, x in (("input", self), ("other", input3)):
        if x.ndim < 2:
            raise RuntimeError(f"torch.ormqr: {name} must have at least 2 dimensions.")
    side = "-2" if left else "-1"
    rows = input3.shape[-2 if left else -1]
    if rows < input2.shape[-1]:
        raise RuntimeError(
            f"torch.ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]"
        )
    if rows != self.shape[-2]:
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if input2.shape[-1] != min(rows, self.shape[-1]):
        raise RuntimeError(
            f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    for name, x, core, much in (
        ("tau", input2, 1, "one dimension less than"),
        ("other", input3, 2, "the same number of dimensions as"),
    ):
        if x.ndim - core != self.ndim - 2:
            raise RuntimeError(
                f"torch.ormqr: Expected {name} to have {much} input, but got {name}.ndim equal to "
                f"{x.ndim} and input.ndim is equal to {self.ndim}"
            )
        if x.shape[: x.ndim - core] != self.shape[:-2]:
            raise RuntimeError(
                f"torch.ormqr: Expected batch dimensions of {name} to be equal to "
                f"input.shape[:-2], but got {sizes(x.shape[: x.ndim - core])}"
            )
        if x.dtype != self.dtype:
            raise RuntimeError(
                f"torch.ormqr: Expected input and {name} to have the same dtype, but input has "
                f"dtype{dtype_name(self.dtype)} and {name} has dtype {dtype_name(x.dtype)}"
            )
    require_kernel(self, "ormqr_cpu")
    v, t = _reflectors(self, input2)
    t = adjoint(t) if transpose else t
    if left:
        return input3 - product(v, product(t, product(adjoint(v), input3)))
    return input3 - product(product(product(input3, v), t), adjoint(v))
