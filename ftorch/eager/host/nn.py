"""Rules of the package's own primitives: softmax, normalization, attention, pooling, selection along lines."""

from __future__ import annotations

import math

import numpy as np

from .pointwise import in_float32
from .rules import is_narrow, rule
from .sorting import order_of

_add, _max = np.add.reduce, np.maximum.reduce


# --- rows ------------------------------------------------------------------------------


def _of_rows(run, inputs):
    """``run`` for operands of one floating dtype."""
    dtype = inputs[0].dtype
    return in_float32(run, dtype) if is_narrow(dtype) else run


@rule("ftorch_softmax")
def _(params, inputs, outputs):
    logarithm = params["logarithm"]

    def softmax(x):
        x = np.subtract(x, _max(x, -1, None, None, True))
        if logarithm:
            total = _add(np.exp(x), -1, None, None, True)
            return (np.subtract(x, np.log(total, out=total), out=x),)
        np.exp(x, out=x)
        return (np.divide(x, _add(x, -1, None, None, True), out=x),)

    return _of_rows(softmax, inputs)


@rule("ftorch_softmax_gradient")
def _(params, inputs, outputs):
    if params["logarithm"]:
        return _of_rows(lambda grad, y: (grad - np.exp(y) * _add(grad, -1, None, None, True),), inputs)

    def softmax_gradient(grad, y):
        weighted = grad * y
        return (weighted - y * _add(weighted, -1, None, None, True),)

    return _of_rows(softmax_gradient, inputs)


def _standardized(x, eps):
    """(x - mean) / deviation along the last dimension, and 1 / deviation."""
    n = x.dtype.type(x.shape[-1])
    centered = x - _add(x, -1, None, None, True) / n
    scale = 1 / np.sqrt(_add(np.square(centered), -1, None, None, True) / n + x.dtype.type(eps))
    return np.multiply(centered, scale, out=centered), scale


@rule("ftorch_layer_norm")
def _(params, inputs, outputs):
    eps = params["eps"]

    def layer_norm(x, weight, bias):
        standard, _ = _standardized(x, eps)
        np.multiply(standard, weight[:, None], out=standard)
        return (np.add(standard, bias[:, None], out=standard),)

    return _of_rows(layer_norm, inputs)


@rule("ftorch_layer_norm_gradient")
def _(params, inputs, outputs):
    eps = params["eps"]

    def layer_norm_gradient(grad, x, weight):
        standard, scale = _standardized(x, eps)
        n = x.dtype.type(x.shape[-1])
        inner, product = grad * weight[:, None], grad * standard
        mean = _add(inner, -1, None, None, True) / n
        slope = _add(inner * standard, -1, None, None, True) / n
        return scale * (inner - mean - standard * slope), _add(product, 1), _add(grad, 1)

    return _of_rows(layer_norm_gradient, inputs)


# --- attention -------------------------------------------------------------------------


def _attention_weights(query, key, mask, scale, is_causal):
    scores = np.matmul(query, key.swapaxes(-1, -2))
    np.multiply(scores, scale, out=scores)
    for added in mask:
        np.add(scores, np.where(added, np.float32(0), np.float32(-np.inf)) if added.dtype == np.bool_ else added, out=scores)
    if is_causal:
        rows, columns = scores.shape[-2:]
        scores[..., np.arange(rows)[:, None] < np.arange(columns)] = -np.inf
    top = _max(scores, -1, None, None, True, -np.inf)
    top[top == -np.inf] = 0
    np.exp(np.subtract(scores, top, out=scores), out=scores)
    total = _add(scores, -1, None, None, True)
    total[total == 0] = 1
    return np.divide(scores, total, out=scores)


def _wide(query, key, value):
    """The three in float32, keys and values for each head."""
    shared = query.shape[1] // key.shape[1]
    query, key, value = (x.astype(np.float32, copy=False) for x in (query, key, value))
    return (query, key, value) if shared == 1 else (query, key.repeat(shared, 1), value.repeat(shared, 1))


def _slopes(grad, query, key, value, mask, scale, is_causal):
    """(weights, gradients of the scores)."""
    weights = _attention_weights(query, key, mask, scale, is_causal)
    slopes = np.matmul(grad, value.swapaxes(-1, -2))
    np.multiply(slopes, weights, out=slopes)
    return weights, slopes - weights * _add(slopes, -1, None, None, True)


