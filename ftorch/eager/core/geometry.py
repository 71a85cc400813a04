"""Sizes and strides: what a tensor's elements look like in its storage.

A `Geometry` is everything about a tensor but its storage and offset. Geometries are interned, so
that equal ones are (nearly always) the same object and a call's plan is found by identity.
"""

from __future__ import annotations

import collections
import math
import sys

from . import device as _device
from .dtype import complex32
from .dtype import dtype as Dtype
from .refcount import LOCAL
from .user_warnings import warn_once

INTERNED: dict = {}
_INTERN_LIMIT = 1 << 16
_SWEPT = 1 << 13  # from so many on those are let go that nobody holds, when their number has doubled, or nearly so
SWEEP_AT = [_SWEPT]

# What reading through a geometry does to the elements, besides finding them.
CONJ, NEG = 1, 2


class Size(tuple):
    """The shape of a tensor: a tuple that prints and slices as ``torch.Size``.

    >>> import ftorch as torch
    >>> torch.Size([2, 3])[:1]
    torch.Size([2])
    """

    __module__ = "ftorch"

    __slots__ = ()

    def __new__(cls, iterable=()):
        values = tuple(iterable)
        for v in values:
            if not isinstance(v, int):
                if getattr(type(v), "is_extent", False):  # of a dimension whose sizes differ
                    continue
                if hasattr(v, "__index__"):
                    return tuple.__new__(cls, [w.__index__() for w in values])
                raise TypeError(
                    f"torch.Size() takes an iterable of 'int' (item {values.index(v)} is "
                    f"'{type(v).__name__}')"
                )
        return tuple.__new__(cls, values)

    def __repr__(self):
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, index):
        value = tuple.__getitem__(self, index)
        return tuple.__new__(Size, value) if type(index) is slice else value

    def __add__(self, other):
        if not isinstance(other, tuple):
            reflected = getattr(type(other), "__radd__", None)  # an array's, a Proxy's
            result = NotImplemented if reflected is None else reflected(other, self)
            if result is NotImplemented:
                raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
            return result
        return tuple.__new__(Size, tuple.__add__(self, other))

    def __radd__(self, other):
        if not isinstance(other, tuple):
            return NotImplemented
        return tuple.__new__(Size, tuple.__add__(other, self))

    def __mul__(self, count):
        return tuple.__new__(Size, tuple.__mul__(self, count))

    __rmul__ = __mul__

    def numel(self):
        """The number of elements of a tensor of this size."""
        return math.prod(self)

    def __reduce__(self):
        return Size, (tuple(self),)


