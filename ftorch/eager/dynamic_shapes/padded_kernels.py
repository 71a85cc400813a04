"""Rules for this package's own primitives (`ftorch.eager.dynamic_shapes.padded`): attention, depthwise convolution, rows."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ..kernels.reduction.ranking import first_of_lines
from .padded import Unknown, Value, fixed, varies
from .padded_rules import _highest, _lowest, rule


@rule("ftorch_attention", "ftorch_attention_gradient", "ftorch_attention_mask_gradient")
def _attention(p, pair, given):
    first = pair.name != "ftorch_attention"  # where the query is
    given = [p.plain(v, [2]) for v in given]
    (query, key, value), masks = given[first : first + 3], given[first + 3 :]
    lead = query.dims[:2]
    groups = lead if key.dims[1] == lead[1] or varies(key.dims[1]) else (lead[0], key.dims[1])
    operands = []
    for i, (v, keys) in enumerate([(given[0], False)] * first + [(query, False), (key, True), (value, True)]):
        v = p.spread(v, (*(groups if keys else lead), key.dims[2] if keys else query.dims[2], v.dims[3]))
        if varies(v.dims[3]):
            raise Unknown("attention over features that vary")
        # Rows behind the true ones add nothing to sums over rows; those of a result are not looked at.
        operands.append(v if not first else Value(p.filled(v, [2], 0), v.dims))
    query, key, value = operands[first:]
    scores = (*lead, query.dims[2], key.dims[2])
    arrays = [v.array for v in operands]
    counted = not first and varies(key.dims[2])
    if masks:
        arrays.append(_mask(p, p.plain(masks[0], [2, 3]), scores))
    elif varies(key.dims[2]) and not counted:
        arrays.append(p.inside(key.dims[2])[None, None, None])
    if counted:  # keys and values behind the true ones are not read
        arrays = pair.bind(*arrays, jnp.asarray(p.true(key.dims[2]), np.int64).reshape(1), counted=True)
    else:
        arrays = pair.bind(*arrays)
    if pair.name == "ftorch_attention":
        dims = [(*query.dims[:3], value.dims[3])]
    else:
        dims = [v.dims for v in (query, key, value)] if len(arrays) == 3 else [scores]
    return [Value(a, d) for a, d in zip(arrays, dims, strict=True)]


def _mask(p, mask, scores):
    """The mask, which leaves out what is behind the true keys."""
    one = fixed(1)
    wanted = [one if own == one else d for own, d in zip(mask.dims, scores, strict=True)]
    mask = p.spread(mask, wanted)
    array, last = mask.array, scores[3]
    if mask.dims[3] == one and varies(last):
        mask = Value(jnp.broadcast_to(array, (*array.shape[:3], p.padded(last))), (*mask.dims[:3], last))
    if tuple(mask.dims[:3]) != tuple(wanted[:3]):
        raise Unknown("a mask of attention whose sizes are others")
    return p.filled(mask, [3], False if mask.array.dtype == bool else -jnp.inf)


@rule("ftorch_depthwise", "ftorch_depthwise_input", "ftorch_depthwise_weight")
def _depthwise(p, pair, given):
    a, b = (p.settled(v) for v in given)
    dims = [fixed(n) for n in pair.shapes()[0]]
    if pair.name == "ftorch_depthwise_weight":
        b = p.spread(b, (a.dims[0], *b.dims[1:]))
        arrays = [p.filled(v, [0], 0) for v in (a, b)]
        free = (*a.dims[1:], *b.dims[1:])
    else:
        arrays, free = [a.array, b.array], (*a.dims[1:], *b.dims)
        dims[0] = a.dims[0]
    if any(map(varies, free)):
        raise Unknown("a depthwise convolution along what varies")
    return [Value(x, tuple(dims)) for x in pair.bind(*arrays)]


@rule("ftorch_softmax", "ftorch_softmax_gradient")
def _softmax(p, pair, given):
    given = [p.settled(v) for v in given]
    dims = given[0].dims
    behind = -jnp.inf if pair.name == "ftorch_softmax" else 0
    arrays = [p.filled(v, [1], behind) for v in (p.spread(v, dims) for v in given)]
    return [Value(x, dims) for x in pair.bind(*arrays)]


@rule("ftorch_cummax", "ftorch_cummin")
def _extremum(p, pair, given):
    v = p.plain(given[0], [1])
    return [Value(x, v.dims) for x in pair.bind(v.array)]


@rule("ftorch_select")
def _select(p, pair, given):
    v = p.settled(given[0])
    how = {name: pair.unchanging(name) for name in ("descending", "count", "rank", "in_order")}
    dims = (v.dims[0], fixed(how["count"]), v.dims[2])
    if not varies(v.dims[1]):
        return [Value(x, dims) for x in pair.bind(v.array)]
    is_float = jnp.issubdtype(v.array.dtype, jnp.floating)
    last = _lowest(v.array.dtype) if how["descending"] else jnp.nan if is_float else _highest(v.array.dtype)
    # Of equal elements the first, which is a true one: PyTorch's choice depends on the number of all.
    places = first_of_lines(p.filled(v, [1], last), **how)
    return [Value(p.index(places, v.dims[1]), dims)]


@rule("ftorch_max_pool", "ftorch_max_pool_gradient")
def _max_pool(p, pair, given):
    given = [p.settled(v) for v in given]
    if any(varies(n) for v in given for n in v.dims[1:]):
        raise Unknown("max pooling along what varies")
    planes = given[-1].dims[0]
    arrays = pair.bind(*(p.spread(v, (planes, *v.dims[1:])).array for v in given))
    return [Value(x, (planes, *map(fixed, x.shape[1:]))) for x in arrays]


@rule("ftorch_layer_norm", "ftorch_layer_norm_gradient")
def _layer_norm(p, pair, given):
    rows = [p.settled(v) for v in given if v.array.ndim == 3]
    groups, count, length = rows[0].dims
    if varies(length):
        raise Unknown("a layer's normalization over what varies")
    parameters = [p.spread(p.settled(v), (groups, length)) for v in given if v.array.ndim == 2]
    rows = [p.spread(v, (groups, count, length)) for v in rows]
    if len(rows) == 2:  # rows behind the true ones add nothing to sums over rows
        if not pair.unchanging("eps"):
            raise Unknown("a layer's normalization that divides by zero there")
        rows = [Value(p.filled(v, [1], 0), v.dims) for v in rows]
    arrays = pair.bind(*(v.array for v in (*rows, *parameters)))
    dims = [(groups, count, length), (groups, length), (groups, length)]
    return [Value(x, d) for x, d in zip(arrays, dims[: len(arrays)], strict=True)]