@rule("ftorch_attention", sizes=("scale",))
def _(params, inputs, outputs):
    is_causal, dtype = params["is_causal"], outputs[0].dtype

    def attend(query, key, value, *more):
        *mask, scale = more
        query, key, value = _wide(query, key, value)
        found = np.matmul(_attention_weights(query, key, mask, np.float32(scale), is_causal), value)
        return (found.astype(dtype, copy=False),)

    return attend


@rule("ftorch_attention_gradient", sizes=("scale",))
def _(params, inputs, outputs):
    is_causal, dtype = params["is_causal"], outputs[0].dtype

    def attention_gradient(grad, query, key, value, *more):
        *mask, scale = more
        shape, scale = key.shape, np.float32(scale)
        query, key, value = _wide(query, key, value)
        grad = grad.astype(np.float32, copy=False)
        weights, d_scores = _slopes(grad, query, key, value, mask, scale, is_causal)
        np.multiply(d_scores, scale, out=d_scores)
        d_query = np.matmul(d_scores, key)
        d_key, d_value = np.matmul(d_scores.swapaxes(-1, -2), query), np.matmul(weights.swapaxes(-1, -2), grad)
        if shape[1] != query.shape[1]:
            d_key, d_value = (x.reshape(*shape[:2], -1, *x.shape[2:]).sum(2) for x in (d_key, d_value))
        return tuple(x.astype(dtype, copy=False) for x in (d_query, d_key, d_value))

    return attention_gradient


@rule("ftorch_attention_mask_gradient", sizes=("scale",))
def _(params, inputs, outputs):
    is_causal = params["is_causal"]

    def attention_mask_gradient(grad, query, key, value, *more):
        *mask, scale = more
        grad = grad.astype(np.float32, copy=False)
        return (_slopes(grad, *_wide(query, key, value), mask, np.float32(scale), is_causal)[1],)

    return attention_mask_gradient


# --- pooling ---------------------------------------------------------------------------


def _lowered(x, window):
    """Planes with the padding that the windows reach into, and the slices of each window's element."""
    rank = len(window.kernel)
    edges, slices = [], []
    for n, k, s, p, d, o in zip(
        window.extent, window.kernel, window.stride, window.padding, window.dilation, window.out
    ):
        edges.append((p, max((o - 1) * s + (k - 1) * d + 1 - n - p, 0)))
    if any(low or high for low, high in edges):
        whole = np.full((x.shape[0], *[n + a + b for n, (a, b) in zip(window.extent, edges)]), -np.inf, x.dtype)
        inside = (slice(None), *[slice(a, a + n) for n, (a, _) in zip(window.extent, edges)])
        whole[inside] = x
    else:
        whole, inside = x, (slice(None),) * (rank + 1)
    for offset in np.ndindex(*window.kernel):
        slices.append((slice(None), *[
            slice(j * d, j * d + (o - 1) * s + 1, s)
            for j, d, o, s in zip(offset, window.dilation, window.out, window.stride)
        ]))
    return whole, inside, slices


@rule("ftorch_max_pool", sizes=("window",))
def _(params, inputs, outputs):
    def max_pool(x, window):
        whole, _, slices = _lowered(x, window)
        best = whole[slices[0]].copy()
        for part in slices[1:]:
            np.maximum(best, whole[part], out=best)
        return (best,)

    return max_pool


@rule("ftorch_max_pool_gradient", sizes=("window",))
def _(params, inputs, outputs):
    def max_pool_gradient(grad, x, window):
        whole, inside, slices = _lowered(x, window)
        best = whole[slices[0]].copy()
        which = _first_inside(window)
        which = np.array(np.broadcast_to(which, best.shape))
        for k, part in enumerate(slices[1:], 1):
            value = whole[part]
            better = np.greater(value, best) | np.isnan(value)
            np.copyto(best, value, where=better)
            which[better] = k
        found = np.zeros(whole.shape, grad.dtype)
        zero = grad.dtype.type(0)
        for k, part in enumerate(slices):
            found[part] += np.where(which == k, grad, zero)
        return (found[inside],)

    return max_pool_gradient


