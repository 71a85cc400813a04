"""Checks of values before an op runs: indices out of range, singular matrices."""

from __future__ import annotations

import inspect

import numpy as np

from . import device as _device
from .dtype import dtype as Dtype
from .executor import IMMEDIATE
from .registry import Shape

_NUMBERS = (bool, int, float, complex)


def static_value(value):
    """A static argument as kernels get it: dtypes as NumPy's."""
    return value.numpy if isinstance(value, Dtype) else value


def bind_checks(definition, slots):
    if not definition.checks:
        return ()
    position = {name: i for i, name in enumerate(definition.argument_names)}
    bound = []
    for names, function, waits in definition.checks:
        annotations = getattr(function, "__annotations__", {})
        wanted = [slots[position[name]] for name in names]
        for i, name in enumerate(names):
            if annotations.get(name) in (Shape, "Shape") and wanted[i][0] == "t":
                wanted[i] = ("shape", wanted[i][1])
        bound.append((tuple(wanted), function, _waits(waits, slots, position)))
    return tuple(bound)


def _waits(rule, slots, position):
    """Whether a check waits for pending values, given the static arguments."""
    if not callable(rule):
        return rule
    names = inspect.signature(rule).parameters
    return rule(**{name: static_value(slots[position[name]][1]) for name in names})


def check_values(plan, operands, tensors):
    """Runs an op's value checks on tensors of the CPU whose values are at hand.

    What is still pending is not waited for (the kernel then clamps, as JAX does), unless the check
    says so.
    """
    scalars = [o for o in operands if type(o) in _NUMBERS]
    for slots, function, waits in plan.checks:
        values = []
        for slot in slots:
            tag = slot[0]
            if tag == "t":
                array = peek(tensors[slot[1]], waits)
                if array is None:
                    break
                values.append(array)
            elif tag == "shape":
                values.append(tensors[slot[1]]._geometry)
            elif tag == "v":
                values.append(static_value(slot[1]))
            elif tag == "s":
                values.append(scalars[slot[1]])
            elif tag == "l":
                arrays = [None if j is None else peek(tensors[j], waits) for j in slot[1]]
                if any(a is None and j is not None for a, j in zip(arrays, slot[1])):
                    break
                values.append(arrays)
            else:
                values.append(None)
        else:
            function(*values)


def peek(t, waits=False):
    """A tensor's value as NumPy if it is at hand: on the CPU and not pending in a trace.

    With ``waits``, what is pending is run first.
    """
    storage, g = t._storage, t._geometry
    if waits and storage.trace is not None and storage.trace is not IMMEDIATE:
        storage.trace.flush()
    if storage.trace is not None or g.device is not _device.CPU:
        return None
    if storage.host is not None:
        memory = storage.host
    elif storage.array is not None and g is storage.root:
        return np.asarray(storage.array)
    elif storage.array is not None and storage.root.is_contiguous:
        memory = np.asarray(storage.array).reshape(-1)
    else:
        return None
    if g.dtype is not storage.root.dtype:
        return None
    return np.lib.stride_tricks.as_strided(
        memory[t._offset :], g.shape, [s * memory.itemsize for s in g.stride]
    ) if g.numel else np.empty(g.shape, g.dtype.numpy)  # fmt: skip
