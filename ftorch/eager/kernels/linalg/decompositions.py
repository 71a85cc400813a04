"""Triangular factorizations of matrices: Cholesky, QR, LU, LDL."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import op
from ...core.user_warnings import warn_once
from .._common import dtype_name
from ..nn._windows import sizes
from ._checks import (
    FAILURES,
    adjoint,
    check_lu,
    columns,
    diagonal,
    diagonal_matrix,
    fail,
    first_zero_pivot,
    lapack,
    product,
    require_float,
    require_kernel,
    require_matrix,
    require_square,
    zeros_for_missing,
)

# --- Cholesky -----------------------------------------------------------------------------


def _cholesky(a, upper):
    """The factor; nan in all of it where the matrix is not positive definite."""
    lower = lax.linalg.cholesky(adjoint(a) if upper else a, symmetrize_input=False)
    return adjoint(lower) if upper else lower


def _partial_cholesky(a):
    """LAPACK's result where a minor fails: the columns before it are factored, the others kept.

    Returns that for one lower triangle, and the order of the first minor that fails (or 0).
    """
    n = a.shape[-1]
    rows, columns = jnp.arange(n)[:, None], jnp.arange(n)[None, :]

    def step(j, state):
        rest, factor, info = state
        pivot = rest[j, j].real
        fails = ~(pivot > 0)
        root = jnp.sqrt(pivot).astype(a.dtype)
        column = jnp.where(rows[:, 0] > j, rest[:, j], 0) / root
        rest = rest - column[:, None] * jnp.conj(column)[None, :]
        done = jnp.where(columns == j, (column + jnp.where(rows[:, 0] == j, root, 0))[:, None],
                         factor)
        stopped = jnp.where((rows == j) & (columns == j), pivot.astype(a.dtype), factor)
        factor = jnp.where(info > 0, factor, jnp.where(fails, stopped, done))
        return rest, factor, jnp.where((info == 0) & fails, j + 1, info).astype(jnp.int32)

    _, factor, info = lax.fori_loop(0, n, step, (a, jnp.tril(a), jnp.int32(0)))
    return factor, info


def _cholesky_backward(grad, factor, upper):
    """``L^-H S L^-1 / 2``, S being the lower triangle of ``L^H gL``, mirrored."""
    lower, grad = (adjoint(factor), adjoint(grad)) if upper else (factor, grad)
    inner = product(adjoint(lower), grad)
    inner = jnp.tril(inner) + adjoint(jnp.tril(inner, -1))
    inner = lax.linalg.triangular_solve(
        lower, 0.5 * inner, left_side=True, lower=True, transpose_a=True, conjugate_a=True
    )
    return lax.linalg.triangular_solve(lower, inner, left_side=False, lower=True)



def _check_positive(name, a, upper):
    """Raises unless NumPy matrices are positive definite."""
    if not a.size:
        return
    a = np.conj(a.swapaxes(-1, -2)) if upper else a
    try:
        factor = np.linalg.cholesky(a)
        if not np.isnan(factor[..., -1, -1]).any():
            return
    except np.linalg.LinAlgError:
        pass
    (potrf,) = lapack(("potrf",), (a,))
    infos = np.zeros(a.shape[:-2], np.int32)
    for index in np.ndindex(infos.shape):
        factor, infos[index] = potrf(a[index], lower=True)
        unordered = np.isnan(np.diagonal(factor))
        if not infos[index] and unordered.any():
            infos[index] = np.argmax(unordered) + 1
    fail(name, infos != 0, lambda index: FAILURES["cholesky"].format(info=infos[index]))


def _require_cholesky(a):
    require_square(a, "linalg.cholesky")
    require_float(a, "linalg.cholesky", low_precision=True)
    require_kernel(a, "cholesky_cpu")


@op("linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> "
    "(Tensor L, Tensor info)", forms="function out", layout=columns(0))
def linalg_cholesky_ex(self, upper, check_errors):
    """`torch.linalg.cholesky` that reports failures in ``info`` instead of raising.

    Returns:
        ``L`` and ``info``, the order of the first minor that is not positive definite, or 0.

    >>> import ftorch as torch
    >>> torch.linalg.cholesky_ex(-torch.eye(2)).info
    tensor(1, dtype=torch.int32)
    """
    _require_cholesky(self)
    factor = _cholesky(self, upper)
    batch = self.shape[:-2]
    if not self.size:
        return factor, jnp.zeros(batch, jnp.int32)

    def completed(_):
        return factor, jnp.zeros(batch, jnp.int32)

    def failed(a):
        flat = (adjoint(a) if upper else a).reshape(-1, *a.shape[-2:])
        lower, info = jax.vmap(_partial_cholesky)(flat)
        lower = lower.reshape(a.shape)
        return (adjoint(lower) if upper else lower), info.reshape(batch)

    # The sequential loop runs only when it is needed.
    return lax.cond(jnp.any(jnp.isnan(diagonal(factor))), failed, completed, self)


@linalg_cholesky_ex.derivative
def _(grad, upper, result):
    return _cholesky_backward(grad[0], result[0], upper)


@linalg_cholesky_ex.check(waits=lambda check_errors: check_errors)
def _(self, upper, check_errors):
    if check_errors:
        _check_positive("linalg.cholesky_ex", self, upper)


@op("linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", forms="function out",
    layout=columns(0))
def linalg_cholesky(self, upper):
    """The Cholesky factor L of ``A = L L^H`` (``U^H U`` with ``upper``).

    Args:
        A: (..., n, n), Hermitian positive definite; only one triangle is read.

    Raises:
        torch.linalg.LinAlgError: if a matrix is not positive definite.

    >>> import ftorch as torch
    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    _require_cholesky(self)
    return _cholesky(self, upper)


