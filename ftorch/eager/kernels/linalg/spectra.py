"""Singular values and eigenvalues."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.dtype import from_numpy
from ...core.registry import op
from .._common import is_complex
from ._checks import (
    adjoint,
    columns,
    diagonal,
    diagonal_matrix,
    fail,
    product,
    require_float,
    require_kernel,
    require_matrix,
    require_square,
    tiny_divide,
    zeros_for_missing,
)


def _differences(x):
    """``x_j - x_i`` off the diagonal, 1 on it."""
    return x[..., None, :] - x[..., :, None] + jnp.eye(x.shape[-1], dtype=x.dtype)


def _split_diagonal(x):
    """The diagonal of square matrices, and the matrices without it."""
    found = diagonal(x)
    return found, x - diagonal_matrix(found)


# --- singular values ----------------------------------------------------------------------


def _require_svd(A, driver=None):
    require_matrix(A, "linalg.svd")
    require_float(A, "linalg.svd")
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )


def check_finite(a):
    """Raises where the singular values of NumPy matrices cannot be computed."""
    fail(
        "linalg.svd", np.isnan(a).any((-2, -1)),
        "The algorithm failed to converge because the input matrix contained non-finite values.",
    )


def _svd_backward(grads, factors):
    """The gradient from those of the reduced factors."""
    gu, gs, gv = grads[0], grads[1], adjoint(grads[2])
    u, s, v = factors[0], factors[1], adjoint(factors[2])
    # E_ij = s_j^2 - s_i^2, in the form that loses no digits.
    gaps = _differences(s) * (s[..., None, :] + s[..., :, None])
    u_projected, v_projected = product(adjoint(u), gu), product(adjoint(v), gv)
    phase, u_skew = _split_diagonal(u_projected - adjoint(u_projected))
    _, v_skew = _split_diagonal(v_projected - adjoint(v_projected))
    u_skew, v_skew = tiny_divide(u_skew, gaps), tiny_divide(v_skew, gaps)
    middle = u_skew * s[..., None, :] + s[..., :, None] * v_skew
    stretch = gs.astype(u.dtype)
    if is_complex(u):
        # The phases of U and V turn together, so that only their common one counts.
        stretch = stretch + tiny_divide(0.5 * phase, s.astype(u.dtype))
    result = product(u, product(middle + diagonal_matrix(stretch), adjoint(v)))
    # What the columns of U (of V) get from outside of their own span.
    m, k, n = u.shape[-2], s.shape[-1], v.shape[-2]
    if m > k:
        outside = gu - product(u, u_projected)
        result = result + product(tiny_divide(outside, s[..., None, :]), adjoint(v))
    if n > k:
        outside = gv - product(v, v_projected)
        result = result + product(u, adjoint(tiny_divide(outside, s[..., None, :])))
    return result


def _reduced(u, s, vh):
    """Without the columns that only complete a basis."""
    k = s.shape[-1]
    return u[..., :k], s, vh[..., :k, :]


@jax.custom_jvp
def _complete_svd(a):
    """U and V square; forward mode leaves the columns that only complete a basis alone."""
    return tuple(lax.linalg.svd(a, full_matrices=True))


@_complete_svd.defjvp
def _(primals, tangents):
    reduced = functools.partial(lax.linalg.svd, full_matrices=False)
    _, (du, ds, dvh) = jax.jvp(reduced, primals, tangents)
    u, s, vh = _complete_svd(*primals)
    rows = [(0, 0)] * (du.ndim - 1)
    du = jnp.pad(du, [*rows, (0, u.shape[-1] - du.shape[-1])])
    dvh = jnp.pad(dvh, [*rows[:-1], (0, vh.shape[-2] - dvh.shape[-2]), (0, 0)])
    return (u, s, vh), (du, ds, dvh)


def _svd(a, full_matrices):
    m, n = a.shape[-2:]
    if full_matrices and m != n:
        return _complete_svd(a)
    return tuple(lax.linalg.svd(a, full_matrices=False))


@op("linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> "
    "(Tensor U, Tensor S, Tensor Vh)", forms="function out", layout=columns(0, 2))
def linalg_svd(A, full_matrices, driver):
    """The singular value decomposition ``A = U diag(S) Vh``.

    Args:
        A: (..., m, n).
        full_matrices: whether U and Vh are square.

    Returns:
        ``U``, ``S`` (descending) and ``Vh``.

    Raises:
        torch.linalg.LinAlgError: if a matrix contains nan.

    >>> import ftorch as torch
    >>> torch.linalg.svd(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    _require_svd(A, driver)
    return _svd(A, full_matrices)


@linalg_svd.derivative
def _(grad, result):
    return _svd_backward(_reduced(*zeros_for_missing(grad, result)), _reduced(*result))


@op("linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", forms="function out")
def linalg_svdvals(A, driver):
    """The singular values of matrices, in descending order.

    Raises:
        torch.linalg.LinAlgError: if a matrix contains nan.

    >>> import ftorch as torch
    >>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor([4., 3.])
    """
    _require_svd(A, driver)
    return lax.linalg.svd(A, compute_uv=False)


@linalg_svdvals.derivative
def _(grad, A):
    u, _, vh = lax.linalg.svd(A, full_matrices=False)
    return product(u * grad[..., None, :], vh)


for _op in (linalg_svd, linalg_svdvals):

    @_op.check(waits=True)
    def _(A):
        check_finite(A)


@op("svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    forms="function method out", layout=columns(0))
def svd(self, some, compute_uv):
    """`torch.linalg.svd` in its older form, with V instead of its conjugate transpose."""
    if self.ndim < 2:
        raise RuntimeError(
            "linalg.svd: input should have at least 2 dimensions, but has "
            f"{self.ndim} dimensions instead"
        )
    _require_svd(self)
    if compute_uv:
        u, s, vh = _svd(self, not some)
        return u, s, adjoint(vh)
    m, n = self.shape[-2:]
    batch = self.shape[:-2]
    values = lax.linalg.svd(self, compute_uv=False)
    return jnp.zeros((*batch, m, m), self.dtype), values, jnp.zeros((*batch, n, n), self.dtype)


@svd.derivative
def _(grad, self, compute_uv, result):
    gu, gs, gv = zeros_for_missing(grad, result)
    if not compute_uv:
        return linalg_svdvals.backward(gs, A=self)
    u, s, v = result
    return _svd_backward(_reduced(gu, gs, adjoint(gv)), _reduced(u, s, adjoint(v)))


@svd.check(waits=True)
def _(self):
    check_finite(self)


# --- Hermitian eigenvalues ----------------------------------------------------------------


def _eigh(a, uplo, *, vectors):
    require_square(a, "linalg.eigh")
    require_kernel(a, "linalg_eigh_cpu")
    if uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    if not vectors and not a.shape[-1]:
        return jnp.zeros(a.shape[:-1], a.real.dtype), a
    v, w = lax.linalg.eigh(a, lower=uplo.upper() == "L", symmetrize_input=False)
    return w, v


@op("linalg_eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)",
    forms="function out", layout=columns(1))
def linalg_eigh(self, UPLO):
    """Eigenvalues (ascending) and orthonormal eigenvectors of Hermitian matrices.

    Args:
        UPLO: "L" or "U", the triangle that is read.

    Raises:
        torch.linalg.LinAlgError: if a matrix contains infinities.

    >>> import ftorch as torch
    >>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    return _eigh(self, UPLO, vectors=True)


@linalg_eigh.derivative
def _(grad, result):
    (gw, gv), (w, v) = zeros_for_missing(grad, result), result
    projected = product(adjoint(v), gv)
    _, skew = _split_diagonal(0.5 * (projected - adjoint(projected)))
    inner = tiny_divide(skew, _differences(w)) + diagonal_matrix(gw.astype(v.dtype))
    return product(v, product(inner, adjoint(v)))


@op("linalg_eigvalsh(Tensor self, str UPLO='L') -> Tensor", forms="function out")
def linalg_eigvalsh(self, UPLO):
    """The eigenvalues of Hermitian matrices, in ascending order: see `torch.linalg.eigh`."""
    return _eigh(self, UPLO, vectors=False)[0]


@linalg_eigvalsh.derivative
def _(grad, self, UPLO):
    # Its own gradient is that of a Hermitian matrix, not of the triangle that is read.
    half = (self + adjoint(self)) / 2
    _, v = _eigh(lax.stop_gradient(self) + (half - lax.stop_gradient(half)), UPLO, vectors=True)
    return product(v * grad[..., None, :], adjoint(v))


def _check_eigh(a):
    fail(
        "linalg.eigh", np.isinf(a).any((-2, -1)),
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
        f"many repeated eigenvalues (error code: {a.shape[-1] - 1}).",
    )


for _op in (linalg_eigh, linalg_eigvalsh):

    @_op.check(waits=True)
    def _(self):
        _check_eigh(self)


# --- eigenvalues --------------------------------------------------------------------------


@jax.custom_jvp
def _geev(a):
    return tuple(lax.linalg.eig(a, compute_left_eigenvectors=False))


@_geev.defjvp
def _(primals, tangents):
    w, v = _geev(*primals)
    change = jnp.linalg.solve(v, product(tangents[0].astype(v.dtype), v))
    dw, off_diagonal = _split_diagonal(change)
    dv = product(v, off_diagonal / _differences(w))
    # The norms stay 1.
    lengthening = jnp.sum((jnp.conj(v) * dv).real, axis=-2, keepdims=True)
    return (w, v), (dw, dv - v * lengthening)


def _eig(a):
    """Eigenvalues and right eigenvectors of norm 1, complex."""
    require_square(a, "linalg.eig")
    if from_numpy(a.dtype).to_complex().category != 3:
        raise RuntimeError(f"Unknown Complex ScalarType for {from_numpy(a.dtype).scalar_name}")
    require_kernel(a, "linalg_eig_cpu")
    return _geev(a)


def _eig_backward(gw, gv, w, v, a):
    """``V^-H (diag(gW) + (V^H gV - V^H V Re(diag(V^H gV))) / conj(E)) V^H``."""
    inner = diagonal_matrix(gw)
    if gv is not None:
        projected = product(adjoint(v), gv)
        norms = diagonal(projected).real.astype(v.dtype)
        projected = projected - product(adjoint(v), v) * norms[..., None, :]
        _, off_diagonal = _split_diagonal(projected)
        inner = inner + tiny_divide(off_diagonal, jnp.conj(_differences(w)))
    result = jnp.linalg.solve(adjoint(v), product(inner, adjoint(v)))
    return result if is_complex(a) else result.real


@op("linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", forms="function out",
    layout=columns(1))
def linalg_eig(self):
    """Eigenvalues and right eigenvectors of norm 1 of square matrices; complex.

    Raises:
        RuntimeError: if the input contains infinities or nan.

    >>> import ftorch as torch
    >>> torch.linalg.eig(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.imag.abs()
    tensor([1., 1.])
    """
    return _eig(self)


@linalg_eig.derivative
def _(grad, self, result):
    return _eig_backward(*zeros_for_missing(grad, result), *result, self)


@op("linalg_eigvals(Tensor self) -> Tensor", forms="function out")
def linalg_eigvals(self):
    """The eigenvalues of square matrices: see `torch.linalg.eig`."""
    # Computed with the vectors, so that the gradient finds them in the same order.
    return _eig(self)[0]


@linalg_eigvals.derivative
def _(grad, self):
    return _eig_backward(grad, None, *_eig(self), self)


for _op in (linalg_eig, linalg_eigvals):

    @_op.check(waits=True)
    def _(self):
        if not np.isfinite(self).all():
            raise RuntimeError("torch.linalg.eig: input tensor should not contain infs or NaNs.")
