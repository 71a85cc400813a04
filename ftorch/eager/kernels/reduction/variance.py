"""Variance and standard deviation."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from .._common import as_count, is_complex, is_integral, up, wrap_dims
from .reductions import elements, restore_dims


@jax.custom_jvp
def _root(variance):
    return jnp.sqrt(variance)


@_root.defjvp
def _(primals, tangents):
    # PyTorch's subgradient: constant data have a standard deviation that does not move.
    root = jnp.sqrt(primals[0])
    slope = jnp.where(root == 0, jnp.zeros((), root.dtype), 0.5 / root)
    return root, tangents[0] * slope


def _moments(name, self, dim, correction, keepdim):
    """Variance and mean, in the precision of intermediate results."""
    if is_integral(self):
        what = name if name.endswith("_mean") else "std and var"
        raise RuntimeError(f"{what} only support floating point and complex dtypes")
    dims = wrap_dims(dim, self.ndim)
    x = up(self)
    count = elements(x.shape, dims)
    freedom = count - (1 if correction is None else correction)
    average = jnp.sum(x, dims, keepdims=True) / as_count(count, x.dtype)
    away = x - average
    squares = away.real**2 + away.imag**2 if is_complex(x) else away**2
    total = jnp.sum(squares, dims, keepdims=keepdim)
    variance = total / as_count(freedom, total.dtype)
    return variance, average if keepdim else jnp.squeeze(average, dims)


def _few_values(name, self, dim, correction):
    """The warning that there are no degrees of freedom."""
    try:
        count = elements(self.shape, wrap_dims(dim, len(self.shape)))
    except (IndexError, RuntimeError):  # no such dimensions, which the kernel says
        return None
    if count > correction or self.dtype.category < 2:
        return None
    return (
        f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
        "reduction factor (input numel divided by output numel)."
    )


def _real_dtype(x):
    return np.zeros((), x.dtype).real.dtype


def _variance(self, dim, correction, keepdim):
    return _moments("var", self, dim, correction, keepdim)[0].astype(_real_dtype(self))


def _deviation(self, dim, correction, keepdim):
    return _root(_moments("std", self, dim, correction, keepdim)[0]).astype(_real_dtype(self))


def _variance_gradient(grad, self, dim, correction, keepdim):
    dims = wrap_dims(dim, self.ndim)
    x = up(self)
    count = elements(x.shape, dims)
    freedom = count - (1 if correction is None else correction)
    away = x - jnp.sum(x, dims, keepdims=True) / as_count(count, x.dtype)
    grad = restore_dims(grad.astype(_real_dtype(x)), self.ndim, dims, keepdim)
    if freedom > 0:
        return grad * (2 / freedom) * away
    # No degrees of freedom: PyTorch's answers differ between all dimensions and some.
    if dim is None or self.ndim == 0:
        return grad * jnp.where(away == 0, np.nan, np.inf).astype(grad.dtype)
    return grad * np.asarray(np.divide(2.0, freedom) if freedom else np.inf, grad.dtype) * away


def _deviation_gradient(grad, self, dim, correction, keepdim, result):
    result = result.astype(grad.dtype)
    grad = jnp.where(result == 0, jnp.zeros((), grad.dtype), grad / (2 * result))
    return _variance_gradient(grad, self, dim, correction, keepdim)


def _declare_variance(name, kernel, gradient, returns):
    """The three overloads: over everything, over dims, and with a correction."""
    forms = "function method out" if returns == "Tensor" else "function"

    @op(f"{name}(Tensor self, bool unbiased=True) -> {returns}",
        forms=forms.replace(" out", ""))
    def full(self, unbiased=True):
        return kernel(self, None, float(unbiased), False)

    @op(f"{name}.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)"
        f" -> {returns}", forms=forms)
    def along(self, dim, unbiased=True, keepdim=False):
        return kernel(self, dim, float(unbiased), keepdim)

    @op(f"{name}.correction(Tensor self, int[1]? dim=None, *, float? correction=None,"
        f" bool keepdim=False) -> {returns}", forms=forms)
    def corrected(self, dim=None, correction=None, keepdim=False):
        return kernel(self, dim, correction, keepdim)

    @full.notice
    def _(self, unbiased):
        return _few_values(name, self, None, unbiased)

    @along.notice
    def _(self, dim, unbiased):
        return _few_values(name, self, dim, unbiased)

    @corrected.notice
    def _(self, dim, correction):
        return _few_values(name, self, dim, 1 if correction is None else correction)

    if gradient is None:
        return

    @full.derivative
    def _(grad, *, self, unbiased, result):
        return gradient(grad, self, None, float(unbiased), False, result)

    @along.derivative
    def _(grad, *, self, dim, unbiased, keepdim, result):
        return gradient(grad, self, dim, float(unbiased), keepdim, result)

    @corrected.derivative
    def _(grad, *, self, dim, correction, keepdim, result):
        return gradient(grad, self, dim, correction, keepdim, result)


def _variance_and_mean(self, dim, correction, keepdim):
    variance, average = _moments("var_mean", self, dim, correction, keepdim)
    return variance.astype(_real_dtype(self)), average.astype(self.dtype)


def _deviation_and_mean(self, dim, correction, keepdim):
    variance, average = _moments("std_mean", self, dim, correction, keepdim)
    return _root(variance).astype(_real_dtype(self)), average.astype(self.dtype)


def _variance_gradient_from_result(grad, self, dim, correction, keepdim, result):
    return _variance_gradient(grad, self, dim, correction, keepdim)


_declare_variance("var", _variance, _variance_gradient_from_result, "Tensor")
_declare_variance("std", _deviation, _deviation_gradient, "Tensor")
_declare_variance("var_mean", _variance_and_mean, None, "(Tensor, Tensor)")
_declare_variance("std_mean", _deviation_and_mean, None, "(Tensor, Tensor)")
