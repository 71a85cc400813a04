"""Functions of matrices: determinants, norms, powers, exponentials, pseudo-inverses, ranks."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from ...core.registry import op
from .._common import broadcast_shapes, is_complex, up, wrap_dim
from ..reduction.norms import check_norm_dtype, p_norm
from ._checks import (
    adjoint,
    columns,
    product,
    require_float,
    require_matrix,
    require_same_dtype,
    require_square,
    twin,
)
from .matmul import matmul
from .solve import (
    check_inverse,
    linalg_inv,
    linalg_inv_ex,
)
from .spectra import linalg_svdvals

# --- determinants -------------------------------------------------------------------------


@op("linalg_det(Tensor A) -> Tensor", forms="function out")
def linalg_det(A):
    """The determinant of square matrices (..., n, n).

    Raises:
        RuntimeError: for other shapes, or integers.

    >>> import ftorch as torch
    >>> torch.linalg.det(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """
    require_square(A, "linalg.det")
    require_float(A, "linalg.det")
    if not A.shape[-1]:
        return jnp.ones(A.shape[:-2], A.dtype)
    return jnp.linalg.det(A)


det = twin(linalg_det, "det(Tensor self) -> Tensor", forms="function method")


@op("linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", forms="function out")
def linalg_slogdet(A):
    """The sign and the logarithm of the size of the determinant.

    Returns:
        ``sign`` (of absolute value 1, or 0) and ``logabsdet`` (-inf for singular matrices).
    """
    require_square(A, "linalg.slogdet")
    require_float(A, "linalg.slogdet")
    return tuple(jnp.linalg.slogdet(A))


slogdet = twin(
    linalg_slogdet, "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
    forms="function method out",
)


@op("logdet(Tensor self) -> Tensor", forms="function method")
def logdet(self):
    """The logarithm of the determinant: nan for negative, -inf for zero determinants.

    >>> import ftorch as torch
    >>> torch.logdet(torch.eye(2))
    tensor(0.)
    """
    require_square(self, "logdet")
    require_float(self, "logdet")
    sign, magnitude = jnp.linalg.slogdet(self)
    if is_complex(self):
        return magnitude + jnp.log(sign)
    return jnp.where(sign == -1, jnp.full((), math.nan, magnitude.dtype), magnitude)


# --- norms --------------------------------------------------------------------------------


def _unsupported(name, order):
    shown = f"{order:g}" if isinstance(order, (int, float)) else order
    raise RuntimeError(f"{name}: Order {shown} not supported.")


def _as_matrices(self, dim, dtype):
    """The input of a matrix norm with the two dimensions last, and what they were."""
    name = "linalg.matrix_norm"
    require_matrix(self, name)
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {' '.join(map(str, dim))}")
    rows, columns = (wrap_dim(d, self.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    check_norm_dtype(self, dtype, name)
    return jnp.moveaxis(self, (rows, columns), (-2, -1)), (rows, columns)


@op("linalg_matrix_norm(Tensor self, float ord, int[] dim=[-2, -1], bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor", forms="function out")
def linalg_matrix_norm(self, ord, dim, keepdim, dtype):
    """A norm of matrices in two dimensions.

    Args:
        ord: "fro", "nuc", 1 (-1), 2 (-2) or inf (-inf).
        dim: the two dimensions; keepdim: whether they stay, as ones.
        dtype: computed in, and the result's (its real part).

    Raises:
        RuntimeError: for another ``ord``, or integers.

    >>> import ftorch as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 4.0]]))
    tensor(5.)
    """
    if abs(ord) not in (1, 2, math.inf):
        _unsupported("linalg.matrix_norm", ord)
    x, dims = _as_matrices(self, dim, dtype)
    if abs(ord) == 2:
        require_float(self, "linalg.matrix_norm")
    x = x if dtype is None else x.astype(dtype)
    if abs(ord) == 2:
        terms = linalg_svdvals(x, None)
    else:
        axis = x.ndim - (2 if abs(ord) == 1 else 1)
        terms = jnp.squeeze(p_norm(up(x), 1, (axis,)), axis).astype(x.real.dtype)
    if terms.shape[-1]:
        norm = (jnp.max if ord > 0 else jnp.min)(terms, -1)
    elif ord > 0:
        norm = jnp.zeros(terms.shape[:-1], terms.dtype)
    else:
        where = -1 if ord == -2 else min(dims)
        raise IndexError(f"amin(): Expected reduction dim {where} to have non-zero size.")
    return jnp.expand_dims(norm, dims) if keepdim else norm


@op("linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2, -1], "
    "bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", forms="function out")
def linalg_matrix_norm_str(self, ord, dim, keepdim, dtype):
    if ord not in ("fro", "nuc"):
        _unsupported("linalg.matrix_norm", ord)
    x, dims = _as_matrices(self, dim, dtype)
    if ord == "nuc":
        require_float(self, "linalg.matrix_norm")
    x = x if dtype is None else x.astype(dtype)
    if ord == "fro":
        norm = jnp.squeeze(p_norm(up(x), 2, (x.ndim - 2, x.ndim - 1)), (-2, -1))
        norm = norm.astype(x.real.dtype)
    else:
        norm = jnp.sum(linalg_svdvals(x, None), -1)
    return jnp.expand_dims(norm, dims) if keepdim else norm


def _cond(self, p, norm, invalid):
    """The condition number; ``norm`` is the kernel of the matrix norm for ``p``."""
    if invalid:
        shown = f"{p:g}" if isinstance(p, (int, float)) else p
        raise RuntimeError(f"linalg.cond got an invalid norm type: {shown}")
    if p is None or p in (2, -2):
        if self.ndim < 2:
            raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
        if not self.size:
            return jnp.zeros(self.shape[:-2], self.real.dtype)
        values = linalg_svdvals(self, None)
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    require_square(self, f"linalg.cond(ord={p:g})" if norm is linalg_matrix_norm
                   else f"linalg.cond(ord={p})")
    if not self.size:
        return jnp.zeros(self.shape[:-2], self.real.dtype)
    inverse, info = linalg_inv_ex(self, False)
    result = norm(self, p, (-2, -1), False, None) * norm(inverse, p, (-2, -1), False, None)
    return jnp.where(info > 0, jnp.full((), math.inf, result.dtype), result)


@op("linalg_cond(Tensor self, float? p=None) -> Tensor", forms="function out")
def linalg_cond(self, p):
    """The condition number of matrices, with respect to a matrix norm.

    Args:
        p: as ``ord`` of `torch.linalg.matrix_norm`; None is 2.

    Raises:
        RuntimeError: for an unknown norm, or one that needs square matrices.

    >>> import ftorch as torch
    >>> torch.linalg.cond(torch.tensor([[4.0, 0.0], [0.0, 2.0]]))
    tensor(2.)
    """
    invalid = p is not None and abs(p) not in (1, 2, math.inf)
    return _cond(self, p, linalg_matrix_norm, invalid)


@op("linalg_cond.p_str(Tensor self, str p) -> Tensor", forms="function out")
def linalg_cond_str(self, p):
    return _cond(self, p, linalg_matrix_norm_str, p not in ("fro", "nuc"))


# --- powers and the exponential -----------------------------------------------------------


@op("linalg_matrix_power(Tensor self, int n) -> Tensor", forms="function out",
    layout=columns(0, rows=lambda static: static["n"] != -1))
def linalg_matrix_power(self, n):
    """``A @ A @ ... @ A``, n times; of the inverse for a negative n.

    Raises:
        torch.linalg.LinAlgError: for a negative n, if a matrix is singular.

    >>> import ftorch as torch
    >>> torch.linalg.matrix_power(torch.tensor([[2.0]]), 3)
    tensor([[8.]])
    """
    require_square(self, "linalg.matrix_power")
    base = linalg_inv(self) if n < 0 else self
    result = None
    n = abs(n)
    while n:
        if n & 1:
            result = base if result is None else matmul(result, base)
        n >>= 1
        base = matmul(base, base) if n else base
    if result is None:
        return jnp.broadcast_to(jnp.eye(self.shape[-1], dtype=self.dtype), self.shape)
    return result


@linalg_matrix_power.check(waits=lambda n: n < 0)
def _(self, n):
    if n < 0:
        check_inverse(self)


matrix_power = twin(
    linalg_matrix_power, "matrix_power(Tensor self, int n) -> Tensor", forms="function method out"
)


# Padé approximants of the exponential: numerators' coefficients, and the largest norm for which they are exact
# to the last bit (Higham, 2005).
_PADE = {
    4: (3.925724783138660, (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1)),
    8: (5.371920351148152, (
        64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
        10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
    )),
}
_MOST_SQUARINGS = 64


def _expm(x):
    """The exponential by scaling, a Padé approximant and squaring, each matrix with its own scale."""
    if x.size == 0:
        return x
    a = up(x)
    limit, coefficients = _PADE[a.real.dtype.itemsize]
    norm = jnp.max(jnp.sum(jnp.abs(a), -2), -1)
    scales = jnp.ceil(jnp.log2(jnp.where(jnp.isfinite(norm), norm, 1) / limit))
    squarings = jnp.clip(scales, 0, _MOST_SQUARINGS)[..., None, None]
    a = a * jnp.exp2(-squarings)
    one = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    square, power = product(a, a), one
    odd, even = jnp.zeros_like(a), jnp.zeros_like(a)
    for i in range(0, len(coefficients), 2):
        even, odd = even + float(coefficients[i]) * power, odd + float(coefficients[i + 1]) * power
        if i + 2 < len(coefficients):
            power = product(power, square)
    odd = product(a, odd)
    result = jnp.linalg.solve(even - odd, even + odd)
    most = jnp.max(squarings)

    def step(result, i):
        def squared(result):
            return jnp.where(i < squarings, product(result, result), result)

        return lax.cond(i < most, squared, lambda result: result, result), None

    # A scan, since reverse mode does not go through loops whose length depends on values.
    return lax.scan(step, result, jnp.arange(_MOST_SQUARINGS))[0].astype(x.dtype)


@op("linalg_matrix_exp(Tensor self) -> Tensor")
def linalg_matrix_exp(self):
    """The exponential of square matrices.

    >>> import ftorch as torch
    >>> torch.linalg.matrix_exp(torch.zeros(1, 1))
    tensor([[1.]])
    """
    require_square(self, "linalg.matrix_exp")
    require_float(self, "linalg.matrix_exp", low_precision=True)
    return _expm(self)


@linalg_matrix_exp.derivative
def _(grad, self):
    # The exponential of [[A^H, G], [0, A^H]] holds its derivative in the direction G.
    n = self.shape[-1]
    a = adjoint(self)
    top = jnp.concatenate([a, grad], axis=-1)
    bottom = jnp.concatenate([jnp.zeros_like(a), a], axis=-1)
    return _expm(jnp.concatenate([top, bottom], axis=-2))[..., :n, n:]


matrix_exp = twin(
    linalg_matrix_exp, "matrix_exp(Tensor self) -> Tensor", forms="function method"
)


# --- products of vectors ------------------------------------------------------------------


@op("linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", forms="function out")
def linalg_vecdot(x, y, dim):
    """``sum(conj(x) * y, dim)``, the other dimensions broadcast.

    Raises:
        RuntimeError: for integers, or different dtypes.

    >>> import ftorch as torch
    >>> torch.linalg.vecdot(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    require_float(x, "linalg.vecdot", low_precision=True)
    require_same_dtype("linalg.vecdot", "x", x, "y", y)
    shape = broadcast_shapes(x.shape, y.shape)
    terms = up(jnp.conj(x)) * up(y)
    dim = wrap_dim(dim, len(shape))
    return (jnp.sum(terms, dim) if shape else terms).astype(x.dtype)