def contiguous_stride(shape) -> tuple[int, ...]:
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def channels_last_stride(shape) -> tuple[int, ...]:
    """The strides of ``memory_format=channels_last`` (4-d) or ``channels_last_3d`` (5-d)."""
    strides, step = [1] * len(shape), shape[1]
    for dim in (*range(len(shape) - 1, 1, -1), 0):
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def permuted_stride(shape, order) -> tuple[int, ...]:
    """Dense strides whose memory order, outermost first, is ``order``."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


class Geometry:
    """Shape, strides, dtype and device of a tensor.

    Attributes:
        shape: a `Size`.
        stride: elements to step over, per dimension.
        is_contiguous: in PyTorch's sense (dimensions of size 1 do not matter, nothing does without elements).
        is_dense: whether the elements fill a range of memory without gaps or overlaps, so that a
            storage can hold them as its root.
        expanse: the number of storage elements from the first to behind the last.
        bits: ``CONJ`` and ``NEG``: the elements are conjugated, negated where they are read and
            written (the views of ``conj()`` and of the imaginary part of such a view).
    """

    __slots__ = (
        "shape", "stride", "dtype", "device", "bits", "numel", "ndim", "is_contiguous", "is_dense",
        "expanse", "is_zero_dim", "_reads", "_views",
    )

    def __init__(self, shape, stride, dtype, device, bits=0, contiguous=False):
        if dtype is complex32:  # said with the first tensor of it
            warn_once(
                "ComplexHalf support is experimental and many operators don't support it yet."
            )
        self.shape = shape
        self.stride = stride
        self.dtype = dtype
        self.device = device
        self.bits = bits
        self.numel = math.prod(shape)
        self.ndim = len(shape)
        self.is_zero_dim = not shape
        self._reads = {}
        self._views = {}
        if contiguous:  # it is known to be
            self.is_contiguous, self.is_dense, self.expanse = True, not bits, self.numel
            return
        self.is_contiguous = not self.numel or _is_dense_in(shape, stride, range(self.ndim))
        self.is_dense = not bits and (
            self.is_contiguous or _is_dense_in(shape, stride, memory_order(stride, shape))
        )
        self.expanse = (
            1 + sum((n - 1) * s for n, s in zip(shape, stride)) if self.numel else 0
        )

    def __repr__(self):
        return f"Geometry({tuple(self.shape)}, {self.stride}, {self.dtype}, {self.device})"

    def has_new_stride(self) -> bool:
        """Whether the strides are those of a new tensor, also where they say nothing: in dimensions of size 1."""
        return self.is_contiguous and (
            not (1 in self.shape or 0 in self.shape) or self.stride == contiguous_stride(self.shape)
        )

    def like(self, shape=None, stride=None, dtype=None):
        """The geometry with some of its parts replaced; contiguous if only the shape is."""
        if shape is None:
            shape, stride = self.shape, self.stride if stride is None else stride
        return geometry(shape, dtype or self.dtype, self.device, stride)


def _is_dense_in(shape, stride, order):
    step = 1
    for dim in reversed(order):
        if shape[dim] != 1:
            if stride[dim] != step:
                return False
            step *= shape[dim]
    return True


def memory_order(stride, shape) -> tuple[int, ...]:
    """The dimensions, outermost in memory first; ties keep their order."""
    return tuple(sorted(range(len(shape)), key=lambda d: (-stride[d], shape[d] == 1 and -1, d)))


def geometry(shape, dtype: Dtype, device: _device.device, stride=None) -> Geometry:
    """The interned geometry; contiguous unless strides are given."""
    key = (shape, stride, dtype, device)
    found = INTERNED.get(key)
    if found is None:
        if not all([type(n) is int for n in shape]):  # numbers of a graph: what is interned outlives it
            shape = Size([int(n) for n in shape])
        elif type(shape) is not Size:
            shape = Size(shape)
        if stride is not None:
            stride = tuple([int(n) for n in stride])
        if stride is None:
            # Both spellings of a contiguous geometry must be one object.
            full = (shape, contiguous_stride(shape), dtype, device)
            found = INTERNED.get(full)
            if found is None:
                found = INTERNED[full] = Geometry(*full, contiguous=True)
        else:
            found = Geometry(shape, stride, dtype, device)
        if len(INTERNED) >= SWEEP_AT[0]:
            _sweep()
        INTERNED[(shape, stride, dtype, device)] = found
    return found


def _sweep():
    """Lets geometries go that nobody but the table holds: of sizes that came once."""
    entries = collections.Counter(map(id, list(INTERNED.values())))  # other threads may add some
    for key in list(INTERNED):
        found = INTERNED.get(key)
        if found is not None and sys.getrefcount(found) == LOCAL + entries[id(found)]:
            entries[id(found)] -= 1
            INTERNED.pop(key, None)
    if len(INTERNED) >= _INTERN_LIMIT:
        INTERNED.clear()  # equality is only faster by identity, never decided by it
    SWEEP_AT[0] = max(_SWEPT, len(INTERNED) + min(len(INTERNED), _INTERN_LIMIT // 4))


def with_bits(g: Geometry, bits: int) -> Geometry:
    """The geometry of the same memory, read with other bits."""
    if g.bits == bits:
        return g
    if not bits:
        return geometry(g.shape, g.dtype, g.device, g.stride)
    key = (g.shape, g.stride, g.dtype, g.device, bits)
    found = INTERNED.get(key)
    if found is None:
        found = INTERNED[key] = Geometry(g.shape, g.stride, g.dtype, g.device, bits)
    return found


_MOST_PARTS = 4096  # of a geometry that are remembered


def part_of(g: Geometry, key, shape, stride) -> Geometry:
    """The geometry of a view of the same elements, which ``g`` remembers by a key."""
    if len(g._views) > _MOST_PARTS:
        g._views.clear()
    found = g._views[key] = with_bits(geometry(Size(shape), g.dtype, g.device, stride), g.bits)
    return found


def _is_in_order(g, shape):
    """Whether the order of a tensor's dimensions is certainly that of their steps; two of them in turn may have the same."""
    steps = g.stride
    if g.shape != shape or not steps or not steps[-1]:
        return False
    last = 0
    for d in range(len(steps) - 1, 0, -1):
        inner, outer = steps[d], steps[d - 1]
        if inner > outer or (inner == outer and (shape[d] > shape[d - 1] or inner == last)):
            return False
        last = inner
    return True


