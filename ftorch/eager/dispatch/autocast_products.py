"""Functions that PyTorch composes of several calls, of which autocast casts the products of matrices.

Each is given the arguments of its op, with autocast on, and gives the result, or None where the op itself computes or refuses.
"""

from __future__ import annotations

import functools
import math

from ..core import api
from ..core import dtype as _dtype


def _floating(x):
    if x.dim() > 2 or x.dtype is _dtype.bool:
        return None
    x = x if x.dim() == 2 else x.reshape(1, -1)
    return x if x.is_floating_point() or x.is_complex() else x.to(_dtype.get_default_dtype())


def _cov(x, fweights, aweights, correction):
    x = _floating(x)
    if x is None or any(w is not None and (w.dim() > 1 or w.numel() != x.shape[1]) for w in (fweights, aweights)):
        return None
    count = x.shape[1]
    weights = [w.reshape(-1) for w in (fweights, aweights) if w is not None]
    if weights:
        weight = math.prod(weights[1:], start=weights[0])
        total = weight.sum()
        mean = (x * weight).sum(1) / total
        lost = correction * (weight * aweights).sum() / total if aweights is not None else correction
        freedom = (total - lost).clamp(min=0)
    else:
        weight, mean, freedom = None, x.sum(1) / count, max(count - correction, 0)
    x = x - mean.unsqueeze(1)
    weighted = x if weight is None else x * weight
    return api.matmul(x, weighted.t().conj()).true_divide(freedom).squeeze()


def _corrcoef(x):
    c = api.cov(x)
    if c.dim() == 0:
        return c / c
    deviation = c.diag().real.sqrt() if c.is_complex() else c.diag().sqrt()
    c = c / deviation.view(-1, 1) / deviation.view(1, -1)
    return api.complex(c.real.clamp(-1, 1), c.imag.clamp(-1, 1)) if c.is_complex() else c.clamp(-1, 1)


def _pinv(x, atol, rtol, hermitian):
    if x.dim() < 2 or not x.numel():
        return None
    if atol is None:
        atol = 0.0
    if rtol is None:
        rtol = _dtype.finfo(x.dtype).eps * max(x.shape[-2:]) if not isinstance(atol, (int, float)) or atol <= 0 else 0.0
    if hermitian:
        values, left = api.linalg.eigh(x)
        right, magnitude = left, values.abs()
    else:
        left, magnitude, right = api.linalg.svd(x, full_matrices=False)
        values, right = magnitude, right.mH
    limit = (magnitude.amax(-1, keepdim=True) * rtol).clamp(min=atol)
    inverted = api.where(magnitude > limit, values.reciprocal(), 0.0).to(x.dtype)
    return api.matmul(right * inverted.unsqueeze(-2), left.mH)


def _matrix_power(x, n):
    if abs(n) < 2 or x.dim() < 2 or x.shape[-1] != x.shape[-2]:
        return None
    return functools.reduce(lambda result, base: base if result is None else api.matmul(result, base), _powers(x, n), None)


def _powers(x, n):
    """The squares of squares of a matrix whose product is its power."""
    base, n = api.linalg.inv(x) if n < 0 else x, abs(n)
    while n:
        if n & 1:
            yield base
        n >>= 1
        base = api.matmul(base, base) if n else base


def _pinv_of(tensors, static):
    if len(tensors) > 1:
        return None  # tolerances that are tensors
    return _pinv(tensors[0], 0.0, *static) if len(static) == 2 else _pinv(tensors[0], *static)


COMPOSED = {
    "cov": lambda tensors, static: _cov(*tensors, *static),
    "corrcoef": lambda tensors, static: _corrcoef(*tensors),
    "linalg_pinv": _pinv_of,
    "linalg_matrix_power": lambda tensors, static: _matrix_power(*tensors, *static),
}
