"""Results of a compiled call that are views of its arguments: made of the arguments that the call was given."""

from __future__ import annotations

import functools

import numpy as np

from ...eager.call.op import hooks
from ...eager.core.geometry import Geometry, Size, geometry, with_bits
from ...eager.tensor import wrap_view


def view_of(base, g: Geometry, offset: int, requires_grad: bool, is_view: bool, seen: Geometry | None = None):
    """The view of an argument that a result is.

    Args:
        g, offset: where it lies, in the memory of ``base`` or of its stand-in.
        is_view: whether it knows a base, as the results of ``detach`` do not.
        seen: the geometry of the stand-in, if there was one.

    Returns:
        The view, or None where no strides say what a view of the stand-in is in the argument's memory.
    """
    if seen is not None:
        found = _through(base._ftorch_geometry, seen, g, offset)
        if found is None:
            return None
        g, offset = found[0], found[1] + base._ftorch_offset
    if requires_grad and base._ftorch_requires_grad:
        return hooks.part(base, g, offset - base._ftorch_offset)
    known = None
    if is_view:
        known = base if base._base is None else base._base
        if known._ftorch_requires_grad:  # a view of the detached argument
            known = wrap_view(base._ftorch_storage, base._ftorch_geometry, base._ftorch_offset, None)
    return wrap_view(base._ftorch_storage, g, offset, known)


@functools.lru_cache(1 << 12)
def _through(original: Geometry, seen: Geometry, g: Geometry, offset: int):
    """(geometry, offset from the argument's own) of a view of a stand-in, as a view of the argument; or None."""
    if g.dtype is not seen.dtype:
        return None
    places = np.full(max(seen.expanse, offset + g.expanse), -1, np.int64)
    _strided(places, seen)[...] = _strided(np.arange(original.expanse), original)
    wanted = _strided(places[offset:], g)
    if not wanted.size:
        start, strides = 0, g.stride
    else:
        start = int(wanted[(0,) * wanted.ndim])
        steps = [wanted[(0,) * d + (1,) + (0,) * (wanted.ndim - d - 1)] if n > 1 else start + s
                 for d, (n, s) in enumerate(zip(g.shape, g.stride))]
        strides = [int(s) - start for s in steps]
        known = start + sum(s * np.arange(n).reshape(-1, *[1] * (wanted.ndim - d - 1))
                            for d, (n, s) in enumerate(zip(g.shape, strides)))
        if min(strides, default=0) < 0 or (wanted < 0).any() or (wanted != known).any():
            return None
    made = geometry(Size(g.shape), g.dtype, g.device, tuple(strides))
    return with_bits(made, original.bits ^ g.bits), start


def _strided(array, g: Geometry):
    """A view of a flat array through a geometry."""
    return np.lib.stride_tricks.as_strided(array, g.shape, [s * array.itemsize for s in g.stride])
