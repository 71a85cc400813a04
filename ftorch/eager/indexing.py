"""``x[...]`` and ``x[...] = value``.

Basic items (integers, slices, None, Ellipsis) make one view. Index tensors, masks and sequences are
then applied to it by ``index`` and ``index_put_``.
"""

from __future__ import annotations

import numpy as np

from . import api
from .dtype import int64
from .executor import IMMEDIATE
from .geometry import Size, geometry, has_internal_overlap, with_bits
from .op import call, op_named, overlaps, special
from .registry import OPS
from .tensor import PLAIN, TensorBase, from_array, modes
from .viewing import make_view, view_call


def _too_many(x):
    return IndexError(f"too many indices for tensor of dimension {x._geometry.ndim}")


def _index_value(item):
    if isinstance(item, TensorBase):
        return int(item.item())
    return item.__index__()


def _is_scalar_index(item):
    return isinstance(item, (int, np.integer)) and not isinstance(item, bool)


def _as_tensor(item, device):
    if isinstance(item, TensorBase):
        return item
    array = np.asarray(item)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.int64)
    if array.dtype.kind not in "biu":
        raise IndexError(
            "tensors used as indices must be long, int, byte or bool tensors"
        )
    return from_array(array, device)


def _items(index):
    if isinstance(index, tuple):
        return index
    return (index,)


def _parse(x, index):
    """(view items, {dimension of the view: index tensor}, kind of the last basic item)."""
    g = x._geometry
    if g.ndim:  # the commonest
        if index.__class__ is slice:
            return [_slice(index, g.shape[0])], {}, "slice"
        if index.__class__ in PLAIN and index._geometry.dtype is int64 and index._geometry.ndim:
            return [(0, 1, g.shape[0])], {0: index}, "slice"
    items = _items(index)
    consumed = 0
    for i in items:
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
        raise _too_many(x)
    view, advanced, last, dim, seen = [], {}, "slice", 0, False
    for item in items:
        if item is Ellipsis:
            if seen:
                raise IndexError("an index can only have a single ellipsis ('...')")
            seen = True
            skip = g.ndim - consumed
            view.extend((0, 1, n) for n in g.shape[dim : dim + skip])
            dim += skip
        elif item is None:
            view.append(None)
        elif item.__class__ is slice:
            view.append(_slice(item, g.shape[dim]))
            dim, last = dim + 1, "slice"
        elif isinstance(item, (bool, np.bool_)):
            view.append(None)
            advanced[_width(view) - 1] = from_array(np.full((1,), bool(item)), g.device)
        elif _is_scalar_index(item):
            view.append(_integer(x, int(item), dim))
            dim, last = dim + 1, "select"
        elif (
            isinstance(item, TensorBase) and not item._geometry.shape and item.dtype.category == 1
            and _has_value(item)
        ):  # fmt: skip
            if item.dtype.name == "uint8":
                raise IndexError("uint8 scalars are masks")
            view.append(_integer(x, _index_value(item), dim))
            dim, last = dim + 1, "select"
        elif isinstance(item, (TensorBase, np.ndarray, list, tuple, range)):
            t = _as_tensor(list(item) if isinstance(item, range) else item, g.device)
            if t.dtype.category > 1:
                raise IndexError(
                    "tensors used as indices must be long, int, byte or bool tensors"
                )
            is_mask = t.dtype.name in ("bool", "uint8")
            width = t.ndim if is_mask else 1
            if is_mask:
                _check_mask(t, g, dim)
                if width == 0:
                    view.append(None)
                    advanced[_width(view) - 1] = t.reshape(1)
                    continue
            advanced[_width(view)] = t
            view.extend((0, 1, n) for n in g.shape[dim : dim + width])
            dim += width
        elif hasattr(item, "__index__"):
            view.append(_integer(x, item.__index__(), dim))
            dim, last = dim + 1, "select"
        elif isinstance(item, str):
            raise TypeError("new(): invalid data type 'str'")
        else:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
                f"valid indices (got {type(item).__name__})"
            )
    return view, advanced, last


def _has_value(t):
    """Whether an index can become a number: not inside a transform or a JAX trace."""
    return t._storage.error is None and t._storage.trace is not IMMEDIATE


def _is_mask(values):
    while isinstance(values, list) and values:
        values = values[0]
    return isinstance(values, (bool, np.bool_))


def _width(view):
    return sum(1 for v in view if v is None or v.__class__ is tuple)


def _check_mask(mask, g, dim):
    for i, n in enumerate(mask.shape):
        if g.shape[dim + i] != n:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {i} does not match the shape of "
                f"the indexed tensor {list(g.shape)} at index {dim + i}"
            )


def _integer(x, index, dim):
    g = x._geometry
    if dim >= g.ndim:
        if not g.ndim:
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
            )
        raise _too_many(x)
    size = g.shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")
    return index + size if index < 0 else index


