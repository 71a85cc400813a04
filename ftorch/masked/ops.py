"""Masked operations: what the mask leaves out becomes the operation's identity, then the ordinary one
runs.

A mask is a boolean tensor that broadcasts to the input; True selects, None selects everything. Results
that no element goes into are the identity.

>>> import ftorch as torch
>>> torch.masked.mean(torch.tensor([1.0, 2.0, 6.0]), mask=torch.tensor([True, True, False]))
tensor(1.5000)
"""

from __future__ import annotations

import functools
import math

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.core.formats import strided
from ._layouts import canonical_dim, mask_in_shape, of_sparse

_SMALL = (_dtype.uint8, _dtype.bool, _dtype.int8, _dtype.int16, _dtype.int32)


def _keep(input, mask, identity):
    if mask is None:
        return input
    return torch.where(mask_in_shape(input, mask), input, input.new_full((), identity))


def _lowest(input):
    floating = input.is_floating_point() or input.is_complex()
    return -math.inf if floating else _dtype.iinfo(input.dtype).min


def _highest(input):
    return math.inf if input.is_floating_point() else _dtype.iinfo(input.dtype).max


def _total_dtype(input, dtype):
    return dtype or (_dtype.int64 if input.dtype in _SMALL else input.dtype)


# --- reductions ----------------------------------------------------------------------


