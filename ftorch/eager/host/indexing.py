"""Rules of gathers and scatters, whatever their dimension numbers.

All forms are one: the array's dimensions are those that an index chooses from or that go along with one of the
index's own (*front*), and those that are moved whole (*plain*). Fronts become one number, a place among rows of
what is plain.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from .rules import IN_PLACE, MissingRule, is_extended, rule

_intp, _unsigned = np.dtype(np.intp), np.dtype(np.uintp)
_greatest = np.maximum.reduce


class _Numbers(NamedTuple):
    """The dimension numbers of a gather or scatter, by the rank of array, index and moved elements.

    Attributes:
        batching: (array's dimension, index's dimension) of those that go along.
        chosen: array's dimensions that the index chooses from, in the order of its last dimension.
        first: those of which the first element is meant.
        moving: which of these have windows, and are not left out.
        plain: the others.
        front: batching, chosen and first.
        batch: the number of the index's dimensions but the last.
        order: the permutation of (batch, windows of moving, plain) that gives the moved elements' dimensions.
    """

    batching: tuple
    chosen: tuple
    first: tuple
    moving: tuple
    plain: tuple
    front: tuple
    batch: int
    order: tuple
    windows: tuple


def _numbers(rank, batch, chosen, collapsed, batching, along, offsets):
    kept = [d for d in range(rank) if d not in collapsed and d not in batching]
    moving = tuple([d for d in kept if d in chosen])
    plain = tuple([d for d in kept if d not in chosen])
    laid = [*moving, *plain]
    first = tuple([d for d in collapsed if d not in chosen and d not in batching])
    total = batch + len(kept)
    place_of = dict(zip(kept, offsets, strict=True))
    free = [d for d in range(total) if d not in offsets]
    order = [0] * total
    for i, d in enumerate(free):
        order[d] = i
    for i, d in enumerate(laid):
        order[place_of[d]] = batch + i
    return _Numbers(
        tuple(zip(batching, along, strict=True)), tuple(chosen), first, moving, plain,
        (*batching, *chosen, *first), batch, tuple(order), tuple([place_of[d] for d in kept]),
    )


def _identity(order):
    return all(i == d for i, d in enumerate(order))


def _along(size, place, rank):
    """0, 1, ... along one of ``rank`` dimensions."""
    return np.arange(size).reshape((1,) * place + (size,) + (1,) * (rank - place - 1))


def _is_inside(place, limit):
    """Whether all of some places lie in 0..limit: one pass, in which negative numbers are large ones."""
    if place.dtype != _intp:
        place = place.astype(_intp)
    return not place.size or int(_greatest(place.view(_unsigned), None)) <= limit


def _starts(indices, i, limit, mode):
    """(starts along a dimension, where they are outside or None), clamped to 0..limit."""
    start = indices[..., i]
    if start.dtype != _intp:
        start = start.astype(_intp)
    outside = None
    if not _is_inside(start, limit):
        if mode == "FILL_OR_DROP":
            outside = (start < 0) | (start > limit)
        start = np.minimum(np.maximum(start, 0), max(limit, 0))
    return start, outside


def _places(numbers, shape, indices, sizes, mode):
    """(an index per front dimension, over batch and moving windows; where the batch is outside or None).

    Args:
        sizes: of the windows, by the array's dimension.
    """
    windows, outside = len(numbers.moving), None
    rank = numbers.batch + windows
    index = [_along(shape[d], along, rank) for d, along in numbers.batching]
    for i, d in enumerate(numbers.chosen):
        size = sizes[d]
        start, beyond = _starts(indices, i, shape[d] - size, mode)
        if beyond is not None:
            outside = beyond if outside is None else outside | beyond
        if windows:
            start = start.reshape(start.shape + (1,) * windows)
            if size != 1 and d in numbers.moving:
                start = start + _along(size, numbers.batch + numbers.moving.index(d), rank)
        index.append(start)
    index += [np.zeros((1,) * rank, _intp)] * len(numbers.first)
    return index, outside


def _mode(params):
    return getattr(params["mode"], "name", str(params["mode"]))


def _fill_value(params, dtype):
    value = params.get("fill_value")
    if value is not None:
        return np.asarray(value).astype(dtype)[()]
    if dtype == np.bool_:
        return dtype.type(True)
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max)
    return dtype.type(np.nan)


@rule("gather", sizes=("slice_sizes",))
def _(params, inputs, outputs):
    found = params["dimension_numbers"]
    x, indices = inputs
    mode = _mode(params)
    numbers = _numbers(
        x.ndim, indices.ndim - 1, found.start_index_map, found.collapsed_slice_dims,
        found.operand_batching_dims, found.start_indices_batching_dims, found.offset_dims,
    )
    fills = mode == "FILL_OR_DROP"
    fill = _fill_value(params, x.dtype) if fills else None
    if len(numbers.front) == 1 and len(numbers.chosen) == 1:
        return _take(numbers, fills, fill)
    return _gather(numbers, mode, fill)


def _take(numbers, fills, fill):
    """One dimension that the index chooses from: NumPy's `take`."""
    (axis,) = numbers.chosen
    moving = bool(numbers.moving)
    # take gives (dimensions before the axis, batch, dimensions behind).
    before, batch = axis, numbers.batch
    laid = [*range(before, before + batch)]
    rest = [d for d in range(before)] + [d for d in range(before + batch, batch + len(numbers.plain))]
    laid += [None, *rest] if moving else rest  # moving: a window of one element, put in at the end
    wanted = [laid[i] for i in numbers.order]
    order = tuple([d for d in wanted if d is not None])
    gap = wanted.index(None) if moving else None
    turned = not _identity(order)
    general = _gather(numbers, "FILL_OR_DROP" if fills else "CLIP", fill)

    scalar = numbers.batch + len(numbers.plain) == 0 and not moving

    def take(x, indices, sizes):
        n = x.shape[axis]
        if sizes[axis] != 1 or n == 0 or (moving and any(
            sizes[d] != x.shape[d] for d in numbers.plain
        )):
            return general(x, indices, sizes)
        for d in numbers.plain:
            if sizes[d] != x.shape[d]:
                return general(x, indices, sizes)
        place = indices[..., 0]
        found = x.take(place, axis, None, "clip")
        if fills and not _is_inside(place, n - 1):
            found = np.asarray(found)
            found[(slice(None),) * before + ((place < 0) | (place >= n),)] = fill
        if scalar:
            return np.asarray(found)
        if turned:
            found = found.transpose(order)
        return found if gap is None else np.expand_dims(found, gap)

    take.is_best = True  # type: ignore[attr-defined]  (no kernel is faster)
    return take


