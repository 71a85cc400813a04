"""Least squares, pseudo-inverses and ranks: what rests on negligible singular values."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.registry import op
from .._common import broadcast_shapes, dtype_name, is_complex
from ..nn._windows import sizes
from ._checks import adjoint, broadcast_batch, columns, fail, product, require_matrix
from .solve import is_vector
from .spectra import check_finite, linalg_eigh, linalg_eigvalsh, linalg_svdvals

# --- least squares ------------------------------------------------------------------------


def pseudo_inverse_backward(grad, a, inverse):
    """The gradient of the Moore-Penrose inverse."""
    projected = product(adjoint(inverse), product(grad, adjoint(inverse)))
    rows = adjoint(grad) - product(product(a, inverse), adjoint(grad))
    columns = adjoint(grad) - product(adjoint(grad), product(inverse, a))
    return (
        -projected
        + product(product(rows, inverse), adjoint(inverse))
        + product(adjoint(inverse), product(inverse, columns))
    )


_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _require_lstsq(a, b, driver):
    name = "torch.linalg.lstsq"
    if a.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype "
            f"{dtype_name(a.dtype)} and other's dtype {dtype_name(b.dtype)}"
        )
    require_lapack_dtype(a)
    if driver not in _DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of ({', '.join(_DRIVERS)})"
        )
    if not 0 <= a.ndim - b.ndim <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
            "other.dim()) <= 1"
        )
    of_vector = is_vector(a, b)
    b = b[..., None] if of_vector else b
    if b.shape[-2] != a.shape[-2]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({-1 if of_vector else -2})")
    broadcast_shapes(a.shape[:-2], b.shape[:-2])


def require_lapack_dtype(x):
    """Raises for dtypes without a machine precision."""
    if x.dtype not in (jnp.float32, jnp.float64, jnp.complex64, jnp.complex128):
        raise RuntimeError("This function doesn't handle types other than float and double")


def machine_epsilon(x):
    return float(jnp.finfo(x.dtype).eps)


def _pseudo_inverse(a, rcond):
    """A's pseudo-inverse without the singular values below ``rcond`` times the largest."""
    u, s, vh = lax.linalg.svd(a, full_matrices=False)
    largest = jnp.max(s, axis=-1, keepdims=True, initial=0)
    kept = s > rcond * largest
    inverted = jnp.where(kept, 1 / jnp.where(kept, s, 1), 0).astype(a.dtype)
    return product(adjoint(vh) * inverted[..., None, :], adjoint(u)), s, kept.sum(-1)


def _default_rcond(a, rcond):
    return machine_epsilon(a) * max(a.shape[-2:]) if rcond is None else rcond


