"""Argument binding: where each tensor and number of a call goes in its kernel, and what is cast before."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..core import device as _device
from ..core.registry import SCALAR, STATIC, static_value
from ..kernels._common import converted
from ..runtime import size_classes
from ..runtime.executor import COMPLEX, FLOAT, INT, weak
from ..tensor import TensorBase
from .operands import check_number

KINDS = {bool: INT, int: INT, float: FLOAT, complex: COMPLEX}


class Structure:
    """Where each flat tensor and scalar operand of a call goes in the kernel's arguments."""

    __slots__ = ("slots", "static", "kinds", "tensor_names")

    def __init__(self, slots, static, kinds, tensor_names):
        self.slots = slots  # per argument: ("t", i) ("s", i) ("l", [i or None]) ("n",) ("v", value)
        self.static = static
        self.kinds = kinds
        self.tensor_names = tensor_names


def laid_out(definition, operands, static):
    """Spreads operands and static values over the schema's arguments."""
    operands, static = iter(operands), iter(static)
    slots, tensors, scalars, names = [], [], [], []
    for i, kind in enumerate(definition.kinds):
        name = definition.argument_names[i]
        if kind == STATIC:
            slots.append(("v", next(static)))
            continue
        o = next(operands)
        if o is None:
            default = definition.schema.arguments[i].default if kind == SCALAR else None
            slots.append(("n",) if default is None else ("v", default))
        elif isinstance(o, (list, tuple)):
            indices = []
            for t in o:
                if t is None:
                    indices.append(None)
                else:
                    indices.append(len(tensors))
                    tensors.append(t)
                    names.append(name)
            slots.append(("l", tuple(indices)))
        elif isinstance(o, TensorBase):
            if kind == SCALAR:
                check_number(o, definition.name, definition.schema.arguments[i])
            slots.append(("t", len(tensors)))
            tensors.append(o)
            names.append(name)
        else:
            slots.append(("s", len(scalars)))
            scalars.append(o)
    return slots, tensors, scalars, names


def regime_of(definition, slots, shaped):
    """What `OpDef.by_regime` says of a call; None where nothing is declared.

    Args:
        shaped: the tensors, or what else has their shapes.
    """
    if definition.regime is None:
        return None
    names, function = definition.regime
    given = []
    for name in names:
        slot = slots[definition.argument_names.index(name)]
        given.append(shaped[slot[1]] if slot[0] == "t" else static_value(slot[1]) if slot[0] == "v" else None)
    return function(*given)


def trace_kernel(definition, slots, casts, numbers, structs, types):
    """(closed jaxpr of a call's kernel on the CPU, whether there is one result)."""
    fn = KernelFunction(definition, slots, casts, numbers, len(structs), _device.CPU)
    return size_classes.traced(fn, structs, "".join(KINDS[t] for t in types), weak, SCALAR_STRUCTS)


class KernelFunction:
    """The kernel as a function of flat operands, cast as promotion says."""

    __slots__ = ("kernel", "slots", "casts", "numbers", "keywords", "count")
    __name__ = "kernel"

    def __init__(self, definition, slots, casts, numbers, tensor_count, device):
        kernel = definition.kernel
        if definition.backend_kernels and device is not None and not _device.is_several(device):
            kernel = definition.backend_kernels.get(device.type, kernel)
        self.kernel, self.slots, self.casts, self.numbers = kernel, slots, casts, numbers
        self.keywords, self.count = definition.keywords, tensor_count

    def arguments(self, arrays, scalars):
        """The kernel's arguments."""
        casts, numbers = self.casts, self.numbers
        cast = [
            converted(a, casts[i].numpy) if i in casts and a.dtype != casts[i].numpy else a
            for i, a in enumerate(arrays)
        ]
        out = []
        for slot in self.slots:
            tag = slot[0]
            if tag == "t":
                out.append(cast[slot[1]])
            elif tag == "v":
                out.append(static_value(slot[1]))
            elif tag == "n":
                out.append(None)
            elif tag == "l":
                out.append([None if j is None else cast[j] for j in slot[1]])
            else:
                number = scalars[slot[1]]
                to = numbers.get(slot[1])
                out.append(number if to is None else jnp.asarray(number).astype(to.numpy))
        return out

    def __call__(self, *operands):
        given, keywords = self.arguments(operands[: self.count], operands[self.count :]), self.keywords
        if keywords:
            positional = len(given) - len(keywords)
            result = self.kernel(*given[:positional], **dict(zip(keywords, given[positional:])))
        else:
            result = self.kernel(*given)
        return tuple(result) if isinstance(result, list) else result


SCALAR_STRUCTS = {
    INT: jax.ShapeDtypeStruct((), np.int64), FLOAT: jax.ShapeDtypeStruct((), np.float64),
    COMPLEX: jax.ShapeDtypeStruct((), np.complex128),
}


def abstract_results(fn, shaped, kinds):
    """Result shapes and dtypes, and whether there is just one result."""

    def weakened(*operands):
        count = len(shaped)
        return fn(*operands[:count], *(weak(v, k) for v, k in zip(operands[count:], kinds)))

    results = jax.eval_shape(weakened, *shaped, *(SCALAR_STRUCTS[k] for k in kinds))
    if isinstance(results, tuple):
        return results, False
    return (results,), True