def _gather(numbers, mode, fill):
    turned = not _identity(numbers.order)
    front, plain = numbers.front, numbers.plain
    natural = _identity((*front, *plain))

    def gather(x, indices, sizes):
        index, outside = _places(numbers, x.shape, indices, sizes, mode)
        kept = [sizes[d] for d in plain]
        full = all(x.shape[d] == n for d, n in zip(plain, kept))
        batch = indices.shape[:-1] + tuple([sizes[d] for d in numbers.moving])
        rows = x if natural else x.transpose((*front, *plain))
        if not full:
            rows = rows[(slice(None),) * len(front) + tuple([slice(0, n) for n in kept])]
        if 0 in rows.shape or not front:
            if not front:
                found = np.broadcast_to(rows, (*batch, *kept))
            else:
                found = np.zeros((*batch, *kept), x.dtype)
        elif rows.flags.c_contiguous and len(front) > 1:
            place = _flat(index, rows.shape[: len(front)])
            if not numbers.chosen:
                place = np.broadcast_to(place, batch)
            found = np.asarray(rows.reshape((-1, *kept)).take(place, 0, None, "clip"))
        else:
            found = np.asarray(rows[tuple(index)])
            if not numbers.chosen:
                found = np.broadcast_to(found, (*batch, *kept))
        if outside is not None:
            if not found.flags.writeable:
                found = found.copy()
            found[outside] = fill
        return found.transpose(numbers.order) if turned else found

    return gather


def _flat(index, shape):
    """The place in the flattened dimensions of ``shape`` of what an index per dimension says."""
    place = index[0]
    for n, i in zip(shape[1:], index[1:]):
        place = place * n + i
    return place


