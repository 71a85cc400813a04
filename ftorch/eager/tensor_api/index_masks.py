"""Boolean masks among indices: whether they fit, and the positions of their true elements."""

from __future__ import annotations

import weakref

import numpy as np

from ..call.op import hooks, special, to_numpy
from ..core import api
from ..core.device import CPU
from ..core.dtype import int64
from ..runtime import capture_trace
from ..tensor import PLAIN, TensorBase, from_array, modes

_masks: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # {storage of positions: the mask they are of}
_INDEX_DTYPES = ("int64", "int32", "uint8", "bool")


def as_positions(x, indices):
    """The indices of ``torch.ops.aten.index`` with those of integers only: a mask becomes the positions of its true elements.

    Raises:
        IndexError: for no index, one of another dtype, too many, and a mask of another shape or without dimensions.
    """
    if not indices:
        raise IndexError("at least one index must be provided")
    if all(i is None or i.dtype is int64 for i in indices) and len(indices) <= x.ndim:
        return tuple(indices)
    found: list = []
    for i in indices:
        if i is not None and i.dtype.name not in _INDEX_DTYPES:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if i is None or i.dtype.name not in ("bool", "uint8"):
            found.append(i)
            continue
        if not i.ndim:
            raise IndexError("a mask without dimensions has no positions")
        start = len(found)
        if start + i.ndim <= x.ndim:
            check_masks({start: i}, x)
        found.extend(expanded({0: i}) if start + i.ndim <= x.ndim else [i] * i.ndim)
    if len(found) > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim} (got {len(found)})")
    return tuple(found)


def expanded(advanced):
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
            level = getattr(t, "_ftorch_level", None)
            if level is not None and level is modes.levels[-1] and hasattr(level, "positions_of"):
                out.extend(level.positions_of(t))
            elif (
                (not special[0] or (hooks.python is not None and not modes.levels))
                and t.__class__ in PLAIN
                and t._ftorch_geometry.device is CPU
                and capture_trace.capturing() is None
            ):
                positions = [from_array(p) for p in np.nonzero(to_numpy(t))]
                if special[0]:
                    _masks.update((p._ftorch_storage, t) for p in positions)
                out.extend(positions)
            else:
                out.extend(api.nonzero(t).unbind(1))
        else:
            out.append(t)
    return tuple(out)


def with_masks(indices):
    """Indices as whoever sees ATen's calls gets them: the mask itself, where there are positions of its elements."""
    out: list = []
    last = None
    for t in indices:
        mask = _masks.get(t._ftorch_storage) if isinstance(t, TensorBase) else None
        if mask is None or mask is not last:
            out.append(t if mask is None else mask)
        last = mask
    return out


def check_masks(advanced, part):
    """Raises IndexError for masks that have not the shape of what basic items left of the tensor."""
    shape = part._ftorch_geometry.shape
    for dim, mask in advanced.items():
        if mask._ftorch_geometry.dtype.name not in ("bool", "uint8"):
            continue
        for i, n in enumerate(mask.shape):
            if shape[dim + i] != n:
                raise IndexError(
                    f"The shape of the mask {list(mask.shape)} at index {i} does not match the shape "
                    f"of the indexed tensor {list(shape)} at index {dim + i}"
                )