def sum(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The sum of the selected elements."""
    return torch.sum(
        _keep(input, mask, 0), canonical_dim(dim, input.ndim), keepdim, dtype=_total_dtype(input, dtype)
    )


def prod(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The product of the selected elements."""
    result = _keep(input, mask, 1).to(_total_dtype(input, dtype))
    dims = canonical_dim(dim, input.ndim) if input.ndim or (dim is not None and dim != ()) else ()  # a number is its own
    for d in reversed(dims):
        result = result.prod(d, keepdim=keepdim)
    return result


def amax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The largest selected element."""
    kept = _keep(input, mask, _lowest(input))
    return torch.amax(kept, canonical_dim(dim, input.ndim), keepdim).to(dtype or input.dtype)


def amin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The smallest selected element."""
    kept = _keep(input, mask, _highest(input))
    return torch.amin(kept, canonical_dim(dim, input.ndim), keepdim).to(dtype or input.dtype)


def argmax(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The index of the largest selected element, in the input's dtype unless ``dtype`` says more."""
    kept = _keep(input, mask, _lowest(input))
    return torch.argmax(kept, dim, keepdim).to(dtype or input.dtype)


def argmin(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The index of the smallest selected element, in the input's dtype unless ``dtype`` says more."""
    kept = _keep(input, mask, _highest(input))
    return torch.argmin(kept, dim, keepdim).to(dtype or input.dtype)


def _count(input, dim, keepdim, mask):
    if mask is None:
        mask = torch.ones(input.shape, dtype=_dtype.bool, device=input.device)
    return mask_in_shape(input, mask).sum(canonical_dim(dim, input.ndim), keepdim)


def mean(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The mean of the selected elements; NaN where there are none.

    Raises:
        ValueError: for integers, unless ``dtype`` is a floating-point dtype.
    """
    source, wanted = ("Input", input.dtype) if dtype is None else ("Optional", dtype)
    if not (wanted.is_floating_point or wanted.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point "
            f"or complex dtype. Got: {wanted}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask)
    return total / _count(input, dim, keepdim, mask)


def median(input, dim=-1, *, keepdim=False, dtype=None, mask=None):
    """The median of the selected elements (the lower one of two); NaN where there are none.

    Raises:
        ValueError: for integers where there are none.
    """
    floating = input.is_floating_point()
    kept = _keep(input if floating else input.to(_dtype.float32), mask, math.nan)
    result = torch.nanmedian(kept, canonical_dim(dim, input.ndim)[0], keepdim).values
    if floating:
        return result
    if torch.isnan(result).any():
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return result.to(dtype or input.dtype)


def logsumexp(input, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The logarithm of the sum of the exponentials of the selected elements."""
    kept = _keep(input, mask, _lowest(input))
    return torch.logsumexp(kept, canonical_dim(dim, input.ndim), keepdim=keepdim).to(dtype or input.dtype)


def norm(input, ord=2.0, dim=None, *, keepdim=False, dtype=None, mask=None):
    """The vector norm of the selected elements."""
    kept = _keep(input, mask, math.inf if ord == -math.inf else 0)
    return torch.linalg.vector_norm(
        kept, ord, canonical_dim(dim, input.ndim), keepdim, dtype=dtype or input.dtype
    )


def var(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The variance of the selected elements, their number less ``correction`` (1) the divisor."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    wanted = dtype or input.dtype
    wide = wanted if wanted.is_floating_point or wanted.is_complex else _dtype.float32
    if dtype is None:
        wanted = wide
    count = _count(input, dim, True, mask)
    centered = input - sum(input, dim, keepdim=True, dtype=wanted, mask=mask) / count
    squares = centered * centered.conj()
    total = sum(squares, dim, keepdim=keepdim, dtype=wide, mask=mask)
    divisor = count.reshape(total.shape).to(wide.to_real()) - correction
    result = total / torch.maximum(divisor, divisor.new_zeros(()))
    return result.to(wanted)


def std(input, dim=None, unbiased=None, *, correction=None, keepdim=False, dtype=None, mask=None):
    """The standard deviation of the selected elements; see `var`."""
    result = var(
        input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask
    )
    return result.sqrt() if dtype is None else result.sqrt().to(dtype)


# --- along a dimension ---------------------------------------------------------------


def cumsum(input, dim, *, dtype=None, mask=None):
    """The running sum of the selected elements."""
    d = canonical_dim(dim, input.ndim)[0]
    return torch.cumsum(_keep(input, mask, 0), d, dtype=dtype or input.dtype)


def cumprod(input, dim, *, dtype=None, mask=None):
    """The running product of the selected elements."""
    d = canonical_dim(dim, input.ndim)[0]
    return torch.cumprod(_keep(input, mask, 1), d, dtype=dtype or input.dtype)


def softmax(input, dim, *, dtype=None, mask=None):
    """The softmax of the selected elements; 0 elsewhere."""
    kept = _keep(input, mask, _lowest(input))
    return torch.nn.functional.softmax(kept, canonical_dim(dim, input.ndim)[0], dtype=dtype or input.dtype)


def log_softmax(input, dim, *, dtype=None, mask=None):
    """The logarithm of `softmax`."""
    kept, d = _keep(input, mask, _lowest(input)), canonical_dim(dim, input.ndim)[0]
    return torch.nn.functional.log_softmax(kept, d, dtype=dtype or input.dtype)


def softmin(input, dim, *, dtype=None, mask=None):
    """The softmax of the negated selected elements; 0 elsewhere."""
    kept = _keep(input, mask, _highest(input))
    return torch.nn.functional.softmin(kept, canonical_dim(dim, input.ndim)[0], dtype=dtype or input.dtype)


def normalize(input, ord, dim, *, eps=1e-12, dtype=None, mask=None):
    """The selected elements divided by their norm along ``dim``, which is at least ``eps``."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype or input.dtype, mask=mask)
    return torch.divide(_keep(input, mask, 0), torch.maximum(length, length.new_full((), eps)))


def logaddexp(input, other, *, dtype=None, input_mask=None, other_mask=None):
    """``log(exp(input) + exp(other))`` of what the masks select of each."""
    x = _keep(input, input_mask, _lowest(input))
    y = _keep(other, other_mask, _lowest(other))
    return torch.logaddexp(x, y).to(dtype or input.dtype)


def _of_masked_tensors(function):
    """A function that also takes a masked tensor, its data and its mask if none is given; and sparse tensors."""

    @functools.wraps(function)
    def wrapper(input, *args, mask=None, **kwargs):
        if hasattr(input, "get_mask"):
            mask = input.get_mask() if mask is None else mask
            input = input.get_data()
        if input.layout is not strided:
            return of_sparse(function.__name__, function, input, args, {**kwargs, "mask": mask})
        return function(input, *args, mask=mask, **kwargs)

    return wrapper


for _function in (
    sum, prod, amax, amin, argmax, argmin, mean, median, logsumexp, norm, var, std, cumsum, cumprod, softmax,
    log_softmax, softmin, normalize,
):
    globals()[_function.__name__] = _of_masked_tensors(_function)
