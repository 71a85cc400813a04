"""Indexing: ``x[...]`` and ``x[...] = value``.

Basic items (integers, slices, None, Ellipsis) make one view. Index tensors, masks and sequences are
then applied to it by ``index`` and ``index_put_``.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np

from ..autograd.views import make_view, view_call
from ..call import op as _op
from ..call.argument_types import type_name
from ..call.op import (
    at_hand,
    call,
    call_inplace,
    in_c,
    op_named,
    overlaps,
    special,
    to_numpy,
)
from ..core import api
from ..core.dtype import bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, int64, uint8
from ..core.dtype import bool as bool_
from ..core.geometry import Size, geometry, has_internal_overlap, with_bits
from ..core.registry import OPS
from ..core.user_warnings import BYTES_AS_MASKS, warn_user
from ..memory.storage import on_look
from ..runtime import capture_trace
from ..runtime.executor import IMMEDIATE
from ..tensor import PLAIN, TensorBase, count_write, from_array, modes
from .index_masks import check_masks, expanded


def _nothing(*arguments):
    return None


# Views by Python's numbers and slices of plain tensors that need no place in a graph, and writes into such.
_item_of: Any = _nothing if in_c is None else in_c.item_of
_write_item: Any = _nothing if in_c is None else in_c.write_item


def _too_many(x):
    return IndexError(f"too many indices for tensor of dimension {x._ftorch_geometry.ndim}")


def _index_value(item):
    if isinstance(item, TensorBase):
        return item.__index__()
    if not hasattr(type(item), "__index__"):
        raise TypeError("slice indices must be integers or None or have an __index__ method")
    return item.__index__()


def _is_scalar_index(item):
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _as_tensor(item, device):
    if isinstance(item, TensorBase):
        return item
    try:
        array = np.asarray(item)
    except ValueError:
        return api.tensor(item, dtype=int64)  # which says what is wrong
    if array.dtype.kind == "f":
        array = array.astype(np.int64)  # a sequence of numbers becomes integers
    if array.dtype.kind == "O":
        return api.tensor(item)
    if array.dtype.kind not in "biu":
        raise IndexError(
            "tensors used as indices must be long, int, byte or bool tensors"
        )
    made = from_array(array, device)
    if special[0] and _op.hooks.lifted is not None:
        _op.hooks.lifted(made)
    return made


def _items(index):
    if isinstance(index, tuple):
        return index
    if _stands_for_tuple(index):
        warn_user(_NOT_A_TUPLE)
        return tuple(index)
    return (index,)


_NOT_A_TUPLE = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in "
    "pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as "
    "tensor index, x[torch.tensor(seq)], which will result either in an error or a different result"
)


def _stands_for_tuple(index):
    """NumPy's old rule: whether a short sequence holds something that one index has no place for."""
    if index.__class__ is int or isinstance(index, (TensorBase, np.ndarray, slice, np.generic)):
        return False
    if not _is_sequence(index):
        return False
    try:
        count = len(index)
    except Exception:
        return False
    return count < 32 and any(
        item is None or item is Ellipsis or isinstance(item, (TensorBase, slice)) or _is_sequence(item)
        for item in (index[i] for i in range(count))
    )


def _is_sequence(value):
    """Python's C API asks the same (``PySequence_Check``): dicts have other keys."""
    return hasattr(type(value), "__getitem__") and not isinstance(value, (dict, np.generic))


def _flag(item, device):
    """The index that a truth value is, of a new dimension of one: it, or nothing."""
    return from_array(np.zeros(int(bool(item)), np.int64), device)


