"""Rules of reductions, along whole dimensions, so far along one, and over windows."""

from __future__ import annotations

import numpy as np

from ..._arrays import strided_view
from .rules import Form, MissingRule, is_extended, is_narrow, rule

_asarray = np.asarray


def lowest(dtype):
    """The least number of a dtype: what the maximum of nothing is."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return dtype.type(False)
    return dtype.type(np.iinfo(dtype).min) if dtype.kind in "iu" else dtype.type(-np.inf)


def highest(dtype):
    """The greatest number of a dtype."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return dtype.type(True)
    return dtype.type(np.iinfo(dtype).max) if dtype.kind in "iu" else dtype.type(np.inf)


def _axes(params):
    axes = tuple(map(int, params["axes"]))
    return axes[0] if len(axes) == 1 else axes


def _sum(params, inputs, outputs):
    axes, dtype = _axes(params), outputs[0].dtype
    if axes == ():
        return lambda x: x
    reduce = np.add.reduce
    if is_narrow(dtype):
        return lambda x: _asarray(reduce(x.astype(np.float32), axes, np.float32)).astype(dtype)
    if outputs[0].ndim:
        return lambda x: reduce(x, axes, dtype)
    return lambda x: _asarray(reduce(x, axes, dtype))


rule("reduce_sum")(_sum)


@rule("reduce_prod")
def _(params, inputs, outputs):
    axes, dtype = _axes(params), outputs[0].dtype
    if axes == ():
        return lambda x: x
    reduce = np.multiply.reduce
    if is_narrow(dtype):
        return lambda x: _asarray(reduce(x.astype(np.float32), axes, np.float32)).astype(dtype)
    return lambda x: _asarray(reduce(x, axes, dtype))


def _extremum(reduce, empty):
    def make(params, inputs, outputs):
        axes, dtype = _axes(params), outputs[0].dtype
        if axes == ():
            return lambda x: x
        start = empty(dtype)
        if is_narrow(dtype):  # of few functions by vectors
            inner = _extremum(reduce, empty)(params, inputs, [Form(np.dtype(np.float32), outputs[0].ndim)])
            return lambda x: inner(x.astype(np.float32)).astype(dtype)

        def extremum(x):
            if x.size:
                return reduce(x, axes)
            return reduce(x, axes, None, None, False, start)

        if outputs[0].ndim:
            return extremum
        return lambda x: _asarray(extremum(x))

    return make


rule("reduce_max")(_extremum(np.maximum.reduce, lowest))
rule("reduce_min")(_extremum(np.minimum.reduce, highest))


def _bitwise(reduce):
    def make(params, inputs, outputs):
        axes, dtype = _axes(params), outputs[0].dtype
        if axes == ():
            return lambda x: x
        return lambda x: _asarray(reduce(x, axes, dtype))

    return make


rule("reduce_xor")(_bitwise(np.bitwise_xor.reduce))


def _logical(of_booleans, of_integers):
    def make(params, inputs, outputs):
        own = of_booleans if outputs[0].dtype == np.bool_ else of_integers
        return _bitwise(own)(params, inputs, outputs)

    return make


rule("reduce_or")(_logical(np.logical_or.reduce, np.bitwise_or.reduce))
rule("reduce_and")(_logical(np.logical_and.reduce, np.bitwise_and.reduce))


def _place(find):
    def make(params, inputs, outputs):
        (axis,), dtype = params["axes"], np.dtype(params["index_dtype"])
        narrow = is_extended(inputs[0].dtype)

        def place(x):
            if narrow:
                x = x.astype(np.float32)
            if not x.size:  # of no elements
                return np.zeros([n for d, n in enumerate(x.shape) if d != axis], dtype)
            return _asarray(find(x, axis)).astype(dtype, copy=False)

        return place

    return make


rule("argmax")(_place(lambda x, axis: x.argmax(axis)))
rule("argmin")(_place(lambda x, axis: x.argmin(axis)))


# --- so far along a dimension ------------------------------------------------------------


def _so_far(accumulate, wide=None):
    """A cumulative function; ``wide``: the dtype in which narrower floats are accumulated."""

    def make(params, inputs, outputs):
        axis, dtype = params["axis"], outputs[0].dtype
        inner = wide(dtype) if wide else dtype
        back = (*(slice(None),) * axis, slice(None, None, -1))

        def forward(x):
            return accumulate(x, axis, inner)

        if inner != dtype:
            if is_extended(dtype):
                inside = lambda x: accumulate(x.astype(inner), axis, inner)  # noqa: E731
            else:
                inside = forward
            forward_in = lambda x: inside(x).astype(dtype)  # noqa: E731
        else:
            forward_in = forward
        if params["reverse"]:
            return lambda x: forward_in(x[back])[back]
        return forward_in

    return make


def _double(dtype):
    """As the package's own kernels add: in double precision."""
    if dtype.kind in "biu":
        return dtype
    if dtype.kind == "c":
        return np.dtype(np.complex128)
    return np.dtype(np.float64)


rule("cumsum")(_so_far(np.add.accumulate, _double))
rule("cumprod")(_so_far(np.multiply.accumulate, _double))
rule("cummax")(_so_far(lambda x, axis, dtype: np.maximum.accumulate(x, axis)))
rule("cummin")(_so_far(lambda x, axis, dtype: np.minimum.accumulate(x, axis)))


def _add_logarithms(x, axis, dtype):
    if dtype.kind == "c":
        raise MissingRule("no rule for the primitive 'cumlogsumexp' of complex numbers on the host")
    return np.logaddexp.accumulate(x, axis, dtype)