# --- scatters ----------------------------------------------------------------------------


def _scatter(put, fresh=lambda x: np.array(x, order="C")):
    """A scatter; ``put(rows, places, updates)`` changes flat rows in place, of what ``fresh`` gives for the operand."""

    def make(params, inputs, outputs):
        found = params["dimension_numbers"]
        x, indices, _ = inputs
        mode = _mode(params)
        numbers = _numbers(
            x.ndim, indices.ndim - 1, found.scatter_dims_to_operand_dims, found.inserted_window_dims,
            found.operand_batching_dims, found.scatter_indices_batching_dims, found.update_window_dims,
        )
        front, plain = numbers.front, numbers.plain
        back = [0] * len(numbers.order)  # updates' dimensions in the order (batch, moving, plain)
        for i, d in enumerate(numbers.order):
            back[d] = i
        turned, natural = not _identity(back), _identity((*front, *plain))
        kept = sorted((*numbers.moving, *plain))
        window_of = tuple(zip(kept, numbers.windows))
        home = np.argsort((*front, *plain))
        extended = is_extended(x.dtype)
        change = _by_ufunc(_UFUNCS[put]) if extended else _PUTS[put]
        if front == (0,) and numbers.chosen and not numbers.moving and numbers.batch == 1 and not turned:
            return _into_rows(put, change, mode, fresh)
        outer = "CLIP" if mode == "CLIP" else "FILL_OR_DROP"

        def scatter(x, indices, updates):
            sizes = [1] * x.ndim
            for d, place in window_of:
                sizes[d] = updates.shape[place]
            index, outside = _places(numbers, x.shape, indices, sizes, outer)
            if turned:
                updates = updates.transpose(back)
            rows = x if natural else x.transpose((*front, *plain))
            result = rows = fresh(rows)
            through_view = not rows.flags.c_contiguous  # of what is changed in place
            if not updates.size or not rows.size:
                return result if natural else result.transpose(home)
            extent = [sizes[d] for d in plain]
            if any(rows.shape[len(front) + i] != n for i, n in enumerate(extent)):
                # Windows of a part of what is plain: these begin at 0.
                index, rows, updates = _elements(index, rows, updates, len(front), extent)
                lines, size = math.prod(rows.shape), 1
            else:
                lines, size = math.prod(rows.shape[: len(front)]), math.prod(extent)
            if through_view:
                _change_elements(_UFUNCS[put], rows, index, outside, updates)
                return None
            place = _flat(index, rows.shape) if index else np.zeros((), _intp)
            depth = numbers.batch + len(numbers.moving)
            shape = updates.shape[: updates.ndim if size == 1 and rows.ndim == len(index) else depth]
            place = np.broadcast_to(place, shape)
            flat = updates.reshape((place.size, size))
            place = place.reshape(-1)
            if outside is not None:
                gaps = (1,) * (len(shape) - outside.ndim)
                inside = np.broadcast_to(~outside.reshape(outside.shape + gaps), shape).reshape(-1)
                place, flat = place[inside], flat[inside]
            change(result.reshape(lines, size), place, flat)
            return result if natural else result.transpose(home)

        return scatter

    return make


def _itself(x):
    return x


def _change_elements(function, rows, index, outside, updates):
    """Changes what an index for each of the first dimensions names, of an array that lies in memory in any way."""
    shape = updates.shape[: updates.ndim - (rows.ndim - len(index))]
    index = [np.broadcast_to(i, shape) for i in index]
    if outside is not None:
        inside = np.broadcast_to(~outside.reshape(outside.shape + (1,) * (len(shape) - outside.ndim)), shape)
        index, updates = [i[inside] for i in index], updates[inside]
    if function is None:
        rows[tuple(index)] = updates
    else:
        function.at(rows, tuple(index), updates)