def _parse(x, index):
    """(view items, {dimension of the view: index tensor}, kind of the last basic item)."""
    g = x._ftorch_geometry
    if g.ndim:  # the commonest
        if index.__class__ is slice:
            return [_slice(index, g.shape[0])], {}, "slice"
        if index.__class__ in PLAIN and index._ftorch_geometry.dtype is int64 and index._ftorch_geometry.ndim:
            return [(0, 1, g.shape[0])], {0: index}, "slice"
    items = _items(index)
    consumed = 0
    for i in items:
        kind = i.__class__
        if kind is slice or kind is int:
            consumed += 1
            continue
        if kind in PLAIN:
            own = i._ftorch_geometry
            consumed += own.ndim if own.dtype is bool_ or own.dtype is uint8 else 1
            continue
        if i is None or i is Ellipsis or isinstance(i, bool) or isinstance(i, np.bool_):
            continue
        dtype = i.dtype if isinstance(i, (TensorBase, np.ndarray)) else None
        if dtype is not None and str(dtype).split(".")[-1] in ("bool", "uint8"):
            consumed += i.ndim
        elif isinstance(i, list) and i and _is_mask(i):
            consumed += np.ndim(i)
        else:
            consumed += 1
    if consumed > g.ndim:
        if not g.ndim and items[0].__class__ is slice:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        raise _too_many(x)
    view, advanced, last, dim = [], {}, "slice", 0
    for position, item in enumerate(items):
        if item is Ellipsis:
            skip = min(g.ndim - consumed, g.ndim - dim)  # nothing is left for a second one
            view.extend((0, 1, n) for n in g.shape[dim : dim + skip])
            dim += skip
        elif item is None:
            view.append(None)
            last = "newaxis"
        elif item.__class__ is slice:
            part = _slice(item, g.shape[dim])
            view.append(part)
            if part != (0, 1, g.shape[dim]):  # a whole slice is none
                last = "slice"
            dim += 1
        elif isinstance(item, (bool, np.bool_)):
            view.append(None)
            advanced[_width(view) - 1] = _flag(item, g.device)
        elif _is_scalar_index(item):
            view.append(_integer(x, int(item), dim, position))
            dim, last = dim + 1, "select"
        elif (
            isinstance(item, TensorBase) and not item._ftorch_geometry.shape and item.dtype.category == 1
            and _has_value(item)
        ):
            if item.dtype.name == "uint8":
                view.append(None)
                advanced[_width(view) - 1] = _flag(item, g.device)
                continue
            view.append(_integer(x, _index_value(item), dim, position))
            dim, last = dim + 1, "select"
        elif isinstance(item, (TensorBase, np.ndarray, list, tuple, range)):
            t = _as_tensor(list(item) if isinstance(item, range) else item, g.device)
            if t.dtype.category > 1:
                raise IndexError(
                    "tensors used as indices must be long, int, byte or bool tensors"
                )
            is_mask = t.dtype.name in ("bool", "uint8")
            if t.dtype.name in ("int8", "int16", "uint16", "uint32", "uint64"):
                raise IndexError(
                    "tensors used as indices must be long, int, byte or bool tensors"
                )
            if is_mask and t.dtype.name == "uint8":
                warn_user(BYTES_AS_MASKS)
            width = t.ndim if is_mask else 1
            if is_mask:
                if width == 0:
                    view.append(None)
                    advanced[_width(view) - 1] = t.reshape(1)
                    continue
            advanced[_width(view)] = t
            view.extend((0, 1, n) for n in g.shape[dim : dim + width])
            dim += width
        elif hasattr(item, "__index__"):
            view.append(_integer(x, item.__index__(), dim, position))
            dim, last = dim + 1, "select"
        elif isinstance(item, (str, bytes)):
            raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
        elif _is_sequence(item) and hasattr(item, "__len__"):
            t = _as_tensor([item[i] for i in range(len(item))], g.device)
            advanced[_width(view)] = t
            view.append((0, 1, g.shape[dim]))
            dim += 1
        else:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
                f"valid indices (got {type_name(item)})"
            )
    return view, advanced, last


def _is_truth(view, dim):
    """Whether the index of a dimension is a truth value, which has a new one."""
    return [v for v in view if v is None or v.__class__ is tuple][dim] is None


def _has_value(t):
    """Whether an index can become a number: not inside a transform or a JAX trace, but where a level has numbers of its own."""
    if t._ftorch_storage.error is not None:
        return getattr(getattr(t, "_ftorch_level", None), "draws", None) is not None
    return t._ftorch_storage.trace is not IMMEDIATE


def _is_mask(values):
    while isinstance(values, list) and values:
        values = values[0]
    return isinstance(values, (bool, np.bool_))


def _width(view):
    return sum(1 for v in view if v is None or v.__class__ is tuple)


def _integer(x, index, dim, position=0):
    g = x._ftorch_geometry
    if dim >= g.ndim:
        if not g.ndim:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
            )
        raise _too_many(x)
    size = g.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"index {index} is out of bounds for dimension {position} with size {size}"
        )
    return index + size if index < 0 else index