rule("cumlogsumexp")(_so_far(_add_logarithms, _double))


# --- over windows ------------------------------------------------------------------------


def padded(x, edges, value):
    """An array with (low, high) more elements at the edges of each dimension, or less if they are negative."""
    if not any(low or high for low, high in edges):
        return x
    found = np.full([n + low + high for n, (low, high) in zip(x.shape, edges)], value, x.dtype)
    inside, source = [], []
    for n, (low, high) in zip(x.shape, edges):
        inside.append(slice(max(low, 0), max(low, 0) + n + min(low, 0) + min(high, 0)))
        source.append(slice(max(-low, 0), n + min(high, 0)))
    found[tuple(inside)] = x[tuple(source)]
    return found


def spread(x, dilation, value):
    """An array with ``dilation - 1`` values between its elements."""
    if all(d == 1 for d in dilation):
        return x
    shape = [(n - 1) * d + 1 if n else 0 for n, d in zip(x.shape, dilation)]
    found = np.full(shape, value, x.dtype)
    found[tuple([slice(None, None, d) for d in dilation])] = x
    return found


def windows(x, sizes, strides, dilation):
    """A view (places..., window...) of the windows of a padded array."""
    places = [
        max((n - (size - 1) * d - 1) // step + 1, 0) if n else 0
        for n, size, step, d in zip(x.shape, sizes, strides, dilation)
    ]
    return strided_view(
        x, (*places, *sizes),
        (*[s * step for s, step in zip(x.strides, strides)], *[s * d for s, d in zip(x.strides, dilation)]),
        writeable=False,
    )


_WINDOW = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")


def _over_windows(combine, start):
    """By shifted strided slices, one for each place in the window: as many passes as it has elements."""

    def make(params, inputs, outputs):
        dtype = inputs[0].dtype
        neutral = start(dtype)
        widen = np.dtype(np.float32) if is_narrow(dtype) else dtype

        def run(x, sizes, strides, edges, base, dilation):
            x = padded(spread(x.astype(widen, copy=False), base, neutral), edges, neutral)
            view = windows(x, sizes, strides, dilation)
            rank = x.ndim
            found = np.full(view.shape[:rank], neutral, widen)
            for place in np.ndindex(*sizes):
                combine(found, view[(..., *place)], out=found)
            return found.astype(dtype, copy=False)

        return run

    return make


rule("reduce_window_sum", sizes=_WINDOW)(_over_windows(np.add, lambda dtype: dtype.type(0)))
rule("reduce_window_max", sizes=_WINDOW)(_over_windows(np.maximum, lowest))
rule("reduce_window_min", sizes=_WINDOW)(_over_windows(np.minimum, highest))


def _single_primitive(jaxpr):
    """The name of the primitive that a jaxpr of two numbers consists of, or None."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    return jaxpr.eqns[0].primitive.name if len(jaxpr.eqns) == 1 else None


_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
            "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@rule("reduce_window", sizes=_WINDOW)
def _(params, inputs, outputs):
    combine = _COMBINE.get(_single_primitive(params["jaxpr"]))
    if combine is None or len(inputs) != 2:
        raise MissingRule("no rule for the primitive 'reduce_window' of this function on the host")

    def run(x, start, sizes, strides, edges, base, dilation):
        x = padded(spread(x, base, start), edges, start)
        view = windows(x, sizes, strides, dilation)
        found = np.full(view.shape[: x.ndim], start, x.dtype)
        for place in np.ndindex(*sizes):
            combine(found, view[(..., *place)], out=found)
        return (found,)

    return run


def _combiners(jaxpr, count):
    """The functions by which a jaxpr of (sums, terms) joins each sum with its term, or None."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    made = {eqn.outvars[0]: eqn for eqn in jaxpr.eqns}
    found = []
    for i, out in enumerate(jaxpr.outvars):
        eqn = made.get(out)
        pair = (jaxpr.invars[i], jaxpr.invars[count + i])
        if eqn is None or eqn.primitive.name not in _COMBINE or tuple(eqn.invars) not in (pair, pair[::-1]):
            return None
        found.append(_COMBINE[eqn.primitive.name])
    return found


@rule("reduce")
def _(params, inputs, outputs):
    count = len(outputs)
    combiners = _combiners(params["jaxpr"], count)
    if combiners is None:
        raise MissingRule("no rule for the primitive 'reduce' of this function on the host")
    axes = tuple(map(int, params["dimensions"]))

    def run(*operands):
        return tuple([
            _asarray(combine.reduce(x, axes, x.dtype, initial=start[()]))
            for combine, x, start in zip(combiners, operands, operands[count:])
        ])

    return run


@rule("select_and_scatter_add", sizes=("window_dimensions", "window_strides", "padding"))
def _(params, inputs, outputs):
    larger = params["select_prim"].name == "ge"
    find, fill = (np.argmax, lowest) if larger else (np.argmin, highest)

    def run(source, x, sizes, strides, edges):
        rank = x.ndim
        whole = padded(x, edges, fill(x.dtype))
        view = windows(whole, sizes, strides, (1,) * rank)
        places = view.shape[:rank]
        chosen = np.unravel_index(find(view.reshape(*places, -1), -1), sizes)
        index = [
            chosen[d] + np.arange(places[d]).reshape([-1 if i == d else 1 for i in range(rank)]) * strides[d]
            for d in range(rank)
        ]
        found = np.zeros(whole.shape, x.dtype)
        np.add.at(found, tuple(index), source)
        return found[tuple([slice(low, low + n) for n, (low, _) in zip(x.shape, edges)])]

    return run