def pointwise_stride(shape, geometries, numbers=False):
    """The strides of an elementwise result: dense, in the inputs' memory order.

    Args:
        numbers: whether there are numbers among the operands, which count as tensors of no dimension.
    """
    if not numbers and all(g.shape == shape for g in geometries):
        if all(g.is_contiguous for g in geometries):
            return None
        if len(shape) in (4, 5) and all(g.stride == channels_last_stride(shape) for g in geometries):
            return geometries[0].stride
        if geometries[0].is_dense and all(g.stride == geometries[0].stride for g in geometries):
            return geometries[0].stride
    ndim = len(shape)
    if len(geometries) == 1 and not numbers and _is_in_order(geometries[0], shape):
        return contiguous_stride(shape)
    strides = []
    for g in geometries:
        gap = ndim - g.ndim
        strides.append([
            0 if d < gap or (g.shape[d - gap] == 1 and shape[d] != 1) else g.stride[d - gap]
            for d in range(ndim)
        ])

    def compare(a, b):  # a, b: dimensions; negative if a is inner to b
        for s in strides:
            if s[a] == 0 or s[b] == 0:
                continue
            if s[a] != s[b]:
                return -1 if s[a] < s[b] else 1
            if shape[a] > shape[b]:
                return 1
        return 0

    # Insertion sort as TensorIterator does it, since ambiguous pairs make the order partial.
    order = list(reversed(range(ndim)))  # innermost first
    for i in range(1, ndim):
        at = i
        for j in range(i - 1, -1, -1):
            verdict = compare(order[j], order[at])
            if verdict > 0:
                order[j], order[at] = order[at], order[j]
                at = j
            elif verdict < 0:
                break
    return permuted_stride(shape, tuple(reversed(order)))


def has_internal_overlap(g: Geometry) -> bool:
    """Whether several elements certainly lie at one memory location (an expanded tensor)."""
    return g.numel > 0 and any(n > 1 and s == 0 for n, s in zip(g.shape, g.stride))


def is_channels_last(g: Geometry) -> bool:
    """Whether the strides of an image (N, C, H, W or N, C, D, H, W) say that channels lie together."""
    shape, stride = g.shape, g.stride
    if g.ndim not in (4, 5) or not stride[1]:
        return False
    least = 0
    for d in (1, *range(g.ndim - 1, 1, -1), 0):
        if not shape[d] or stride[d] < least or (d == 0 and least == stride[1]):
            return False
        least = stride[d] * max(shape[d], 1)
    return True


def may_overlap(g: Geometry) -> bool:
    """Whether several elements may lie at one memory location, judged by sizes and strides."""
    reach = 0
    for stride, size in sorted((s, n) for n, s in zip(g.shape, g.stride) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def infer_size(shape, numel) -> tuple[int, ...]:
    """Replaces a -1 in the argument of ``view``/``reshape``.

    Raises:
        RuntimeError: in PyTorch's words if the sizes do not fit.
    """
    unknown, known = None, 1
    for i, n in enumerate(shape):
        if n == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {i} of shape {list(shape)}")
        else:
            known *= n
    if unknown is None:
        if known != numel:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
        return tuple(shape)
    if known == 0 and numel == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified "
            f"dimension size -1 can be any value and is ambiguous"
        )
    if known == 0 or numel % known:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if n == -1 else n for n in shape)


def view_stride(old_shape, old_stride, new_shape) -> tuple[int, ...] | None:
    """The strides of ``view(new_shape)``, or None where a view would need a copy.

    Dimensions that are contiguous with each other form a chunk; the new dimensions must divide the
    chunks without crossing their borders.
    """
    numel = math.prod(old_shape)
    if numel == 0:
        same = tuple(old_shape) == tuple(new_shape)
        return tuple(old_stride) if same else contiguous_stride(new_shape)
    if not old_shape:
        return (1,) * len(new_shape)
    result, dim = [0] * len(new_shape), len(new_shape) - 1
    base, in_chunk, taken = old_stride[-1], 1, 1
    for old in reversed(range(len(old_shape))):
        in_chunk *= old_shape[old]
        goes_on = old > 0 and (old_shape[old - 1] == 1 or old_stride[old - 1] == in_chunk * base)
        if goes_on:
            continue
        while dim >= 0 and (taken < in_chunk or new_shape[dim] == 1):
            result[dim] = taken * base
            taken *= new_shape[dim]
            dim -= 1
        if taken != in_chunk:
            return None
        if old > 0:
            base, in_chunk, taken = old_stride[old - 1], 1, 1
    return tuple(result) if dim < 0 else None