def _slice(item, size):
    step = 1 if item.step is None else _index_value(item.step)
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start = item.start if item.start is None else _index_value(item.start)
    stop = item.stop if item.stop is None else _index_value(item.stop)
    start, stop, step = slice(start, stop, step).indices(size)
    return start, step, max(0, -(-(stop - start) // step))


def _basic(x, view, last):
    if _is_whole(x, view):
        return view_call(OPS["alias"], x) if last else x
    return view_call(OPS[f"_index_{last}"], x, (tuple(view),))


def getitem(x, index):
    """``x[index]``: a view for basic indices, a copy for index tensors and masks."""
    if index.__class__ is int:
        return _row(x, index)
    view, advanced, last = _parse(x, index)
    if not advanced:
        if index.__class__ is slice:  # even a whole one is a slice
            return view_call(OPS["_index_slice"], x, (tuple(view),))
        return _basic(x, view, last)
    part = _basic(x, view, "" if _is_whole(x, view) else last)
    return call(op_named("index.Tensor"), (part, _expanded(advanced)), ())


def _row(x, index):
    """``x[index]`` for an integer: the commonest view, without going through its rule."""
    index = _integer(x, index, 0)
    if special[0] or x.__class__ not in PLAIN:
        return view_call(OPS["_index_select"], x, ((index,),))
    g = x._geometry
    row = g._views.get("row")
    if row is None:
        row = geometry(Size(g.shape[1:]), g.dtype, g.device, g.stride[1:])
        row = g._views["row"] = with_bits(row, g.bits)
    return make_view(OPS["_index_select"], x, ((index,),), row, index * g.stride[0])


def _is_whole(x, view):
    shape = x._geometry.shape
    return len(view) <= len(shape) and all(
        v.__class__ is tuple and v == (0, 1, n) for v, n in zip(view, shape)
    )


def _expanded(advanced):
    """Index tensors by dimension; a mask becomes the positions of its true elements."""
    out = []
    for dim in sorted(advanced):
        out.extend([None] * (dim - len(out)))
        t = advanced[dim]
        if t.dtype.name in ("bool", "uint8"):
            if getattr(t, "_bdim", None) is not None:
                raise RuntimeError(
                    "vmap: We do not support batching operators that can support dynamic shape. "
                    "Attempting to batch over indexing with a boolean mask."
                )
            out.extend(api.nonzero(t).unbind(1))
        else:
            out.append(t)
    return tuple(out)


def setitem(x, index, value):
    """``x[index] = value``; the value is broadcast and cast."""
    if index.__class__ is int:
        return _assign(_row(x, index), value)
    view, advanced, last = _parse(x, index)
    part = _basic(x, view, "" if advanced and _is_whole(x, view) else last)
    if not advanced:
        return _assign(part, value)
    if len(advanced) == 1:
        ((dim, t),) = advanced.items()
        is_number = isinstance(value, (int, float, complex, np.number)) or (
            isinstance(value, TensorBase) and value.numel() == 1
        )
        recorded = modes.grad and (part._requires_grad or getattr(value, "requires_grad", False))
        if dim == 0 and t.dtype.name == "bool" and is_number and not recorded and not special[0]:
            mask = t.reshape(*t.shape, *[1] * (part.ndim - t.ndim))
            if isinstance(value, TensorBase):
                value = value.reshape(()).to(x.dtype)
            part.masked_fill_(mask, _number(value))
            return None
    if not isinstance(value, TensorBase):
        value = _value_tensor(value, x)
    if value._storage is part._storage and overlaps(value, part):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer "
            "to a single memory location. Please clone() the tensor before performing the operation."
        )
    while value.ndim and value.shape[0] == 1:  # dimensions that only broadcast
        value = value.squeeze(0)
    if len(advanced) == 1 and not value.ndim:  # a mask need not become positions
        indices = (*[None] * dim, t)
    else:
        indices = _expanded(advanced)
    part.index_put_(indices, value)
    return None


def _number(value):
    return value.item() if isinstance(value, np.generic) else value


def _value_tensor(value, x):
    return api.tensor(value, dtype=x.dtype, device=x.device)


def _assign(part, value):
    if isinstance(value, TensorBase):
        while value.ndim > part.ndim and value.shape[0] == 1:
            value = value.squeeze(0)
        if value._storage is part._storage:
            value = value.expand(part.shape)  # a tensor written to itself
        part.copy_(value)
    elif isinstance(value, (int, float, complex, np.number, np.bool_)):
        if has_internal_overlap(part._geometry):  # a fill may write there, an assignment not
            part.copy_(_number(value))
        else:
            part.fill_(_number(value))
    else:
        _assign(part, _value_tensor(value, part))
