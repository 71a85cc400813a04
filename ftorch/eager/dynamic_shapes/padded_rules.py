"""Padding rules: how operations go on with padded operands: `RULES`, for `ftorch.eager.dynamic_shapes.padded`."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from .padded import Factors, Free, Size, Unknown, Value, fixed, varies

RULES: dict[str, Any] = {}


def rule(*names):
    """Registers the rule of some operations: function(padded, pair, values) -> values."""

    def register(function):
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def _lowest(dtype):
    if dtype == np.bool_:
        return False
    return -np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _highest(dtype):
    if dtype == np.bool_:
        return True
    return np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


# --- element by element ---------------------------------------------------------------

_ELEMENTWISE = """
abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e
bitcast_convert_type cbrt ceil clamp clz
complex conj convert_element_type copy copy_p cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2
expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow is_finite le le_to lgamma log log1p
log2 logistic lt lt_to max min mul ne neg nextafter not one_minus_square or polygamma population_count pow real
reduce_precision regularized_incomplete_beta rem round rsqrt select_n shift_left
shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh xor zeta
""".split()


@rule(*_ELEMENTWISE)
def _elementwise(p, pair, given):
    rank = len(pair.shapes()[0])
    if max(len(v.dims) for v in given) != rank:
        raise Unknown(f"{pair.name} to another number of bytes")
    full = [v for v in given if len(v.dims) == rank]
    dims = tuple(p.common([v.dims[i] for v in full]) for i in range(rank))
    arrays = [p.spread(v, dims).array if len(v.dims) == rank else v.array for v in given]
    return [Value(a, dims) for a in pair.bind(*arrays)]


@rule("optimization_barrier")
def _same(p, pair, given):
    return [Value(a, v.dims) for a, v in zip(pair.bind(*[v.array for v in given]), given)]


# --- shapes ---------------------------------------------------------------------------


@rule("broadcast_in_dim")
def _broadcast(p, pair, given):
    v = given[0]
    places = pair.unchanging("broadcast_dimensions")
    at = {place: i for i, place in enumerate(places)}
    dims: list[Any] = []
    for d, (a, b) in enumerate(zip(*pair.shapes())):
        own = v.dims[at[d]] if d in at else None
        if own is not None and own != fixed(1):
            dims.append(own)
        else:
            dims.append(fixed(a) if a == b else Free((a, b)))
    shape = [p.padded(d) for d in dims]
    return [Value(lax.broadcast_in_dim(v.array, shape, places), tuple(dims))]


@rule("iota")
def _iota(p, pair, given):
    axis = pair.unchanging("dimension")
    dims = [fixed(a) if a == b else Free((a, b)) for a, b in zip(*pair.shapes())]
    if isinstance(dims[axis], Free):
        dims[axis] = p.factors(dims[axis].lengths)
    shape = [p.padded(d) for d in dims]
    places = lax.broadcasted_iota(pair.params["dtype"], shape, axis)
    return [Value(p.index(places, dims[axis]), tuple(dims))]


@rule("transpose")
def _transpose(p, pair, given):
    order = pair.unchanging("permutation")
    (array,) = pair.bind(given[0].array)
    return [Value(array, tuple(given[0].dims[i] for i in order))]


@rule("squeeze")
def _squeeze(p, pair, given):
    drop = pair.unchanging("dimensions")
    (array,) = pair.bind(given[0].array)
    return [Value(array, tuple(d for i, d in enumerate(given[0].dims) if i not in drop))]


@rule("reshape")
def _reshape(p, pair, given):
    if pair.params.get("dimensions") is not None:
        raise Unknown("a reshape in another order")
    v, shapes = given[0], pair.shapes()
    if all(isinstance(d, Free) or d == fixed(1) for d in v.dims):
        dims: list[Any] = [fixed(a) if a == b else Free((a, b)) for a, b in zip(*shapes)]
        return [Value(lax.broadcast(v.array.reshape(()), [p.padded(d) for d in dims]), tuple(dims))]
    v = p.settled(v)
    factors = [f for d in v.dims for f in d if f != Size((), 1)]
    try:
        left = list(factors)
        dims = [_taken(p, left, lengths) for lengths in zip(*shapes)]
        if left:
            raise Unknown("a reshape")
        array = v.array
    except Unknown:
        dims = [p.factors(lengths) for lengths in zip(*shapes)]
        wanted = tuple(f for d in dims for f in d)
        array = p.relaid(v.array.reshape(-1), 0, tuple(factors), wanted)
    return [Value(array.reshape([p.padded(d) for d in dims]), tuple(dims))]


def _taken(p, left, lengths) -> Factors:
    """The first of some factors (which are removed) that make a dimension of the given lengths."""
    found: list[Size] = []
    rest = list(lengths)
    while rest != [1, 1]:
        if not left:
            raise Unknown("a reshape")
        f = left.pop(0)
        own = [f.at(s) for s in p.samples]
        if f.terms:
            if any(n == 0 or r % n for r, n in zip(rest, own)):
                raise Unknown("a reshape that takes a part of what varies")
            found.append(f)
        else:
            take = math.gcd(math.gcd(rest[0], rest[1]), f.constant)
            if take == 1:
                raise Unknown("a reshape of parts")
            own = [take, take]
            if take != f.constant:
                left.insert(0, Size((), f.constant // take))
            if found and not found[-1].terms:
                found[-1] = Size((), found[-1].constant * take)
            else:
                found.append(Size((), take))
        rest = [r // n for r, n in zip(rest, own)]
    return tuple(found) or fixed(1)


@rule("rev")
def _reverse(p, pair, given):
    axes = pair.unchanging("dimensions")
    v = p.plain(given[0], axes)
    array = lax.rev(v.array, [a for a in axes if not varies(v.dims[a])])
    for a in axes:
        if varies(v.dims[a]):
            n = p.true(v.dims[a])
            array = jnp.take(array, n - 1 - jnp.arange(array.shape[a]), axis=a, mode="clip")
    return [Value(array, v.dims)]


@rule("concatenate")
def _concatenate(p, pair, given):
    axis = pair.unchanging("dimension")
    rank = len(given[0].dims)
    dims: list[Any] = [
        fixed(1) if i == axis else p.common([v.dims[i] for v in given]) for i in range(rank)
    ]
    parts = [
        p.plain(p.spread(v, [d if i == axis else dims[i] for i, d in enumerate(v.dims)]), [axis])
        for v in given
    ]
    dims = [d for d in parts[0].dims]
    if not any(varies(v.dims[axis]) for v in parts):
        dims[axis] = fixed(sum(p.padded(v.dims[axis]) for v in parts))
        return [Value(lax.concatenate([v.array for v in parts], axis), tuple(dims))]
    total = Size((), 0)
    for v in parts:
        total = total + v.dims[axis][0]
    dims[axis] = (total,)
    shape = [p.padded(d) for d in dims]
    first, *others = parts
    if varies(first.dims[axis]) and not any(varies(v.dims[axis]) for v in others) and first.array.shape[axis] == shape[axis]:
        array, at = first.array, p.true(first.dims[axis])  # its array has room for a few more
    else:
        longer = list(shape)
        longer[axis] = max(shape[axis], sum(v.array.shape[axis] for v in parts))
        array, at, others = jnp.zeros(longer, first.array.dtype), 0, parts
    for v in others:  # each lies over what is behind the true part of the one before
        array = lax.dynamic_update_slice_in_dim(array, v.array, at, axis)
        at = at + p.true(v.dims[axis])
    array = lax.slice_in_dim(array, 0, shape[axis], axis=axis)
    return [Value(array, tuple(dims))]


@rule("stack")
def _stack(p, pair, given):
    axis = pair.unchanging("axis")
    dims = [p.common([v.dims[i] for v in given]) for i in range(len(given[0].dims))]
    arrays = [p.spread(v, dims).array for v in given]
    dims.insert(axis, fixed(len(given)))
    return [Value(jnp.stack(arrays, axis), tuple(dims))]


@rule("tile")
def _tile(p, pair, given):
    v, times = p.settled(given[0]), pair.unchanging("reps")
    dims = [
        fixed(p.padded(d) * n) if not varies(d) else d if n == 1 else (Size((), n), *d)
        for d, n in zip(v.dims, times, strict=True)
    ]
    return [Value(jnp.tile(v.array, times), tuple(dims))]


@rule("split")
def _split(p, pair, given):
    pair.unchanging("sizes")
    v, axis = given[0], pair.unchanging("axis")
    if varies(v.dims[axis]):
        raise Unknown("a split of what varies")
    arrays = pair.bind(v.array)
    return [
        Value(a, tuple(fixed(a.shape[i]) if i == axis else d for i, d in enumerate(v.dims)))
        for a in arrays
    ]


@rule("pad")
def _pad(p, pair, given):
    v, number = given
    config = pair.unchanging("padding_config")
    dims: list[Any] = list(v.dims)
    for i, (low, high, interior) in enumerate(config):
        if not varies(dims[i]):
            dims[i] = fixed(v.array.shape[i] + low + high + max(v.array.shape[i] - 1, 0) * interior)
        elif (low, high, interior) != (0, 0, 0):
            v = p.plain(v, [i])
            if interior:
                raise Unknown("padding between what varies")
            dims[i] = (v.dims[i][0].more(low + high),)
            array = jnp.where(p.mask(v.dims, [i]), v.array, number.array)
            v = Value(array, v.dims)
    return [Value(lax.pad(v.array, number.array, config), tuple(dims))]


# --- reductions -----------------------------------------------------------------------

_IDENTITIES = {
    "reduce_sum": lambda d: 0, "reduce_prod": lambda d: 1, "reduce_max": _lowest,
    "reduce_min": _highest, "reduce_and": lambda d: True if d == np.bool_ else -1,
    "reduce_or": lambda d: 0, "reduce_xor": lambda d: 0,
}


@rule(*_IDENTITIES)
def _reduce(p, pair, given):
    axes, v = pair.unchanging("axes"), given[0]
    v = p.spread(v, [
        p.factors(d.lengths) if i in axes and isinstance(d, Free) else d for i, d in enumerate(v.dims)
    ])
    array = p.filled(v, axes, _IDENTITIES[pair.name](v.array.dtype))
    (array,) = pair.bind(array)
    return [Value(array, tuple(d for i, d in enumerate(v.dims) if i not in axes))]


@rule("argmax", "argmin")
def _argument(p, pair, given):
    (axis,), v = pair.unchanging("axes"), p.settled(given[0])
    number = (_lowest if pair.name == "argmax" else _highest)(v.array.dtype)
    (array,) = pair.bind(p.filled(v, [axis], number))
    array = p.index(array, v.dims[axis])
    return [Value(array, tuple(d for i, d in enumerate(v.dims) if i != axis))]


_CUMULATIVE = {
    "cumsum": lambda d: 0, "cumprod": lambda d: 1, "cummax": _lowest, "cummin": _highest,
    "cumlogsumexp": _lowest,
}


@rule(*_CUMULATIVE)
def _cumulative(p, pair, given):
    axis = pair.unchanging("axis")
    v = p.plain(given[0], [axis])
    (array,) = pair.bind(p.filled(v, [axis], _CUMULATIVE[pair.name](v.array.dtype)))
    return [Value(array, v.dims)]


@rule("sort")
def _sort(p, pair, given):
    axis = pair.unchanging("dimension")
    dims = p.plain(given[0], [axis]).dims
    given = [p.spread(v, dims) for v in given]
    arrays = [v.array for v in given]
    if not varies(dims[axis]):
        return [Value(a, dims) for a in pair.bind(*arrays)]
    last = jnp.broadcast_to(~p.mask(dims, [axis]), arrays[0].shape)
    keys = pair.unchanging("num_keys")
    stable = pair.params["is_stable"]
    _, *arrays = lax.sort([last, *arrays], dimension=axis, is_stable=stable, num_keys=keys + 1)
    return [Value(a, dims) for a in arrays]


@rule("top_k")
def _top(p, pair, given):
    v, k = p.settled(given[0]), pair.unchanging("k")
    axis = pair.params.get("axis", -1) % len(v.dims)
    arrays = pair.bind(p.filled(v, [axis], _lowest(v.array.dtype)))
    dims = tuple(fixed(k) if i == axis else d for i, d in enumerate(v.dims))
    if varies(v.dims[axis]):
        arrays[1] = p.index(arrays[1], v.dims[axis])
    return [Value(a, dims) for a in arrays]


# --- products and windows -------------------------------------------------------------


@rule("dot_general")
def _product(p, pair, given):
    (of_a, of_b), (batch_a, batch_b) = pair.unchanging("dimension_numbers")
    a, b = given
    new_a, new_b = list(a.dims), list(b.dims)
    for i, j in [*zip(of_a, of_b), *zip(batch_a, batch_b)]:
        common = p.common([a.dims[i], b.dims[j]])
        if isinstance(common, Free) and i in of_a:
            common = p.factors(common.lengths)
        new_a[i] = new_b[j] = common
    a, b = p.spread(a, new_a), p.spread(b, new_b)
    (array,) = pair.bind(p.filled(a, of_a, 0), p.filled(b, of_b, 0))
    dims = [a.dims[i] for i in batch_a]
    for v, used in ((a, (*of_a, *batch_a)), (b, (*of_b, *batch_b))):
        dims += [d for i, d in enumerate(v.dims) if i not in used]
    return [Value(array, tuple(dims))]


@rule("conv_general_dilated")
def _convolution(p, pair, given):
    numbers = pair.unchanging("dimension_numbers")
    lhs, rhs, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    x, w = p.plain(given[0], lhs[2:]), p.settled(given[1])
    w = p.spread(w, [x.dims[lhs[1]] if i == rhs[1] else d for i, d in enumerate(w.dims)])
    groups = pair.unchanging("feature_group_count"), pair.unchanging("batch_group_count")
    dims = [fixed(n) for n in pair.shapes()[0]]
    xd, wd = x.dims, w.dims
    if varies(xd[lhs[0]]):
        if groups[1] != 1:
            raise Unknown("a convolution in groups")
        dims[out[0]] = xd[lhs[0]]
    if varies(wd[rhs[0]]):
        if groups != (1, 1):
            raise Unknown("a convolution in groups")
        dims[out[1]] = wd[rhs[0]]
    if varies(xd[lhs[1]]) or varies(wd[rhs[1]]):
        if groups[0] != 1 or xd[lhs[1]] != wd[rhs[1]]:
            raise Unknown("a convolution in groups")
    spatial = list(zip(lhs[2:], rhs[2:], out[2:]))
    options = [pair.both(k) for k in ("window_strides", "padding", "lhs_dilation", "rhs_dilation")]
    for k, (i, j, o) in enumerate(spatial):
        step, pads, spread, apart = ([one[k], other[k]] for one, other in options)
        if pads[0] != pads[1] or step[0] != step[1]:
            raise Unknown("a convolution whose padding varies")
        if varies(wd[j]):
            raise Unknown("a convolution whose window varies")
        if varies(xd[i]):
            if step[0] != 1 or spread[0] != 1:
                raise Unknown("a convolution in steps along what varies")
            window = (w.array.shape[j] - 1) * apart[0]
            dims[o] = (xd[i][0].more(sum(pads[0]) - window),)
    axes = [lhs[1], *(i for i, _, _ in spatial)]
    (array,) = pair.bind(p.filled(x, axes, 0), p.filled(w, [rhs[1]], 0))
    return [Value(array, tuple(dims))]


_WINDOWS = ("reduce_window", "reduce_window_sum", "reduce_window_max", "reduce_window_min",
            "select_and_scatter_add", "select_and_gather_add")


@rule(*_WINDOWS)
def _windows(p, pair, given):
    full = [i for i, v in enumerate(given) if v.dims]
    given = [p.settled(v) if i in full else v for i, v in enumerate(given)]
    dims: list[Any] = [fixed(n) for n in pair.shapes()[0]]
    plain = {"window_dimensions": 1, "window_strides": 1, "padding": (0, 0), "base_dilation": 1,
             "window_dilation": 1}
    for i in range(len(dims)):
        own = {given[k].dims[i] for k in full}
        if any(varies(d) for d in own):
            if len(own) > 1 or any(
                tuple(np.atleast_1d(pair.unchanging(k)[i])) != tuple(np.atleast_1d(v))
                for k, v in plain.items() if k in pair.params
            ):
                raise Unknown("windows along what varies")
            dims[i] = own.pop()
    return [Value(a, tuple(dims)) for a in pair.bind(*[v.array for v in given])]


@rule("cholesky", "triangular_solve", "fft")
def _matrices(p, pair, given):
    last = len(pair.params["fft_lengths"]) if pair.name == "fft" else 2
    given = [p.settled(v) for v in given]
    lead = given[0].dims[:-last]
    if any(v.dims[:-last] != lead or any(map(varies, v.dims[-last:])) for v in given):
        raise Unknown(f"{pair.name} along what varies")
    shape = pair.shapes()[0]
    dims = (*lead, *map(fixed, shape[len(shape) - last :]))
    return [Value(a, dims) for a in pair.bind(*[v.array for v in given])]