@op("linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> "
    "(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    forms="function out", constant=(3,), layout=columns(0))
def linalg_lstsq(self, b, rcond, driver):
    """The X of least norm that minimizes ``|A X - B|``.

    Args:
        input: A (..., m, n); b: (..., m, k), or vectors (..., m).
        rcond: singular values below ``rcond`` times the largest count as zero.
        driver: "gels" (full rank), "gelsy" (default), "gelsd" or "gelss": says which of the results
            are computed.

    Returns:
        the solution, the residuals' sums of squares (for m > n, not by "gelsy"), the ranks
        (not by "gels") and the singular values (by "gelsd" and "gelss"); else empty tensors.
        Unlike in PyTorch, whether there are residuals does not depend on the rank.

    Raises:
        torch.linalg.LinAlgError: from "gels", if a matrix does not have full rank.

    >>> import ftorch as torch
    >>> torch.linalg.lstsq(torch.ones(2, 1), torch.tensor([[1.0], [3.0]])).solution
    tensor([[2.0000]])
    """
    driver = driver or "gelsy"
    _require_lstsq(self, b, driver)
    vector = is_vector(self, b)
    inverse, s, rank = _pseudo_inverse(self, _default_rcond(self, rcond))  # one for each matrix given
    a, b = broadcast_batch(self, b[..., None] if vector else b)
    x = product(inverse, b)
    nothing = jnp.zeros((0,), s.dtype)
    remainder = product(a, x) - b
    return (
        x[..., 0] if vector else x,
        jnp.sum((jnp.conj(remainder) * remainder).real, axis=-2)
        if a.shape[-2] > a.shape[-1] and driver != "gelsy" else nothing,
        jnp.zeros((0,), jnp.int64) if driver == "gels" else rank.astype(jnp.int64),
        s if driver in ("gelsd", "gelss") else nothing,
    )


@linalg_lstsq.derivative
def _(grad, self, b, rcond, result):
    vector = is_vector(self, b)
    a, b = broadcast_batch(self, b[..., None] if vector else b)
    x = result[0][..., None] if vector else result[0]
    gx = jnp.zeros_like(x) if grad[0] is None else grad[0].reshape(x.shape)
    gb = jnp.zeros_like(b)
    ga = jnp.zeros_like(a)
    if grad[1] is not None and result[1].size:
        remainder = 2 * (product(a, x) - b) * grad[1][..., None, :]
        gx = gx + product(adjoint(a), remainder)
        ga, gb = product(remainder, adjoint(x)), -remainder
    inverse, _, _ = _pseudo_inverse(a, _default_rcond(a, rcond))
    ga = ga + pseudo_inverse_backward(product(gx, adjoint(b)), a, inverse)
    gb = gb + product(adjoint(inverse), gx)
    return ga, gb[..., 0] if vector else gb


@linalg_lstsq.check(waits=lambda driver: driver == "gels")
def _(self, driver):
    if driver != "gels" or not self.size:
        return
    rank = np.linalg.matrix_rank(self)
    fail(
        "torch.linalg.lstsq", rank < min(self.shape[-2:]),
        lambda index: "The least squares solution could not be computed because the input matrix "
        f"does not have full rank (error code: {rank[index] + 1}).",
    )


# --- pseudo-inverse and rank --------------------------------------------------------------


def _tolerances(x, atol, rtol):
    """The absolute and relative tolerance, by default a relative one; for each matrix or all."""
    default = machine_epsilon(x) * max(x.shape[-2:])
    if rtol is None:
        rtol = default if atol is None else jnp.where(jnp.asarray(atol) > 0, 0, default)
    return 0.0 if atol is None else atol, rtol


def _require_real_tolerance(name, **tolerances):
    for argument, value in tolerances.items():
        if value is not None and is_complex(value):
            raise RuntimeError(
                f"{name}: {argument} tensor of complex type is not supported. Got "
                f"{dtype_name(value.dtype)}"
            )


def _kept(values, x, atol, rtol):
    """Which singular values count as not zero."""
    atol, rtol = (jnp.asarray(t, values.dtype)[..., None] for t in _tolerances(x, atol, rtol))
    broadcast_shapes(atol.shape[:-1], rtol.shape[:-1])
    largest = jnp.max(values, axis=-1, keepdims=True, initial=0)
    return values > jnp.maximum(atol, rtol * largest)


def _pinv(x, atol, rtol, hermitian):
    if x.ndim < 2 or x.dtype not in (jnp.float32, jnp.float64, jnp.complex64, jnp.complex128):
        raise RuntimeError(
            f"linalg.pinv({dtype_name(x.dtype)}{{{sizes(x.shape)}}}): expected a tensor with 2 or "
            "more dimensions of float, double, cfloat or cdouble types"
        )
    if not x.size:
        return jnp.matrix_transpose(x)
    if hermitian:
        values, left = linalg_eigh(x, "L")
        right, magnitude = left, jnp.abs(values)
    else:
        left, values, right = lax.linalg.svd(x, full_matrices=False)
        right, magnitude = adjoint(right), values
    kept = _kept(magnitude, x, atol, rtol)
    inverted = jnp.where(kept, 1 / jnp.where(kept, values, 1), 0).astype(x.dtype)
    return product(right * inverted[..., None, :], adjoint(left))


@op("linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor", forms="function out")
def linalg_pinv(self, rcond, hermitian):
    """The Moore-Penrose pseudo-inverse of matrices (..., m, n).

    Args:
        atol, rtol: singular values below the larger of ``atol`` and ``rtol`` times the largest one
            count as zero.
        rcond: an older name of ``rtol``.
        hermitian: whether the matrices are Hermitian (then eigenvalues are used).

    Raises:
        torch.linalg.LinAlgError: if a matrix contains nan.

    >>> import ftorch as torch
    >>> torch.linalg.pinv(torch.tensor([[2.0], [0.0]]))
    tensor([[0.5000, 0.0000]])
    """
    return _pinv(self, 0.0, rcond, hermitian)


@op("linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
    "bool hermitian=False) -> Tensor", forms="function out")
def linalg_pinv_tolerances(self, atol, rtol, hermitian):
    return _pinv(self, atol, rtol, hermitian)


@op("linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
    forms="function out")
def linalg_pinv_rcond_tensor(self, rcond, hermitian):
    _require_real_tolerance("torch.linalg.pinv", rcond=rcond)
    return _pinv(self, 0.0, rcond, hermitian)


@op("linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, "
    "bool hermitian=False) -> Tensor", forms="function out")
def linalg_pinv_tensors(self, atol, rtol, hermitian):
    _require_real_tolerance("torch.linalg.pinv", atol=atol, rtol=rtol)
    return _pinv(self, atol, rtol, hermitian)


def _complete_pinv(declared):
    others = (None,) * (len(declared.tensor_positions) - 1)

    @declared.derivative
    def _(grad, self, result):
        return pseudo_inverse_backward(grad, self, result), *others

    @declared.check(waits=True)
    def _(self, hermitian):
        if not hermitian:
            check_finite(self)


for _op in (linalg_pinv, linalg_pinv_tolerances, linalg_pinv_rcond_tensor, linalg_pinv_tensors):
    _complete_pinv(_op)


@op("pinverse(Tensor self, float rcond=1e-15) -> Tensor", forms="function method")
def pinverse(self, rcond):
    """`torch.linalg.pinv` under its older name."""
    return linalg_pinv(self, rcond, False)


@pinverse.derivative
def _(grad, self, result):
    return pseudo_inverse_backward(grad, self, result)


@pinverse.check(waits=True)
def _(self):
    check_finite(self)


def _matrix_rank(x, atol, rtol, hermitian):
    require_matrix(x, "torch.linalg.matrix_rank", "input")
    require_lapack_dtype(x)
    if not x.size:
        return jnp.zeros(x.shape[:-2], jnp.int64)
    values = jnp.abs(linalg_eigvalsh(x, "L")) if hermitian else linalg_svdvals(x, None)
    return jnp.sum(_kept(values, x, atol, rtol), -1, dtype=jnp.int64)


@op("linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
    forms="function out", differentiable=False)
def linalg_matrix_rank(self, tol, hermitian):
    """How many singular values of matrices are not negligible; int64.

    Args:
        tol: an older name of ``atol``.
        atol, rtol, hermitian: as for `torch.linalg.pinv`.

    >>> import ftorch as torch
    >>> torch.linalg.matrix_rank(torch.ones(3, 3))
    tensor(1)
    """
    return _matrix_rank(self, tol, 0.0, hermitian)


@op("linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
    "bool hermitian=False) -> Tensor", forms="function out", differentiable=False)
def linalg_matrix_rank_tolerances(self, atol, rtol, hermitian):
    return _matrix_rank(self, atol, rtol, hermitian)


@op("linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
    forms="function out", differentiable=False)
def linalg_matrix_rank_tol_tensor(input, tol, hermitian):
    _require_real_tolerance("torch.linalg.matrix_rank", atol=tol)
    return _matrix_rank(input, tol, 0.0, hermitian)


@op("linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, "
    "bool hermitian=False) -> Tensor", forms="function out", differentiable=False)
def linalg_matrix_rank_tensors(input, atol, rtol, hermitian):
    _require_real_tolerance("torch.linalg.matrix_rank", atol=atol, rtol=rtol)
    return _matrix_rank(input, atol, rtol, hermitian)
