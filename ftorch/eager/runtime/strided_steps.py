"""Strided access on NumPy arrays: the host tier's form of `ftorch.eager.memory.view.Access`.

A read is a view of the root's memory. A write copies the root and changes its part (arrays never change).
"""

from __future__ import annotations

import numpy as np

from ..._arrays import strided_view

CONJ, NEG = 1, 2


def IDENTITY(arrays, numbers):
    """The step that gives its operand."""
    return (arrays[0],)


def offset_of(way):
    """A function from an access's integer operands to the offset in elements."""
    if way.kind == "sliced":  # NumPy's integers multiply slowly
        steps = way.layout.steps
        if len(steps) == 1:
            (step,) = steps
            return lambda starts: int(starts[0]) * step
        if len(steps) == 2:
            step, last = steps
            return lambda starts: int(starts[0]) * step + int(starts[1]) * last
        return lambda starts: sum([int(s) * step for s, step in zip(starts, steps)])
    if way.kind == "gathered":
        return lambda starts: starts[0]
    return lambda starts: 0


def elements(flat, dtype):
    """A flat array's memory as elements of a dtype, without the bytes at its end that are too few for one."""
    if flat.dtype == dtype:
        return flat
    rest = flat.nbytes % dtype.itemsize
    return (flat[: flat.size - rest // flat.itemsize] if rest else flat).view(dtype)


def memory_of(array, layout):
    """The root's memory as a flat array in the view's dtype: the array's own where it lies so."""
    if layout.root.is_contiguous:
        flat = array.reshape(-1)
    else:
        flat = array.transpose(layout.order).reshape(-1)
    if flat.strides and flat.strides[0] != flat.itemsize and flat.size > 1:
        flat = flat.copy()
    return elements(flat, layout.view.dtype.numpy)


def window(flat, g, offset, writeable=False):
    """The elements of a geometry in a flat array."""
    item = flat.itemsize
    strides = [s * item for s in g.stride]
    try:
        found = np.ndarray(tuple(g.shape), flat.dtype, flat, offset * item, strides)
    except (ValueError, TypeError):  # neither contiguous nor a buffer
        return strided_view(flat[offset:], g.shape, strides, writeable=writeable)
    if not writeable:
        found.flags.writeable = False
    return found


def _turned(x, bits):
    if bits & CONJ:
        x = np.conj(x)
    return -x if bits & NEG else x


def _is_plain(way):
    """Whether the elements that a way leads to are a contiguous root's own, of a dtype that NumPy has."""
    root, view = way.layout.root, way.layout.view
    return root.is_contiguous and root.dtype is view.dtype and not view.bits and view.dtype.numpy.kind in "biufc"


def reading(way):
    """The step that reads a view, or None where NumPy has not its dtype."""
    layout = way.layout
    root, view = layout.root, layout.view
    if root.dtype.stored or view.dtype.stored:
        return None
    if not view.numel:
        dtype = view.dtype.numpy
        return lambda arrays, numbers: (np.empty(view.shape, dtype),)
    at, bits = offset_of(way), view.bits
    shape, dtype, item = tuple(view.shape), view.dtype.numpy, view.dtype.itemsize
    strides = tuple(s * item for s in view.stride)
    plain = _is_plain(way)

    def read(arrays, numbers):
        array = arrays[0]
        start = at(numbers)
        if plain and array.flags.c_contiguous:
            return (np.ndarray(shape, dtype, array, start * item, strides),)
        found = window(memory_of(array, layout), view, start)
        return (_turned(found, bits) if bits else found,)

    return read


def writing(way):
    """The step that writes a view, or None where NumPy has not its dtype."""
    layout = way.layout
    root, view = layout.root, layout.view
    if root.dtype.stored or view.dtype.stored:
        return None
    if not view.numel:
        return IDENTITY
    at, bits = offset_of(way), view.bits
    inverse = np.argsort(layout.order)
    memory_shape = layout.memory_shape
    shape, dtype, item = tuple(view.shape), view.dtype.numpy, view.dtype.itemsize
    strides = tuple(s * item for s in view.stride)
    plain = _is_plain(way)

    def write(arrays, numbers):
        array, value = arrays
        if plain and array.flags.c_contiguous:
            memory = np.array(array)  # which a scalar, of a step before, is no array without
            np.ndarray(shape, dtype, memory, at(numbers) * item, strides)[...] = value
            return (memory,)
        memory = np.array(array.transpose(layout.order), order="C")
        flat = elements(memory.reshape(-1), view.dtype.numpy)
        window(flat, view, at(numbers), writeable=True)[...] = _turned(value, bits) if bits else value
        return (memory.reshape(memory_shape).transpose(inverse),)

    return write


def adjoint(way, shape, dtype):
    """The step that takes the gradient of a view to that of its base (of a shape), zeros elsewhere."""
    layout = way.layout
    view = layout.view
    if view.dtype.stored or not _has_same_numbers(layout.root.dtype, view.dtype):
        return None
    at, bits = offset_of(way), view.bits
    overlapping = not _is_injective(view)
    numpy = dtype.numpy
    inverse = np.argsort(layout.order)

    def run(arrays, numbers):
        grad = arrays[0]
        memory = np.zeros(layout.memory_shape, numpy)
        if view.numel:
            if bits & CONJ:
                grad = np.conj(grad)
            if bits & NEG:
                grad = -grad
            flat = elements(memory.reshape(-1), view.dtype.numpy)
            target = window(flat, view, at(numbers), writeable=True)
            if overlapping:
                places = window(np.arange(flat.size), view, at(numbers))
                np.add.at(flat, places.reshape(-1), grad.reshape(-1))
            else:
                target[...] = grad
        return (memory.transpose(inverse),)

    return run


def _has_same_numbers(one, other):
    """Whether the memory of a dtype is that of another: the same, or the parts of complex numbers."""
    if one is other:
        return True
    real, whole = sorted((one, other), key=lambda d: d.is_complex)
    return whole.is_complex and real.category == 2 and not whole.stored and whole.itemsize == 2 * real.itemsize


def _is_injective(g):
    """Whether no two elements of a geometry certainly lie at one place."""
    dims = sorted((s, n) for n, s in zip(g.shape, g.stride) if n > 1)
    reach = 0
    for step, n in dims:
        if step <= reach:
            return False
        reach += step * (n - 1)
    return True
