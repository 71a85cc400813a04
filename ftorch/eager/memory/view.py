"""Strided access: how a geometry maps onto its storage's root array, for reads and writes.

An `Access` is the pair of array functions (read, write) for one root and one geometry. Where the
strides divide each other, as those of slices, permutations and diagonals do, the root's memory is
reshaped so that the view is a plain slice; otherwise elements are gathered by computed positions.
Offsets are operands, never part of the program: ``x[i]`` for a new ``i`` does not compile again.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..core.dtype import complex32
from ..core.geometry import CONJ, NEG, Geometry, memory_order


def _reinterpret(flat, target):
    """The bytes of a flat array as another dtype."""
    source = flat.dtype
    if source == target:
        return flat
    if source == np.bool_:
        flat = flat.astype(np.uint8)
        return _reinterpret(flat, target)
    if target == np.bool_:
        return _reinterpret(flat, np.dtype(np.uint8)) != 0
    if source.kind == "c":
        parts = jnp.stack([flat.real, flat.imag], axis=-1).reshape(-1)
        return _reinterpret(parts, target)
    if target.kind == "c":
        real = np.dtype(f"f{target.itemsize // 2}")
        parts = _reinterpret(flat, real).reshape(-1, 2)
        return jax.lax.complex(parts[:, 0], parts[:, 1])
    if source.itemsize < target.itemsize:
        flat = flat.reshape(-1, target.itemsize // source.itemsize)
    return jax.lax.bitcast_convert_type(flat, target).reshape(-1)


def _reinterpret_as(flat, source, target):
    """The bytes of a flat array of a dtype as another one; halves of complex32 are kept as floats."""
    if source is target:
        return flat
    if source is complex32:
        parts = jnp.stack([flat.real, flat.imag], axis=-1).reshape(-1)
        return _reinterpret(parts.astype(np.float16), target.numpy)
    if target is complex32:
        parts = _reinterpret(flat, np.dtype(np.float16)).reshape(-1, 2).astype(np.float32)
        return jax.lax.complex(parts[:, 0], parts[:, 1])
    return _reinterpret(flat, target.numpy)


class Access:
    """Read and write functions of one geometry over one root, for one way of addressing.

    ``read(root_array, *starts)`` gives the view's value; ``write(root_array, value, *starts)`` the
    root's new value. ``read_plan`` and ``write_plan`` are filled in by the executor.
    """

    __slots__ = ("read", "write", "count", "read_plan", "write_plan", "name", "layout", "kind")

    def __init__(self, read, write, count):
        self.layout: Any = None
        self.kind = ""
        self.read = read
        self.write = write
        self.count = count
        self.read_plan = None
        self.write_plan = None


_MOST_OFFSETS = 256  # of a layout whose steps are known at once


class Layout:
    """How a geometry's dimensions lie in a root: computed once for the pair.

    ``reads`` and ``writes`` are filled in by the executor: {offset: (plan, starts)}.
    """

    __slots__ = ("root", "view", "order", "memory_shape", "elements", "dims", "divides", "steps", "sizes", "extents",
                 "accesses", "reads", "writes", "rest")

    def __init__(self, root: Geometry, view: Geometry):
        self.root, self.view = root, view
        if root.is_contiguous and min(root.shape, default=2) > 1:  # each step is a multiple of the next
            self.order, self.memory_shape = tuple(range(root.ndim)), tuple(root.shape)
        else:
            self.order = memory_order(root.stride, root.shape)
            self.memory_shape = tuple([root.shape[d] for d in self.order])
        # How many of the root's elements lack at its end to make up one of the view.
        self.rest = -root.numel * root.dtype.itemsize % view.dtype.itemsize // root.dtype.itemsize
        self.elements = (root.numel + self.rest) * root.dtype.itemsize // view.dtype.itemsize
        # The view's dimensions that matter, outermost in memory first.
        self.dims = [d for d in range(view.ndim) if view.shape[d] > 1 and view.stride[d] > 0]
        if len(self.dims) > 1:
            self.dims.sort(key=lambda d: -view.stride[d])
        steps = [view.stride[d] for d in self.dims]
        self.divides = len(steps) < 2 or all([a % b == 0 and a > b for a, b in zip(steps, steps[1:])])
        self.steps = steps if steps and steps[-1] == 1 else [*steps, 1]
        self.sizes = [view.shape[d] for d in self.dims] + [1] * (len(self.steps) - len(steps))
        self.extents = [
            self.steps[i - 1] // self.steps[i] if i else -(-self.elements // self.steps[0])
            for i in range(len(self.steps))
        ] if self.divides else []
        self.accesses = {}
        self.reads: dict = {}
        self.writes: dict = {}

    def note(self, known, offset, plan, starts):
        """Keeps the step of an offset, in ``reads`` or ``writes``."""
        if len(known) >= _MOST_OFFSETS:
            known.clear()
        known[offset] = plan, starts

    def starts(self, offset):
        """Where the slice begins in each axis, or None if it would wrap around."""
        if not self.divides:
            return None
        starts = []
        for step, size, extent in zip(self.steps, self.sizes, self.extents):
            start, offset = divmod(offset, step)
            if start + size > extent:
                return None
            starts.append(start)
        return starts

    # --- the root's memory, flat, in the view's dtype

    def _flat(self, array):
        flat = jnp.transpose(array, self.order).reshape(-1)
        return _reinterpret_as(jnp.pad(flat, (0, self.rest)) if self.rest else flat, self.root.dtype, self.view.dtype)

    def _unflat(self, flat):
        flat = _reinterpret_as(flat, self.view.dtype, self.root.dtype)
        flat = flat[: self.root.numel] if self.rest else flat
        inverse = [0] * len(self.order)
        for position, d in enumerate(self.order):
            inverse[d] = position
        return jnp.transpose(flat.reshape(self.memory_shape), inverse)

    # --- the view as a slice

    def _blocks(self, flat):
        total = math.prod(self.extents)
        if total != self.elements:
            flat = jnp.pad(flat, (0, total - self.elements))
        return flat.reshape(self.extents)

    def _arrange(self, block):
        """A slice's axes in the order of the view's dimensions, broadcast to its shape."""
        view = self.view
        kept = [view.shape[d] for d in self.dims]
        by_dim = sorted(range(len(self.dims)), key=lambda i: self.dims[i])
        out = jnp.transpose(block.reshape(kept), by_dim)
        dense = [n if n > 1 and s > 0 else 1 for n, s in zip(view.shape, view.stride)]
        return jnp.broadcast_to(out.reshape(dense), view.shape)

    def _unarrange(self, value):
        for d, (n, s) in enumerate(zip(self.view.shape, self.view.stride)):
            if n > 1 and s == 0:  # the same place many times: the first value counts
                value = jax.lax.slice_in_dim(value, 0, 1, axis=d)
        kept_by_dim = [self.view.shape[d] for d in sorted(self.dims)]
        rank = {d: i for i, d in enumerate(sorted(self.dims))}
        out = jnp.transpose(value.reshape(kept_by_dim), [rank[d] for d in self.dims])
        return out.reshape(self.sizes)

    def _sliced(self, fixed):
        """The access by slices; ``fixed`` are the starts, or None where they are operands."""
        whole = fixed is not None and self.sizes == self.extents

        def read(array, *starts):
            blocks = self._blocks(self._flat(array))
            if not whole:
                if fixed is None:
                    blocks = jax.lax.dynamic_slice(blocks, starts, self.sizes)
                else:
                    blocks = jax.lax.slice(blocks, fixed, np.add(fixed, self.sizes).tolist())
            return self._arrange(blocks)

        def write(array, value, *starts):
            block = self._unarrange(value)
            if not whole:
                flat = self._flat(array)
                at = starts if fixed is None else [np.int64(s) for s in fixed]
                block = jax.lax.dynamic_update_slice(self._blocks(flat), block, at)
            return self._unflat(block.reshape(-1)[: self.elements])

        return Access(read, write, 0 if fixed is not None else len(self.steps))

    # --- the view as positions

    def _positions(self, offset):
        shape = self.view.shape
        positions = jnp.asarray(offset, np.int64)
        for d, step in enumerate(self.view.stride):
            axis = [1] * len(shape)
            axis[d] = shape[d]
            positions = positions + (jnp.arange(shape[d], dtype=np.int64) * step).reshape(axis)
        return jnp.broadcast_to(positions, shape)

    def _gathered(self):
        def read(array, offset):
            return jnp.take(self._flat(array), self._positions(offset), mode="clip")

        def write(array, value, offset):
            flat = self._flat(array)
            return self._unflat(flat.at[self._positions(offset)].set(value, mode="drop"))

        return Access(read, write, 1)

    def _empty(self):
        def read(array):
            return jnp.zeros(self.view.shape, self.view.dtype.numpy)

        return Access(read, lambda array, value: array, 0)

    def at(self, offset):
        """The access for an offset, and its operands."""
        if self.view.numel == 0:
            return self._cached("empty", self._empty), ()
        starts = self.starts(offset)
        if starts is None:
            return self._cached("gathered", self._gathered), (offset,)
        if not any(starts):
            return self._cached("fixed", lambda: self._sliced(starts)), ()
        return self._cached("sliced", lambda: self._sliced(None)), tuple(starts)

    def _cached(self, kind, make):
        access = self.accesses.get(kind)
        if access is None:
            access = self.accesses[kind] = make()
            access.layout, access.kind = self, kind
            if self.view.bits:
                _apply_bits(access, self.view.bits)
        return access


def _apply_bits(access, bits):
    """Makes an access conjugate and negate the elements on their way."""
    read, write = access.read, access.write

    def turned(x):
        if bits & CONJ:
            x = jax.lax.conj(x)
        return -x if bits & NEG else x

    access.read = lambda array, *starts: turned(read(array, *starts))
    access.write = lambda array, value, *starts: write(array, turned(value), *starts)


def access(root: Geometry, view: Geometry, offset: int) -> tuple[Access, tuple[int, ...]]:
    """How to read and write a view: its `Access`, and the integer operands for this offset."""
    layout = view._reads.get(root)
    if layout is None:
        if len(view._reads) > 64:
            view._reads.clear()
        layout = view._reads[root] = Layout(root, view)
    return layout.at(offset)
