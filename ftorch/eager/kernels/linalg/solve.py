"""Linear systems: inverses, solvers, least squares."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import Shape, op
from ...core.user_warnings import warn_once
from .._common import broadcast_shapes, dtype_name
from ..nn._windows import sizes
from ._checks import (
    FAILURES,
    adjoint,
    broadcast_batch,
    check_lu,
    columns,
    diagonal,
    first_zero_pivot,
    product,
    require_float,
    require_kernel,
    require_matrix,
    require_same_dtype,
    require_square,
    twin,
)
from .decompositions import permutation_matrix, unpack_lu


def triangular(a, b, *, upper, left=True, adjoint=False, unit=False):
    """The solution of ``A X = B`` (``X A = B``) for one triangle of A; leading dims broadcast."""
    a, b = broadcast_batch(a, b)
    return lax.linalg.triangular_solve(
        a, b, left_side=left, lower=not upper, transpose_a=adjoint, conjugate_a=adjoint,
        unit_diagonal=unit,
    )


def _require_compatible(a, b, left, name):
    """Raises unless B has as many rows (columns) as A."""
    if a.shape[-2] != b.shape[-2 if left else -1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )


def _require_dtype_of_b(a, b):
    if a.dtype != b.dtype:
        raise RuntimeError(
            "Expected b and A to have the same dtype, but found b of type "
            f"{dtype_name(b.dtype)} and A of type {dtype_name(a.dtype)} instead."
        )


# --- inverse ------------------------------------------------------------------------------


def _solve_factored(packed, permutation, b):
    """The solution of ``A X = B`` for ``A[permutation] = L U``."""
    packed, b = broadcast_batch(packed, b)
    permutation = jnp.broadcast_to(permutation, b.shape[:-1])
    b = jnp.take_along_axis(b, permutation[..., None], axis=-2)
    return triangular(packed, triangular(packed, b, upper=False, unit=True), upper=True)


@op("linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    forms="function out", layout=columns(0))
def linalg_inv_ex(A, check_errors):
    """`torch.linalg.inv` that reports singular matrices in ``info`` instead of raising."""
    require_square(A, "linalg.inv")
    require_float(A, "linalg.inv")
    packed, _, permutation = lax.linalg.lu(A)
    identity = jnp.broadcast_to(jnp.eye(A.shape[-1], dtype=A.dtype), A.shape)
    return _solve_factored(packed, permutation, identity), first_zero_pivot(diagonal(packed))


@linalg_inv_ex.derivative
def _(grad, result):
    return linalg_inv.backward(grad[0], result=result[0])


@linalg_inv_ex.check(waits=lambda check_errors: check_errors)
def _(A, check_errors):
    if check_errors:
        check_lu("linalg.inv_ex", A, FAILURES["inv"])


@op("linalg_inv(Tensor A) -> Tensor", forms="function out", layout=columns(0))
def linalg_inv(A):
    """The inverse of square matrices (..., n, n).

    Raises:
        torch.linalg.LinAlgError: if a matrix is singular.

    >>> import ftorch as torch
    >>> torch.linalg.inv(torch.tensor([[2.0]]))
    tensor([[0.5000]])
    """
    return linalg_inv_ex(A, False)[0]


@linalg_inv.derivative
def _(grad, result):
    return -product(adjoint(result), product(grad, adjoint(result)))


@linalg_inv.check(waits=True)
def _(A):
    check_inverse(A)


def check_inverse(a):
    """Raises where a NumPy matrix has no inverse."""
    check_lu("linalg.inv", a, FAILURES["inv"])


inverse = twin(linalg_inv, "inverse(Tensor self) -> Tensor", forms="function method out")


@op("linalg_tensorinv(Tensor self, int ind=2) -> Tensor", forms="function out")
def linalg_tensorinv(self, ind):
    """The inverse of `torch.tensordot` with ``input`` over its last dimensions.

    Args:
        ind: how many of the dimensions of ``input`` are those of the result of that product.

    Raises:
        RuntimeError: unless the sizes before and after ``ind`` multiply to the same.
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    if ind > self.ndim:
        raise RuntimeError(f"ArrayRef: invalid slice, N = {ind}; size = {self.ndim}")
    rows, columns = np.prod(self.shape[:ind], dtype=int), np.prod(self.shape[ind:], dtype=int)
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    shape = (*self.shape[ind:], *self.shape[:ind])
    return linalg_inv(self.reshape(rows, columns)).reshape(shape)


@linalg_tensorinv.check(waits=True)
def _(self, ind):
    rows = np.prod(self.shape[:ind], dtype=int)
    check_lu("inv", self.reshape(rows, rows), FAILURES["inv"])


