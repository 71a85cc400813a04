"""Strided inputs: arguments that are parts of larger tensors are inputs of their own, wherever they lie.

A captured call reads such an argument out of its storage, and writes it there, by steps that name its place. Here these
steps become ones of a dense copy of the argument, which each run makes, and writes back if the program wrote to it. Where
that cannot be said (the function asks where an argument lies, or reaches the rest of its storage), the program is one for
arguments at the places of the captured call.
"""

from __future__ import annotations

import functools

from ...eager.autograd import tape
from ...eager.call.op import dense_like, read
from ...eager.core import device as _device
from ...eager.core.geometry import Geometry, Size, geometry, has_internal_overlap, with_bits
from ...eager.memory.view import access
from ...eager.runtime import strided_steps
from ...eager.runtime.plan import reading, writing
from ...eager.tensor import Tensor, TensorBase, wrap


class Placed(Exception):
    """The program is one for arguments at the places where they lay."""


def is_movable(t) -> bool:
    """Whether an argument is a part of a storage that a program may take as an input of its own."""
    return (
        type(t) is Tensor and t._ftorch_geometry is not t._ftorch_storage.root
        and t._ftorch_geometry.device is _device.CPU
    )


def with_copies(leaves):
    """Arguments with dense copies in place of parts of larger tensors, for one run of a program."""
    found = leaves
    for i, t in enumerate(leaves):
        if issubclass(type(t), TensorBase) and t._ftorch_geometry is not t._ftorch_storage.root and is_movable(t):
            if found is leaves:
                found = list(leaves)
            found[i] = _copy(t)
    return found


def _copy(t):
    new = wrap(read(t))
    new._grad = t._grad
    if t._ftorch_requires_grad:  # gradients of the copy are those of the argument
        new._ftorch_requires_grad, (new._grad_fn, new._ftorch_output_nr) = True, tape.edge_of(t)
    return new


def contains(argument, t) -> bool:
    """Whether all elements of a tensor of the same storage are an argument's."""
    g, h = argument._ftorch_geometry, t._ftorch_geometry
    if h.dtype is not g.dtype:
        h = geometry(Size(h.shape), g.dtype, h.device, h.stride)
    return within(g, dense_like(g), h, t._ftorch_offset - argument._ftorch_offset) is not None


class Part:
    """An argument as an input: its number among the arguments, what it is a part of, how it is read there, and the
    geometry of its dense copy."""

    __slots__ = ("number", "storage", "argument", "root", "operand", "whole")

    def __init__(self, number, t, operand, whole):
        self.number, self.argument, self.storage = number, t, t._ftorch_storage
        self.root, self.operand, self.whole = dense_like(t._ftorch_geometry), operand, whole

    def array(self, inputs):
        """The dense copy, given the arrays of a trace's inputs."""
        t = self.argument
        way, starts = access(self.storage.root, t._ftorch_geometry, t._ftorch_offset)
        return reading(way, self.root).run([inputs[-1 - self.whole]], starts)[0]

    def place(self, view, offset):
        """(geometry, offset) of a view of the argument in the dense copy, or None."""
        t = self.argument
        return within(t._ftorch_geometry, self.root, view, offset - t._ftorch_offset)


def parts_of(trace, table, leaves, sources) -> dict[int, Part]:
    """Lets a table of steps take arguments that are parts as inputs of their own: {operand: `Part`}.

    Raises:
        Placed: they are to be where they lay; the table is as before.
    """
    regions: dict[int, list] = {}
    for number, t in enumerate(leaves):
        if is_movable(t):
            same = regions.setdefault(id(t._ftorch_storage), [])
            if all(r._ftorch_offset != t._ftorch_offset or r._ftorch_geometry != t._ftorch_geometry for _, r in same):
                same.append((number, t))
    whole = {i: cell for i, cell in enumerate(trace.cells) if id(cell) in regions}
    if not whole:
        return {}
    if trace.asks_place:
        raise Placed
    movable = {id(t) for t in leaves if is_movable(t)}
    if any(id(storage) in regions and id(t) not in movable for t, storage in sources.held) or any(
        id(t._ftorch_storage) in regions for *_, t in sources.shared
    ):
        raise Placed
    return _Rewriting(table, regions, whole).parts