@op("cholesky(Tensor self, bool upper=False) -> Tensor", forms="function method out",
    layout=columns(0))
def cholesky(self, upper):
    """`torch.linalg.cholesky` under its older name."""
    warn_once(
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch "
        "release.\nL = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\n"
        "U = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\n"
        "This transform will produce equivalent results for all valid (symmetric positive definite) inputs."
    )
    require_square(self, "cholesky")
    require_kernel(self, "cholesky_cpu")
    return _cholesky(self, upper)


def _complete_cholesky(declared, name):
    @declared.derivative
    def _(grad, upper, result):
        return _cholesky_backward(grad, result, upper)

    @declared.check(waits=True)
    def _(self, upper):
        _check_positive(name, self, upper)


_complete_cholesky(linalg_cholesky, "linalg.cholesky")
_complete_cholesky(cholesky, "cholesky")


# --- QR -----------------------------------------------------------------------------------


def _check_qr_mode(mode):
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            "'r', or 'complete'"
        )


@op("linalg_qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)", forms="function out",
    layout=columns(0, 1))
def linalg_qr(A, mode):
    """The QR factorization ``A = Q R`` of matrices (..., m, n).

    Args:
        mode: "reduced", "complete" (Q is square) or "r" (Q is empty).

    Raises:
        RuntimeError: for an unknown mode, or integers.

    >>> import ftorch as torch
    >>> Q, R = torch.linalg.qr(torch.tensor([[3.0], [4.0]]))
    >>> torch.allclose(Q @ R, torch.tensor([[3.0], [4.0]]))
    True
    """
    require_matrix(A, "linalg.qr")
    require_float(A, "linalg.qr")
    _check_qr_mode(mode)
    q, r = lax.linalg.qr(A, full_matrices=mode == "complete")
    return (jnp.zeros((0,), A.dtype) if mode == "r" else q), r


@linalg_qr.derivative
def _(grad, A, mode, result):
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    if mode == "complete" and A.shape[-2] > A.shape[-1]:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    return _qr_backward(*zeros_for_missing(grad, result), *result, A)


def _qr_backward(gq, gr, q, r, a):
    k, n = r.shape[-2:]
    if k < n:
        # A = [X Y] with X = Q U: the columns on the right only multiply Q^H.
        gv, y = gr[..., k:], a[..., k:]
        gq = gq + product(y, adjoint(gv))
        left = _qr_backward(gq, gr[..., :k], q, r[..., :k], a[..., :k])
        return jnp.concatenate([left, product(q, gv)], axis=-1)
    inner = product(gr, adjoint(r)) - product(adjoint(q), gq)
    strict = jnp.triu(inner, 1)
    hermitian = strict + adjoint(strict) + diagonal_matrix(diagonal(inner).real.astype(r.dtype))
    right = gq + product(q, hermitian)
    return lax.linalg.triangular_solve(
        r, right, left_side=False, lower=False, transpose_a=True, conjugate_a=True
    )