# --- square systems -----------------------------------------------------------------------


def is_vector(a, b):
    """Whether B is a (batch of) right-hand side vectors, as NumPy once decided it."""
    return b.ndim == 1 or (a.ndim - 1 == b.ndim and b.shape == a.shape[:-1])


def _solve(a, b, left):
    """The solution and, for each matrix, LAPACK's ``info``."""
    require_float(a, "linalg.solve")
    require_square(a, "linalg.solve")
    require_same_dtype("linalg.solve", "A", a, "B", b)
    vector = is_vector(a, b)
    b = b[..., None] if vector else b
    require_matrix(b, "linalg.solve", "B")
    _require_compatible(a, b, left, "linalg.solve")
    if vector and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for "
            "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    broadcast_shapes(b.shape[:-2], a.shape[:-2])
    if not left:
        a, b = jnp.matrix_transpose(a), jnp.matrix_transpose(b)
    packed, _, permutation = lax.linalg.lu(a)
    x = _solve_factored(packed, permutation, b)
    x = x if left else jnp.matrix_transpose(x)
    return x[..., 0] if vector else x, first_zero_pivot(diagonal(packed))


def _solve_backward(grad, a, b, left, x):
    vector = is_vector(a, b)
    gb = _solve(adjoint(a), grad[..., None] if vector else grad, left)[0]
    x = x[..., None] if vector else x
    ga = -product(gb, adjoint(x)) if left else -product(adjoint(x), gb)
    return ga, gb[..., 0] if vector else gb


def _check_solve(name, a):
    check_lu(name, a, FAILURES["solve"])


@op("linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
    "(Tensor result, Tensor info)", forms="function out",
    layout=columns(0, rows=lambda static: not static["left"]))
def linalg_solve_ex(A, B, left, check_errors):
    """`torch.linalg.solve` that reports singular matrices in ``info`` instead of raising."""
    return _solve(A, B, left)


@linalg_solve_ex.derivative
def _(grad, A, B, left, result):
    return _solve_backward(grad[0], A, B, left, result[0])


@linalg_solve_ex.check(waits=lambda check_errors: check_errors)
def _(A, check_errors):
    if check_errors:
        _check_solve("torch.linalg.solve_ex", A)


@op("linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", forms="function out",
    layout=columns(0, rows=lambda static: not static["left"]))
