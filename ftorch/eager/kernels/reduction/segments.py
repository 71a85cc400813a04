"""Reductions of segments of a tensor, and of its bits."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from .._common import is_complex, is_floating, wrap_dim, wrap_dims
from ..pointwise.unary import not_implemented

# --- segment_reduce ----------------------------------------------------------------------

_COMBINE = {
    "max": jax.ops.segment_max, "min": jax.ops.segment_min, "prod": jax.ops.segment_prod,
}
_IDENTITY = {"sum": 0.0, "mean": 0.0, "max": -np.inf, "min": np.inf, "prod": 1.0}
_NAMES = {"amax": "max", "amin": "min"}  # what ATen understands besides


def _segments(data, lengths, offsets, axis):
    """(the number of segments, for each row of each batch its segment, or the number if in none)."""
    edges = offsets
    if edges is None:
        edges = jnp.cumsum(lengths, axis)
        edges = jnp.concatenate([jnp.zeros_like(edges[..., :1]), edges], axis)
    rows, count = jnp.arange(data.shape[axis]), edges.shape[axis] - 1
    search = lambda e: jnp.searchsorted(e, rows, side="right") - 1  # noqa: E731
    of = _batched(search, axis)(edges)
    return count, jnp.where(of < 0, count, of), edges[..., 1:] - edges[..., :-1]


def _batched(function, times):
    for _ in range(times):
        function = jax.vmap(function)
    return function


def _combined(reduce, data, of, count, axis):
    combine = _COMBINE.get(reduce, jax.ops.segment_sum)
    one = lambda rows, ids: combine(rows, ids, count + 1)[:count]  # noqa: E731
    return _batched(one, axis)(data, of)


def _spread(reduced, of, axis):
    """To each row its segment's value; 0 to those in none."""
    return _batched(lambda values, ids: values.at[ids].get(mode="fill", fill_value=0), axis)(
        reduced, of
    )


@op("segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
    "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    aliases="_segment_reduce")
def segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial):
    """Reduces the segments of ``data`` along ``axis``: ``lengths`` gives their sizes, or ``offsets``
    where they begin. An empty segment gives ``initial`` (the identity if None; NaN for a mean)."""
    axis = wrap_dim(axis, data.ndim)
    if axis != (lengths if lengths is not None else offsets if offsets is not None else data).ndim - 1:
        raise RuntimeError(
            "segment_reduce(): Expected axis to be the last dimension of lengths but got "
            f"{axis}."
        )
    name, reduce = reduce, _NAMES.get(reduce, reduce)
    if reduce not in _IDENTITY:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {name}"
        )
    if lengths is None and offsets is None:
        raise RuntimeError(
            "segment_reduce(): Either lengths or offsets must be defined."
        )
    count, of, sizes = _segments(data, lengths, offsets, axis)
    reduced = _combined(reduce, data, of, count, axis)
    start = jnp.asarray(_IDENTITY[reduce] if initial is None else initial).astype(data.dtype)
    sizes = sizes.reshape(sizes.shape + (1,) * (reduced.ndim - sizes.ndim))
    empty = sizes == 0
    if reduce in ("sum", "mean"):
        reduced = reduced + start
    elif reduce == "prod":
        reduced = reduced * start
    else:
        reduced = (jnp.maximum if reduce == "max" else jnp.minimum)(reduced, start)
    if reduce == "mean":
        if initial is None:
            start = jnp.asarray(np.nan, data.dtype)
        reduced = reduced / jnp.maximum(sizes, 1).astype(data.dtype)
    return jnp.where(empty, start, reduced)


@segment_reduce.derivative
def _(grad, *, data, reduce, lengths, offsets, axis, unsafe, initial):
    kind, axis = _NAMES.get(reduce, reduce), wrap_dim(axis, data.ndim)
    result = functools.partial(segment_reduce, reduce=reduce, lengths=lengths, indices=None, offsets=offsets, axis=axis,
                               unsafe=unsafe, initial=initial)
    if kind not in ("prod", "max", "min"):
        _, gradient = jax.vjp(lambda x: result(x), data)
        return gradient(grad)[0], None, None, None
    count, of, _ = _segments(data, lengths, offsets, axis)
    nan = jnp.isnan(data) if jnp.issubdtype(data.dtype, jnp.inexact) else jnp.zeros_like(data, bool)
    if kind != "prod":  # shared by those that are the result, and NaN
        chosen = (data == _spread(result(data), of, axis)) | nan
        shares = _spread(_combined("sum", chosen.astype(data.dtype), of, count, axis), of, axis)
        share = _spread(grad, of, axis) / jnp.maximum(shares, jnp.ones_like(shares))
        return jnp.where(chosen, share, jnp.zeros_like(share)), None, None, None
    # The product of the others: without zeros and NaN, unless there is another one.
    zero = data == 0
    special = zero | nan
    one = jnp.ones_like(data)
    others = _combined("prod", jnp.where(special, one, data), of, count, axis)
    if initial is not None:
        others = others * initial
    zeros, nans = (_combined("sum", x.astype(jnp.int32), of, count, axis) for x in (zero, nan))
    others, zeros, nans, grad = (_spread(x, of, axis) for x in (others, zeros, nans, grad))
    rest = jnp.where(special, others, others / jnp.where(special, one, data))
    rest = jnp.where(zeros - zero > 0, jnp.zeros_like(rest), rest)
    rest = jnp.where(nans - nan > 0, jnp.asarray(np.nan, rest.dtype), rest)
    return grad * rest, None, None, None


@segment_reduce.check
def _(data, lengths, offsets, axis, unsafe):
    if lengths is None and offsets is not None and (np.diff(offsets) < 0).any():
        raise RuntimeError("Expected segment_length >= 0 to be true, but got false.  (Could this error message be improved?  "
                           "If so, please report an enhancement request to PyTorch.)")
    if lengths is None or unsafe:
        return
    if (lengths < 0).any():
        raise RuntimeError("lengths contains negative value!")
    if (lengths.sum(-1) != data.shape[axis]).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            "data.size(lengths.dim()-1) when !unsafe."
        )


# --- hash_tensor -------------------------------------------------------------------------


@op("hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
    forms="function method out", differentiable=False)
def hash_tensor(self, dim, keepdim, mode):
    """The exclusive or of the elements' bits, floating-point numbers taken as float64."""
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if is_complex(self):
        raise not_implemented("xor_sum_cpu", self.dtype)
    if not self.size and dim in (None, ()):
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    if is_floating(self):
        bits = jax.lax.bitcast_convert_type(self.astype(jnp.float64), jnp.uint64)
    else:
        bits = self.astype(jnp.int64 if self.dtype != jnp.uint64 else jnp.uint64).astype(jnp.uint64)
    dims = wrap_dims(dim, self.ndim)
    result = jax.lax.reduce(bits, np.uint64(0), jax.lax.bitwise_xor, dims)
    return jnp.expand_dims(result, dims) if keepdim else result