class _Rewriting:
    """The steps of a table that read and write storages, as steps of parts of these."""

    def __init__(self, table, regions, whole):
        self.steps, self.ints, self.roots = list(table.steps), list(table.ints), list(table.roots)
        self.parts: dict[int, Part] = {}
        self._of: dict[int, list[Part]] = {}  # {a version of a storage: the parts of it, as they are then}
        self._now: dict[tuple, int] = {}  # {(version, number of an argument): its operand}
        for i, cell in whole.items():
            self._of[-1 - i] = [self._part(number, t, -1 - i) for number, t in regions[id(cell)]]
        for n, step in enumerate(self.steps):
            if any(o in self._of for o in step.operands):
                self.steps[n] = self._rewritten(step)
        table.steps, table.ints, table.roots = self.steps, self.ints, self.roots

    def _part(self, number, t, whole):
        self.roots.append(dense_like(t._ftorch_geometry))
        operand = -len(self.roots)
        part = self.parts[operand] = Part(number, t, operand, whole)
        self._now[whole, number] = operand
        return part

    def _rewritten(self, step):
        way, is_write = step.plan.access or (None, False)
        version, *value = step.operands
        if way is None or version not in self._of or any(o in self._of for o in value):
            raise Placed
        starts = self.ints[step.int_at : step.int_at + way.count]
        view, offset = way.layout.view, strided_steps.offset_of(way)(starts)
        found = [(part, at) for part in self._of[version] if (at := part.place(view, offset)) is not None]
        if len(found) != 1:  # it reaches further, or lies in several
            raise Placed
        part, (g, at) = found[0]
        way, starts = access(part.root, g, at)
        operand = self._now[version, part.number]
        int_at = len(self.ints)
        self.ints += starts
        if not is_write:
            return step._replace(plan=reading(way, step.plan.geometry), operands=(operand,), int_at=int_at)
        if len(self._of[version]) > 1 or has_internal_overlap(part.argument._ftorch_geometry):
            raise Placed  # several may overlap in another call; the copy has the elements of one that overlaps apart
        self._of[step.slot], self._now[step.slot, part.number] = [part], step.slot
        return step._replace(plan=writing(way, part.root), operands=(operand, *value), int_at=int_at)


@functools.lru_cache(1 << 12)
def within(argument: Geometry, dense: Geometry, view: Geometry, offset: int):
    """Where the elements of a view of an argument lie in a dense copy of the argument.

    Args:
        offset: of the view, from the argument's first element.

    Returns:
        (geometry, offset) of the same elements in the copy; None if it is not known that all of them are the argument's.
    """
    if view.dtype is not argument.dtype or offset < 0:
        return None
    if not view.numel:
        return _like(view, (0,) * view.ndim, argument.bits), 0
    axes = _axes(argument, dense) if argument.numel else None
    if axes is None:
        return None
    first = _coordinates(axes, offset)
    steps = [_coordinates(axes, s) if n > 1 else (0,) * len(axes) for n, s in zip(view.shape, view.stride)]
    if first is None or None in steps:
        return None
    for d, (_, size, _) in enumerate(axes):
        if first[d] + sum(step[d] * (n - 1) for n, step in zip(view.shape, steps)) >= size:
            return None
    def place(coordinates):
        return sum(c * axis[2] for c, axis in zip(coordinates, axes))

    return _like(view, tuple(map(place, steps)), argument.bits), place(first)


def _like(view, stride, bits):
    return with_bits(geometry(Size(view.shape), view.dtype, view.device, stride), view.bits ^ bits)


def _axes(argument, dense):
    """[(stride, size, stride in the copy)] of an argument's dimensions, the greatest stride first, those that are one in memory
    merged; None where elements overlap."""
    axes: list[tuple[int, int, int]] = []
    extent = 0
    for stride, size, step in sorted(
        (s, n, t) for s, n, t in zip(argument.stride, argument.shape, dense.stride) if n > 1 and s > 0
    ):
        if stride <= extent:
            return None
        extent += stride * (size - 1)
        if axes and stride == axes[-1][0] * axes[-1][1] and step == axes[-1][2] * axes[-1][1]:
            axes[-1] = axes[-1][0], axes[-1][1] * size, axes[-1][2]
        else:
            axes.append((stride, size, step))
    return axes[::-1]


def _coordinates(axes, position):
    """How far a position is along each axis, or None if it is none of the argument's."""
    found = []
    for stride, size, _ in axes:
        steps, position = divmod(position, stride)
        if steps >= size:
            return None
        found.append(steps)
    return None if position else tuple(found)