def linalg_solve(A, B, left):
    """The solution of ``A X = B``, or of ``X A = B`` with ``left=False``.

    Args:
        A: (..., n, n); B: (..., n, k), or vectors (n,) or (..., n); leading dimensions broadcast.

    Raises:
        torch.linalg.LinAlgError: if a matrix is singular.

    >>> import ftorch as torch
    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return _solve(A, B, left)[0]


@linalg_solve.derivative
def _(grad, A, B, left, result):
    return _solve_backward(grad, A, B, left, result)


@linalg_solve.check(waits=True)
def _(A):
    _check_solve("torch.linalg.solve", A)


@op("linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
    forms="function out")
def linalg_tensorsolve(self, other, dims):
    """X with ``tensordot(self, X, X.ndim) == other``.

    Args:
        dims: dimensions of ``input`` that are moved to its end first.

    Raises:
        RuntimeError: unless that is a square system.
    """
    matrix, shape = _tensorsolve_matrix(self, other, dims)
    return linalg_solve(matrix, other.reshape(-1), True).reshape(shape)


def _tensorsolve_matrix(self, other, dims):
    """The square matrix of the system, and the shape of its solution."""
    if dims:
        self = jnp.moveaxis(self, dims, range(self.ndim - len(dims), self.ndim))
    result = self.shape[other.ndim :]
    columns = np.prod(result, dtype=int)
    rows = np.prod(self.shape[: other.ndim], dtype=int)
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} != {rows}"
        )
    return self.reshape(rows, columns), result


@linalg_tensorsolve.check(waits=True)
def _(self, other, dims):
    _check_solve("torch.linalg.solve", np.asarray(_tensorsolve_matrix(self, other, dims)[0]))


# --- triangular and factored systems ------------------------------------------------------


@op("linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, "
    "bool unitriangular=False) -> Tensor", forms="function out", layout=columns(0))
def linalg_solve_triangular(self, B, upper, left, unitriangular):
    """The solution of a triangular system ``A X = B`` (``X A = B`` with ``left=False``).

    Args:
        upper: which triangle of A is read.
        unitriangular: whether its diagonal counts as ones.

    >>> import ftorch as torch
    >>> torch.linalg.solve_triangular(torch.tensor([[2.0]]), torch.tensor([[4.0]]), upper=True)
    tensor([[2.]])
    """
    require_square(self, "linalg.solve_triangular")
    require_matrix(B, "linalg.solve_triangular", "B")
    _require_compatible(self, B, left, "linalg.solve_triangular")
    broadcast_shapes(B.shape[:-2], self.shape[:-2])
    require_kernel(self, "triangular_solve_cpu")
    return triangular(self, B.astype(self.dtype), upper=upper, left=left, unit=unitriangular)


@op("triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, "
    "bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    forms="function method out", layout=columns(0, 1))
def triangular_solve(self, A, upper, transpose, unitriangular):
    """`torch.linalg.solve_triangular` in its older form; also returns A."""
    warn_once(
        "torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangularand will be removed in a "
        "future PyTorch release.\ntorch.linalg.solve_triangular has its arguments reversed and does not return a "
        "copy of one of the inputs.\nX = torch.triangular_solve(B, A).solution\nshould be replaced with\n"
        "X = torch.linalg.solve_triangular(A, B)."
    )
    for name, x in (("b", self), ("A", A)):
        if x.ndim < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {name} to have at least 2 dimensions, but it "
                f"has {x.ndim} dimensions instead"
            )
    _require_dtype_of_b(A, self)
    require_square(A)
    _require_rows(A, self, "triangular_solve")
    require_kernel(A, "triangular_solve_cpu")
    a, b = broadcast_batch(A, self)
    a_used = jnp.matrix_transpose(a) if transpose else a
    return triangular(a_used, b, upper=upper != transpose, unit=unitriangular), a


def _require_rows(a, b, name):
    if a.shape[-1] != b.shape[-2]:
        n = a.shape[-1]
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {n} by {n} but each b matrix "
            f"is {b.shape[-2]} by {b.shape[-1]}"
        )


@op("cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    forms="function method out", layout=columns(0))
def cholesky_solve(self, input2, upper):
    """The solution of ``A X = B`` from the Cholesky factor of A.

    Args:
        input: B (..., n, k); input2: the factor (..., n, n).

    >>> import ftorch as torch
    >>> torch.cholesky_solve(torch.tensor([[8.0]]), torch.tensor([[2.0]]))
    tensor([[2.]])
    """
    for name, x in (("b", self), ("u", input2)):
        if x.ndim < 2:
            raise RuntimeError(
                f"{name} should have at least 2 dimensions, but has {x.ndim} dimensions instead"
            )
    _require_dtype_of_b(input2, self)
    require_square(input2)
    _require_rows(input2, self, "cholesky_solve")
    require_kernel(input2, "cholesky_solve_cpu")
    broadcast_shapes(self.shape[:-2], input2.shape[:-2])
    return _solve_by_factor(upper, self, input2)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solve_by_factor(upper, b, factor):
    first = triangular(factor, b, upper=upper, adjoint=upper)
    return triangular(factor, first, upper=upper, adjoint=not upper)


@_solve_by_factor.defjvp
def _(upper, primals, tangents):
    # As in PyTorch, not projected on the triangle that is read.
    (b, factor), (to_b, to_factor) = primals, tangents
    result = _solve_by_factor(upper, b, factor)
    half = product(adjoint(factor), to_factor) if upper else product(to_factor, adjoint(factor))
    return result, _solve_by_factor(upper, to_b - product(half + adjoint(half), result), factor)


@cholesky_solve.derivative
def _(grad, input2, upper, result):
    gb = cholesky_solve(grad, input2, upper)
    common = product(gb, adjoint(result))
    return gb, _factor_gradient(common + adjoint(common), input2, upper)


def _factor_gradient(common, factor, upper):
    return -product(factor, common) if upper else -product(common, factor)


@op("cholesky_inverse(Tensor self, bool upper=False) -> Tensor", forms="function method out",
    layout=columns(0))
def cholesky_inverse(self, upper):
    """The inverse of A from its Cholesky factor.

    Raises:
        torch.linalg.LinAlgError: if the factor is singular.
    """
    require_square(self, "cholesky_inverse")
    require_kernel(self, "cholesky_inverse_out_cpu")
    identity = jnp.broadcast_to(jnp.eye(self.shape[-1], dtype=self.dtype), self.shape)
    factor = triangular(self, identity, upper=upper)
    return product(factor, adjoint(factor)) if upper else product(adjoint(factor), factor)


@cholesky_inverse.derivative
def _(grad, self, upper, result):
    common = product(result, product(grad + adjoint(grad), result))
    return _factor_gradient(common, self, upper)


@cholesky_inverse.check(waits=True)
def _(self):
    check_lu("cholesky_inverse", np.eye(self.shape[-1]) * self, FAILURES["inv"])


def permutation_of(pivots):
    """The permutation that LAPACK's row interchanges (counted from 1) amount to."""
    return lax.linalg.lu_pivots_to_permutation(
        (pivots - 1).astype(jnp.int32), permutation_size=pivots.shape[-1]
    )