@op("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", forms="function method out",
    layout=columns(0, 1))
def qr(self, some):
    """`torch.linalg.qr` under its older name; ``some=False`` is the complete one."""
    warn_once(
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\n"
        "The boolean parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\n"
        "should be replaced with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"
    )
    return linalg_qr(self, "reduced" if some else "complete")


@qr.derivative
def _(grad, self, some, result):
    return linalg_qr.backward(grad, A=self, mode="reduced" if some else "complete", result=result)


@op("geqrf(Tensor self) -> (Tensor a, Tensor tau)", forms="function method out",
    layout=columns(0))
def geqrf(self):
    """The QR factorization as LAPACK leaves it: Householder vectors below R, and their factors."""
    if self.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    require_kernel(self, "geqrf_cpu")
    transposed, tau = jnp.linalg.qr(self, mode="raw")
    return jnp.matrix_transpose(transposed), tau


@geqrf.derivative
def _(grad):
    raise NotImplementedError("the derivative for 'geqrf' is not implemented.")


# --- LU -----------------------------------------------------------------------------------


def _lu_factor(a, pivot):
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    require_kernel(a, "lu_cpu")
    packed, pivots, permutation = lax.linalg.lu(a)
    return packed, pivots + 1, permutation


def _require_lu(a, name):
    if a.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: {sizes(a.shape)} instead"
        )


def unpack_lu(packed):
    """L (unit lower triangular, m x k) and U (k x n) of a packed factorization."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    lower = jnp.tril(packed[..., :k], -1) + jnp.eye(m, k, dtype=packed.dtype)
    return lower, jnp.triu(packed[..., :k, :])


def permutation_matrix(permutation, dtype):
    """P with ``A = P L U`` for ``A[permutation] = L U``."""
    n = permutation.shape[-1]
    return (jnp.arange(n)[:, None] == permutation[..., None, :]).astype(dtype)


@op("linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    forms="function out", constant=(0,))
def linalg_lu(A, pivot):
    """The factors of ``A = P L U`` with partial pivoting.

    Args:
        A: (..., m, n).

    >>> import ftorch as torch
    >>> P, L, U = torch.linalg.lu(torch.tensor([[0.0, 1.0], [2.0, 0.0]]))
    >>> U
    tensor([[2., 0.],
            [0., 1.]])
    """
    _require_lu(A, "linalg.lu")
    packed, _, permutation = _lu_factor(A, pivot)
    return permutation_matrix(permutation, A.dtype), *unpack_lu(packed)


@op("linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> "
    "(Tensor LU, Tensor pivots, Tensor info)", forms="function out", layout=columns(0))
def linalg_lu_factor_ex(A, pivot, check_errors):
    """`torch.linalg.lu_factor` that reports zero pivots in ``info`` instead of raising."""
    _require_lu(A, "torch.lu_factor")
    packed, pivots, _ = _lu_factor(A, pivot)
    return packed, pivots, first_zero_pivot(diagonal(packed))


@op("linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    forms="function out", layout=columns(0))
def linalg_lu_factor(A, pivot):
    """L and U packed in one matrix, and the pivots (counted from 1).

    Raises:
        RuntimeError: if a diagonal element of U is zero.
    """
    return linalg_lu_factor_ex(A, pivot, False)[:2]


def _check_lu_factor(name, a):
    if a.shape[-1] == a.shape[-2]:
        check_lu(f"torch.linalg.{name}", a, FAILURES["lu_factor"], RuntimeError)


@linalg_lu_factor.check(waits=True)
def _(A):
    _check_lu_factor("lu_factor", A)


@linalg_lu_factor_ex.check(waits=lambda check_errors: check_errors)
def _(A, check_errors):
    if check_errors:
        _check_lu_factor("lu_factor_ex", A)


_LU_IS_OLD = (
    "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and will be removed in a "
    "future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\nshould be replaced with\nLU, pivots = "
    "torch.linalg.lu_factor(A, compute_pivots)\nand\nLU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\n"
    "should be replaced with\nLU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)"
)


@op("_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> "
    "(Tensor LU, Tensor pivots, Tensor info)", layout=columns(0))
def _lu_with_info(self, pivot, check_errors):
    """`torch.linalg.lu_factor_ex` under an internal name of PyTorch's."""
    warn_once(_LU_IS_OLD)
    return linalg_lu_factor_ex(self, pivot, check_errors)