def _first_inside(window):
    """Which element of each window is the first that lies in the plane."""
    first = np.zeros((1,) * len(window.out), np.int32)
    for i, (k, s, p, d, o) in enumerate(
        zip(window.kernel, window.stride, window.padding, window.dilation, window.out)
    ):
        start = np.maximum(-((np.arange(o) * s - p) // d), 0).astype(np.int32)
        first = first * k + start.reshape([-1 if j == i else 1 for j in range(len(window.out))])
    return first


# --- lines -----------------------------------------------------------------------------


@rule("ftorch_select", sizes=("count", "rank"))
def _(params, inputs, outputs):
    descending, dtype = params["descending"], outputs[0].dtype

    def select(x, count, rank):
        if descending:  # the reversed lines' order, reversed: equal elements stay in theirs
            order = x.shape[1] - 1 - order_of(x[:, ::-1], 1)[:, ::-1]
        else:
            order = order_of(x, 1)
        chosen = order[:, :count] if rank is None else order[:, rank : rank + 1]
        return (chosen.astype(dtype, copy=False),)

    return select


def _extremum_so_far(accumulate):
    def make(params, inputs, outputs):
        floating = inputs[0].dtype.kind == "f"

        def run(x):
            best = accumulate(x, 1)
            hit = x == best  # ties go to the last
            if floating:
                hit |= np.isnan(x)
            index = np.where(hit, np.arange(x.shape[1])[:, None], 0)
            index = np.maximum.accumulate(index, 1)
            return np.take_along_axis(x, index, 1), index

        return run

    return make


rule("ftorch_cummax")(_extremum_so_far(np.maximum.accumulate))
rule("ftorch_cummin")(_extremum_so_far(np.minimum.accumulate))


@rule("ftorch_bags")
def _(params, inputs, outputs):
    mean, dtype = params["mode"] == "mean", outputs[0].dtype

    def bags(weight, indices):
        found = np.empty((*indices.shape[:2], weight.shape[2]), dtype)
        for own, listed, out in zip(weight, indices, found):
            out[...] = own.take(listed[:, 0], 0, None, "clip") if listed.shape[1] else 0
            for k in range(1, listed.shape[1]):
                out += own.take(listed[:, k], 0, None, "clip")
        if mean:
            found /= np.float32(max(indices.shape[2], 1))
        return (found,)

    return bags


@rule("ftorch_multiply_sparse")
def _(params, inputs, outputs):
    def multiply(values, begins, columns, dense):
        found = np.zeros((dense.shape[0], begins.shape[1] - 1, dense.shape[2]), dense.dtype)
        for value, begin, column, x, out in zip(values, begins, columns, dense, found):
            rows = np.repeat(np.arange(len(out)), np.diff(begin))
            np.add.at(out, rows, value[: len(rows), None] * x.take(column[: len(rows)], 0, None, "clip"))
        return (found,)

    return multiply


# --- convolutions with a kernel per channel ----------------------------------------------


def _under(x, params, out):
    """Per place of the window: the elements of ``x`` that it meets, and the place's number."""
    for k, offset in enumerate(np.ndindex(*params["window"])):
        yield k, x[(..., *[
            slice(j * d, j * d + (o - 1) * s + 1, s)
            for j, d, o, s in zip(offset, params["dilation"], out, params["stride"])
        ])]


def _column(weight, k):
    rank = weight.ndim - 2
    return weight.reshape(weight.shape[0], -1)[:, k].reshape((-1, *(1,) * rank))


def _out_extent(params, extent):
    return tuple([
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(extent, params["window"], params["stride"], params["dilation"])
    ])


@rule("ftorch_depthwise", sizes=("extent",))
def _(params, inputs, outputs):
    def depthwise(x, weight, extent):
        found = None
        for k, part in _under(x, params, _out_extent(params, extent)):
            product = part * _column(weight, k)
            found = product if found is None else np.add(found, product, out=found)
        return found

    return depthwise


@rule("ftorch_depthwise_input", sizes=("extent",))
def _(params, inputs, outputs):
    def input_gradient(grad, weight, extent):
        found = np.zeros((*grad.shape[:2], *extent), grad.dtype)
        for k, part in _under(found, params, grad.shape[2:]):
            np.add(part, grad * _column(weight, k), out=part)
        return found

    return input_gradient


@rule("ftorch_depthwise_weight", sizes=("extent",))
def _(params, inputs, outputs):
    axes = (0, *range(2, inputs[0].ndim))

    def weight_gradient(x, grad, extent):
        taps = math.prod(params["window"])
        found = np.empty((x.shape[1], taps), x.dtype)
        for k, part in _under(x, params, grad.shape[2:]):
            found[:, k] = _add(part * grad, axes)
        return found.reshape(x.shape[1], 1, *params["window"])

    return weight_gradient