@op("linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) "
    "-> Tensor", forms="function out", layout=columns(0, rows=lambda static: not static["left"]))
def linalg_lu_solve(LU, pivots, B, left, adjoint):
    """The solution of ``A X = B`` from `torch.linalg.lu_factor`'s factors.

    Args:
        left: False for ``X A = B``; adjoint: whether ``A^H`` takes A's place.
    """
    require_float(LU, "torch.linalg.lu_solve")
    require_square(LU, "torch.linalg.lu_solve")
    if pivots.dtype != jnp.int32:
        raise RuntimeError(
            "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32"
        )
    require_same_dtype("linalg.lu_solve", "LU", LU, "B", B)
    require_matrix(B, "linalg.lu_solve", "B")
    _require_compatible(LU, B, left, "linalg.lu_solve")
    if LU.shape[-1] != pivots.shape[-1]:
        raise RuntimeError(
            "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the "
            "matrix"
        )
    if LU.shape[:-1] != pivots.shape:
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got "
            f"pivots with shape {sizes(pivots.shape)} instead"
        )
    broadcast_shapes(B.shape[:-2], LU.shape[:-2])
    permutation = jnp.broadcast_to(permutation_of(pivots), LU.shape[:-1])
    if not left:
        # X A = B is A^H X^H = B^H.
        return _adjoint(_solve_lu(LU, permutation, _adjoint(B), adjoint=not adjoint))
    return _solve_lu(LU, permutation, B, adjoint=adjoint)


def _check_pivots(LU, pivots):
    for wrong, bound in (
        (pivots < 1, "greater or equal to 1"),
        (pivots > LU.shape[-2], "smaller or equal to LU.size(-2)"),
    ):
        if wrong.any():
            raise RuntimeError(
                f"Pivots given to lu_solve must all be {bound}. Did you properly pass the result of "
                "lu_factor?"
            )


@linalg_lu_solve.check
def _(LU: Shape, pivots):
    _check_pivots(LU, pivots)


_adjoint = adjoint  # where an argument takes the name


def _solve_lu(packed, permutation, b, *, adjoint):
    if not adjoint:
        return _solve_factored(packed, permutation, b)
    packed, b = broadcast_batch(packed, b)
    x = triangular(packed, b, upper=True, adjoint=True)
    x = triangular(packed, x, upper=False, adjoint=True, unit=True)
    inverse_permutation = jnp.broadcast_to(jnp.argsort(permutation, axis=-1), b.shape[:-1])
    return jnp.take_along_axis(x, inverse_permutation[..., None], axis=-2)


@op("lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    forms="function method out", layout=columns(0))
def lu_solve(self, LU_data, LU_pivots):
    """`torch.linalg.lu_solve` in its older form."""
    warn_once(
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a future PyTorch release.\n"
        "Note that torch.linalg.lu_solve has its arguments reversed.\nX = torch.lu_solve(B, LU, pivots)\nshould be replaced "
        "with\nX = torch.linalg.lu_solve(LU, pivots, B)"
    )
    return linalg_lu_solve(LU_data, LU_pivots, self, True, False)


@lu_solve.check
def _(LU_data: Shape, LU_pivots):
    _check_pivots(LU_data, LU_pivots)


@op("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) "
    "-> (Tensor P, Tensor L, Tensor U)", forms="function out", constant=(0,))
def lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots):
    """P, L and U from the packed factorization of `torch.linalg.lu_factor`.

    Raises:
        RuntimeError: for pivots out of range.
    """
    if unpack_pivots and LU_pivots.dtype != jnp.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor"
        )
    nothing = jnp.zeros((0,), LU_data.dtype)
    lower, upper = unpack_lu(LU_data) if unpack_data else (nothing, nothing)
    if not unpack_pivots:
        return nothing, lower, upper
    permutation = lax.linalg.lu_pivots_to_permutation(
        LU_pivots - 1, permutation_size=LU_data.shape[-2]
    )
    return permutation_matrix(permutation, LU_data.dtype), lower, upper


@lu_unpack.check(waits=True)
def _(LU_data: Shape, LU_pivots, unpack_pivots):
    rows = LU_data.shape[-2]
    if unpack_pivots and (
        LU_pivots.shape[-1] != min(LU_data.shape[-2:])
        or ((LU_pivots < 1) | (LU_pivots > rows)).any()
    ):
        raise RuntimeError(
            "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
            "Did you properly pass the result of lu_factor?"
        )