# --- LDL ----------------------------------------------------------------------------------


@op("linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> "
    "(Tensor LD, Tensor pivots, Tensor info)", forms="function out", host=True,
    differentiable=False, layout=columns(0))
def linalg_ldl_factor_ex(self, hermitian, check_errors):
    """``A = L D L^T`` (``L^H`` if ``hermitian``) packed in one matrix, pivots and LAPACK's info."""
    # XLA has no Bunch-Kaufman factorization: LAPACK's is called on the host.
    require_square(self, "torch.linalg.ldl_factor_ex")
    require_float(self, "torch.linalg.ldl_factor_ex")
    factors = np.empty_like(self)
    pivots = np.zeros(self.shape[:-1], np.int32)
    info = np.zeros(self.shape[:-2], np.int32)
    if not self.size:
        return factors, pivots, info
    prefix = "he" if hermitian and self.dtype.kind == "c" else "sy"
    trf, lwork = lapack((f"{prefix}trf", f"{prefix}trf_lwork"), (self,))
    size = int(np.real(lwork(self.shape[-1], lower=True)[0]))
    for index in np.ndindex(info.shape):
        factors[index], pivots[index], info[index] = trf(self[index], lwork=size, lower=True)
    return np.tril(factors), pivots, info


@op("linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    forms="function out", host=True, differentiable=False, layout=columns(0))
def linalg_ldl_factor(self, hermitian):
    """The LDL factorization of symmetric (Hermitian) matrices, packed, and its pivots.

    Raises:
        RuntimeError: if D is singular.
    """
    factors, pivots, info = linalg_ldl_factor_ex(self, hermitian, True)
    fail(
        "torch.linalg.ldl_factor", info != 0,
        lambda index: f"D[{info[index]},{info[index]}] is zero and using it on ldl_solve would "
        "result in a division by zero.",
        RuntimeError,
    )
    return factors, pivots


@op("linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    forms="function out", host=True, differentiable=False, layout=columns(0))
def linalg_ldl_solve(LD, pivots, B, hermitian):
    """The solution of ``A X = B`` from `torch.linalg.ldl_factor`'s factors."""
    name = "torch.linalg.ldl_solve"
    require_square(LD, name)
    require_float(LD, name)
    require_matrix(B, name, "B")
    if LD.shape[-1] != B.shape[-2]:
        n = LD.shape[-1]
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {n} by {n} but each b matrix "
            f"is {B.shape[-2]} by {B.shape[-1]}"
        )
    if LD.dtype != B.dtype:
        raise RuntimeError(
            "Expected b and A to have the same dtype, but found b of type "
            f"{dtype_name(B.dtype)} and A of type {dtype_name(LD.dtype)} instead."
        )
    if pivots.dtype.kind not in "iu":
        raise RuntimeError(
            f"{name}: Expected pivots to be integers. Got {dtype_name(pivots.dtype)}"
        )
    if pivots.shape != LD.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {sizes(pivots.shape)} instead"
        )
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    result = np.empty((*batch, *B.shape[-2:]), B.dtype)
    if not result.size:
        return result
    LD = np.broadcast_to(LD, batch + LD.shape[-2:])
    B = np.broadcast_to(B, result.shape)
    pivots = np.broadcast_to(pivots, batch + pivots.shape[-1:])
    prefix = "he" if hermitian and LD.dtype.kind == "c" else "sy"
    (trs,) = lapack((f"{prefix}trs",), (LD, B))
    for index in np.ndindex(batch):
        result[index], _ = trs(LD[index], pivots[index], B[index], lower=True)
    return result