def _slice(item, size):
    step = 1 if item.step is None else _index_value(item.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    start = item.start if item.start is None else _index_value(item.start)
    stop = item.stop if item.stop is None else _index_value(item.stop)
    start, stop, step = slice(start, stop, step).indices(size)
    return start, step, max(0, -(-(stop - start) // step))


def _basic(x, view, last):
    if _is_whole(x, view):
        return view_call(OPS["alias"], x) if last else x
    return view_call(OPS[f"_index_{last}"], x, (tuple(view),))


_NUMBERS = frozenset({int, float, bool, complex})
_PLACES = frozenset({int, slice, bool, type(None), type(Ellipsis), *PLAIN})  # classes that have no say


def _with_a_say(x, index, *value):
    """What is asked about a look or an assignment: all, where a part of it that is no tensor has a say; otherwise None."""
    parts = (*index, *value) if index.__class__ in (tuple, list) else (index, *value)
    for part in parts:
        if part.__class__ in _PLACES or part.__class__ in _NUMBERS:
            continue
        if getattr(part.__class__, "__torch_function__", None) is not None and not isinstance(part, TensorBase):
            return (x, *parts) if modes.subclasses else None
    return None


def getitem(x, index):
    """``x[index]``: a view for basic indices, a copy for index tensors and masks."""
    if x.__class__ not in PLAIN and modes.subclasses:  # a class's own method calls this one: the class is asked
        found = _op.hooks.function_override(getitem, (x, index), {})
        if found is not NotImplemented:
            return found
    found = _item_of(x, index) if on_look[0] is None else None  # in a capture the value of an index must not become part of it
    if found is not None:
        return found
    if index.__class__ is int:
        return _row(x, index)
    key = None
    if not special[0] and x.__class__ in PLAIN:
        if index.__class__ in PLAIN and index._ftorch_geometry.dtype is bool_:
            found = _masked(x, index)
            if found is not None:
                return found
        elif index.__class__ in PLAIN and index._ftorch_geometry.dtype is int64 and index._ftorch_geometry.ndim:
            if x._ftorch_geometry.ndim:
                return call(op_named("index.Tensor"), (x, (index,)), ())
        index = _with_numbers(index)
        key = _basic_key(index)
        if key is not None:
            known = x._ftorch_geometry._views.get(key)
            if known is not None:
                return make_view(known[0], x, known[1], known[2], known[3])
    if index.__class__ not in _PLACES:
        asked = _with_a_say(x, index)
        if asked is not None:
            from ..dispatch import overrides

            return overrides.handle(getitem, asked, (x, index), {})
    view, advanced, last = _parse(x, index)
    if not advanced:
        if index.__class__ is not slice and _is_whole(x, view):
            return _basic(x, view, last)
        # Even a whole slice is one.
        definition, static = OPS["_index_slice" if index.__class__ is slice else f"_index_{last}"], (tuple(view),)
        found = view_call(definition, x, static)
        if key is not None:
            memo = x._ftorch_geometry._views
            known = memo.get((definition, static))
            if known is not None and len(memo) < _MOST_VIEWS:
                memo[key] = (definition, static, *known)
        return found
    part = _basic(x, view, "" if _is_whole(x, view) else last)
    check_masks(advanced, part)
    return call(op_named("index.Tensor"), (part, expanded(advanced)), ())


def _masked(x, mask):
    """``x[mask]``, taken at once from values that are at hand, where nothing records it; else None."""
    g, m = x._ftorch_geometry, mask._ftorch_geometry
    if not m.ndim or m.shape != g.shape[: m.ndim] or m.device is not g.device or x._ftorch_requires_grad and modes.grad:
        return None
    values = at_hand(x)
    return None if values is None else from_array(values[to_numpy(mask)])


def _row(x, index):
    """``x[index]`` for an integer: the commonest view, without going through its rule."""
    index = _integer(x, index, 0)
    if special[0] or x.__class__ not in PLAIN:
        return view_call(OPS["_index_select"], x, ((index,),))
    g = x._ftorch_geometry
    row = g._views.get("row")
    if row is None:
        row = geometry(Size(g.shape[1:]), g.dtype, g.device, g.stride[1:])
        row = g._views["row"] = with_bits(row, g.bits)
    return make_view(OPS["_index_select"], x, ((index,),), row, index * g.stride[0])


def _with_numbers(index):
    """An index whose tensors of one integer are numbers, if it is a tuple; else as it is."""
    if index.__class__ is not tuple:
        return index
    for item in index:
        if item.__class__ in PLAIN:
            return tuple([_number_in(item) for item in index])
    return index


def _number_in(item):
    if item.__class__ in PLAIN:
        g = item._ftorch_geometry
        if g.is_zero_dim and g.dtype is int64 and _has_value(item):
            return item.__index__()
    return item


_MOST_VIEWS = 256  # of a geometry that are known by the index
_BOUNDS = frozenset((int, type(None)))


def _basic_key(index):
    """A hashable form of an index of Python's integers, slices of such, None and Ellipsis; else None."""
    kind = index.__class__
    if kind is slice:
        if {index.start.__class__, index.stop.__class__, index.step.__class__} <= _BOUNDS:
            return index.start, index.stop, index.step, "slice"
        return None
    if index is None or index is Ellipsis:
        return index, "item"
    if kind is not tuple:
        return None
    parts: list = ["index"]
    for item in index:
        kind = item.__class__
        if kind is slice:
            if not {item.start.__class__, item.stop.__class__, item.step.__class__} <= _BOUNDS:
                return None
            parts.append((item.start, item.stop, item.step))
        elif kind is int or item is None or item is Ellipsis:
            parts.append(item)
        else:
            return None
    return tuple(parts)


def _is_watched(x):
    """Whether somebody sees ATen's calls on a tensor."""
    return _op.hooks.sees is not None and _op.hooks.sees((x,))


def _is_whole(x, view):
    shape = x._ftorch_geometry.shape
    return len(view) <= len(shape) and all(
        v.__class__ is tuple and v == (0, 1, n) for v, n in zip(view, shape)
    )


def setitem(x, index, value):
    """``x[index] = value``; the value is broadcast and cast."""
    kind = value.__class__
    if kind not in _NUMBERS and not isinstance(value, TensorBase) or index.__class__ not in _PLACES:
        asked = _with_a_say(x, index, value)
        if asked is not None:
            from ..dispatch import overrides

            overrides.handle(setitem, asked, (x, index, value), {})
            return None
    if special[0] and _is_watched(x):
        if not isinstance(value, TensorBase):
            value = _value_tensor(value, x)  # ATen assigns tensors
        if index is Ellipsis:
            return _assign(x, value)
    written = _write_item(x, index, value) if on_look[0] is None else None
    if written is True:
        return None
    if written is not None:
        return _assign(written, value)
    if index.__class__ is int:
        return _assign(_row(x, index), value)
    if index.__class__ is bool:
        if not isinstance(value, TensorBase):
            value = _value_tensor(value, x)
        return _assign(x.unsqueeze(0), value) if index else None  # False writes nothing, and nobody looks at the value
    if not special[0] and x.__class__ in PLAIN:
        index = _with_numbers(index)
        key = _basic_key(index)
        if key is not None:
            return _assign(getitem(x, index), value)
    view, advanced, last = _parse(x, index)
    whole = _is_whole(x, view)
    part = x if whole and special[0] and _is_watched(x) else _basic(x, view, "" if advanced and whole else last)
    if not advanced:
        return _assign(part, value)
    check_masks(advanced, part)
    if len(advanced) == 1:
        ((dim, t),) = advanced.items()
        is_number = isinstance(value, (int, float, complex, np.number)) or (
            isinstance(value, TensorBase) and value.numel() == 1
        )
        recorded = modes.grad and (part._ftorch_requires_grad or getattr(value, "requires_grad", False))
        of_dtype = not isinstance(value, TensorBase) or value.dtype is part.dtype
        if t.dtype.name == "bool" and is_number and not of_dtype and not _is_truth(view, dim):  # `masked_fill`, which casts
            loses = value.dtype.is_complex and not part.dtype.is_complex and not special[0]
            value, of_dtype = value.item() if loses else value.to(part.dtype), True
        if dim == 0 and t.dtype.name == "bool" and is_number and of_dtype and not recorded and not special[0]:
            mask = t.reshape((*t.shape, *[1] * (part.ndim - t.ndim)))
            if isinstance(value, TensorBase):
                value = value.reshape(())
            if part.dtype not in _NARROW or not isinstance(value, float) or abs(value) <= 448:
                part.masked_fill_(mask, _number(value))
                return None
    if not isinstance(value, TensorBase):
        value = _value_tensor(value, x)
    if value._ftorch_storage is part._ftorch_storage and overlaps(value, part):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer "
            "to a single memory location. Please clone() the tensor before performing the operation."
        )
    while value.ndim and value.shape[0] == 1:  # dimensions that only broadcast
        value = value.squeeze(0)
    if len(advanced) == 1 and not value.ndim:  # a mask need not become positions
        indices = (*[None] * dim, t)
    else:
        indices = expanded(advanced)
    call_inplace(op_named("index_put"), (part, indices, value), (False,))
    return None


def _number(value):
    return value.item() if isinstance(value, np.generic) else value


def _value_tensor(value, x):
    if not isinstance(value, (bool, int, float, complex, np.integer, np.bool_, jax.Array)):
        kind = type(value)
        name = f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__
        raise TypeError(f"can't assign a {name} to a torch.{x.dtype.scalar_name}Tensor")
    if isinstance(value, complex):  # which `tensor` does not take for other dtypes
        return api.full((), value, dtype=x.dtype, device=x.device)
    return api.tensor(value, dtype=x.dtype, device=x.device)


def _check_fits(shape, dtype, part):
    """Raises PyTorch's errors for a value that cannot be expanded to what it is assigned to."""
    have, want = tuple(shape), tuple(part.shape)
    if len(have) > len(want):
        kind = f"torch.{dtype.scalar_name}Tensor{{{list(have)}}}"
        raise RuntimeError(
            f"expand({kind}, size={list(want)}): the number of sizes provided ({len(want)}) must be greater or "
            f"equal to the number of dimensions in the tensor ({len(have)})"
        )
    for n in range(1, len(have) + 1):
        if have[-n] not in (1, want[-n]):
            raise RuntimeError(
                f"The expanded size of the tensor ({want[-n]}) must match the existing size ({have[-n]}) at "
                f"non-singleton dimension {len(want) - n}.  Target sizes: {list(want)}.  Tensor sizes: {list(have)}"
            )


def _is_itself(part, value):
    """Whether what is assigned is what was there, as behind ``x[i] += 1``, and nobody but the version has to know."""
    storage = part._ftorch_storage
    return (
        value._ftorch_geometry is part._ftorch_geometry and value._ftorch_offset == part._ftorch_offset
        and not special[0] and part.__class__ in PLAIN and value.__class__ in PLAIN and not storage.version < 0
        and not modes.differentiating and capture_trace.capturing() is None
        and not (part._ftorch_requires_grad or value._ftorch_requires_grad)
        and (part._base is None or not part._base._ftorch_requires_grad)
        and not has_internal_overlap(part._ftorch_geometry)
    )


_NARROW = {float16, bfloat16, float8_e4m3fn, float8_e5m2}


def _assign(part, value):
    if isinstance(value, TensorBase):
        if special[0] and value.shape != part.shape and _is_watched(part):
            if not value.ndim:
                part.fill_(value)
                return
            own = list(itertools.dropwhile(lambda n: n == 1, value.shape))
            value = value.view(own)
            part.copy_(value if value.shape == part.shape else value.expand(part.shape))
            return
        while value.ndim > part.ndim and value.shape[0] == 1:
            value = value.squeeze(0)
        if value._ftorch_storage is part._ftorch_storage:
            if _is_itself(part, value):
                count_write(part)
                return
            value = value.expand(part.shape)  # a tensor written to itself
        elif value.shape != part.shape:
            _check_fits(value.shape, value.dtype, part)
        part.copy_(value)
    elif isinstance(value, (int, float, complex, np.integer, np.bool_)):
        if part.dtype in _NARROW and isinstance(value, float) and abs(value) > 448:  # a fill refuses what overflows
            part.copy_(api.tensor(float(value), dtype=float32))
        elif has_internal_overlap(part._ftorch_geometry):  # a fill may write there, an assignment not
            part.copy_(_number(value))
        else:
            part.fill_(_number(value))
    else:
        _assign(part, _value_tensor(value, part))