def _into_rows(put, change, mode, fresh=_itself):
    """Whole rows (or, without plain dimensions, elements), chosen by an index of one dimension."""

    def scatter(x, indices, updates):
        result = fresh(x)
        place, n = indices[:, 0], len(x)
        if updates.shape[1:] != x.shape[1:]:
            return _into_parts(put, change, mode, result, place, updates)
        if not updates.size:
            return result
        if not _is_inside(place, n - 1):
            if mode == "CLIP":
                place = np.minimum(np.maximum(place, 0), n - 1)
            else:
                inside = (place >= 0) & (place < n)
                place, updates = place[inside], updates[inside]
        if not result.flags.c_contiguous:
            return _change_elements(_UFUNCS[put], result, (place,), None, updates)
        row = math.prod(result.shape[1:])
        change(result.reshape(n, row), place, updates.reshape(len(place), row))
        return result

    return scatter


def _into_parts(put, change, mode, result, place, updates):
    """Updates of the first elements of rows only."""
    whole = tuple([slice(0, n) for n in updates.shape[1:]])
    part = np.ascontiguousarray(result[(slice(None), *whole)])
    _into_rows(put, change, mode)(part, place[:, None], updates)
    result[(slice(None), *whole)] = part
    return result


def _elements(index, rows, updates, front, extent):
    rank = updates.ndim
    lead = rank - len(extent)
    index = [i.reshape(i.shape + (1,) * len(extent)) for i in index]
    index += [_along(n, lead + i, rank) for i, n in enumerate(extent)]
    return index, rows, updates


def _put(rows, places, updates):
    if rows.shape[1] == 1:
        rows[:, 0][places] = updates[:, 0]
    else:
        rows[places] = updates


def _by_ufunc(function):
    def change(rows, places, updates):
        if rows.shape[1] == 1:
            function.at(rows[:, 0], places, updates[:, 0])
        else:
            function.at(rows, places, updates)

    return change


def add_rows(rows, places, updates):
    """``rows[places[i]] += updates[i]``, in order, also where places repeat."""
    count, size = updates.shape
    if size == 1 or rows.dtype.char not in "fdFDilq":
        np.add.at(rows[:, 0] if size == 1 else rows, places, updates[:, 0] if size == 1 else updates)
        return
    # The product with a sparse matrix of ones, one in each column: columns are added in their order.
    sparse = _sparse()
    if sparse is None:
        np.add.at(rows, places, updates)
        return
    sparse.csc_matvecs(
        len(rows), count, size, np.arange(count + 1), places.astype(_intp, copy=False), np.ones(count, rows.dtype),
        np.ascontiguousarray(updates).reshape(-1), rows.reshape(-1),
    )


@functools.cache
def _sparse():
    try:
        from scipy.sparse import _sparsetools
    except ImportError:  # not a public part of SciPy
        return None
    return _sparsetools


_UFUNCS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "set": None,
}
_PUTS = {name: _by_ufunc(function) for name, function in _UFUNCS.items() if function is not None}
_PUTS["add"], _PUTS["set"] = add_rows, _put

for _name in ("add", "sub", "mul", "min", "max"):
    _make = _scatter(_name)
    rule(f"scatter-{_name}", f"scatter_{_name}")(_make)
    IN_PLACE[f"scatter-{_name}"] = IN_PLACE[f"scatter_{_name}"] = 0, _scatter(_name, _itself)
_set = _scatter("set")


@rule("scatter")
def _(params, inputs, outputs):
    if params.get("update_jaxpr") is not None:
        raise MissingRule("no rule for the primitive 'scatter' with a function on the host")
    if is_extended(inputs[0].dtype):
        bits = np.dtype(f"u{inputs[0].dtype.itemsize}")
        dtype = inputs[0].dtype
        inner = _set(params, [_As(bits, x.ndim) for x in inputs], outputs)
        return lambda x, i, u: inner(x.view(bits), i, u.view(bits)).view(dtype)
    return _set(params, inputs, outputs)


def _set_in_place(params, inputs, outputs):
    if params.get("update_jaxpr") is not None or is_extended(inputs[0].dtype):
        return None
    return _scatter("set", _itself)(params, inputs, outputs)


IN_PLACE["scatter"] = 0, _set_in_place


class _As(NamedTuple):
    dtype: np.dtype
    ndim: int


@rule("ftorch_table", sizes=("sizes",))
def _(params, inputs, outputs):
    function = params["function"]
    return lambda sizes: function(*sizes)
