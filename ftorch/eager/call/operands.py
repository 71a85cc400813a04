"""Argument normalization: a call's arguments as plans are kept by them, hashable static values, tensors and numbers."""

from __future__ import annotations

import numpy as np

from ..core.registry import OPTIONAL_TENSOR, STATIC, TENSOR, TENSORS, static_key
from ..tensor import TensorBase
from .argument_types import public_name, type_name

NUMBERS = (bool, int, float, complex)
_PLAIN = frozenset((int, float, bool, str, type(None)))


def _hashable(value):
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return tuple([_hashable(v) for v in value])
    if isinstance(value, (TensorBase, np.integer)):
        return value.__index__()
    return float(value) if isinstance(value, np.floating) else value


def hashable(static, definition=None):
    """Static arguments as a part of a cache key: lists become tuples, 0-d tensors the numbers that they stand for.

    Raises:
        TypeError: if a tensor is no number of the argument's type.
    """

    if definition is not None and any([isinstance(v, TensorBase) for v in static]):
        static = _numbers_for(definition, static)
    converted = tuple([_hashable(v) for v in static])
    try:
        hash(converted)
    except TypeError:
        raise TypeError(f"invalid combination of arguments: {static!r}") from None
    return static_key(converted)


def _numbers_for(definition, static):
    arguments = [a for a, k in zip(definition.schema.arguments, definition.kinds) if k == STATIC]
    out = []
    for value, argument in zip(static, arguments):
        if isinstance(value, TensorBase):
            check_number(value, definition.name, argument)
            value = value.item()
        out.append(value)
    return out


def check_number(value, name, argument):
    """Raises TypeError if a tensor is no number that an argument takes: if it has dimensions, requires
    grad, or is a fraction where an integer is due.
    """
    g, base = value._ftorch_geometry, argument.type.base
    expected = {"int": "int", "SymInt": "int", "float": "float"}.get(base, "Number")
    if g.shape or value.requires_grad or (expected == "int" and g.dtype.category != 1):
        if name == "narrow" and argument.name == "start":
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        many = "tuple of ints" if expected == "int" and argument.type.is_list else expected
        raise TypeError(f"{name}(): argument '{argument.name}' must be {many}, not Tensor")


def holds_tensors(static):
    """Whether tensors stand for numbers in static arguments or their lists."""
    return any(
        isinstance(v, TensorBase)
        or (v.__class__ is tuple and any(isinstance(e, TensorBase) for e in v))
        for v in static
    )


def tensors_of(operands):
    """The tensors among the operands, lists flattened."""
    for o in operands:
        if isinstance(o, (list, tuple)):
            yield from (t for t in o if t is not None)
        elif isinstance(o, TensorBase):
            yield o


def normalize(op, operands, kept=()):
    """NumPy scalars become numbers (NumPy arrays tensors) where the schema takes tensors.

    Args:
        kept: classes of numbers that stay what they are.

    Raises:
        TypeError: in PyTorch's words for anything else.
    """
    if all([o is None or isinstance(o, TensorBase) or type(o) in NUMBERS for o in operands]):
        return tuple(operands)
    definition = op.definition
    dynamic = [i for i, k in enumerate(definition.kinds) if k != STATIC]
    out = []
    for position, o in zip(dynamic, operands):
        kind = definition.kinds[position]
        name = definition.argument_names[position]
        out.append(o if type(o) in kept else _normalize_one(op, kind, name, position, o))
    return tuple(out)


def number_of(o: np.generic):
    """A NumPy scalar as PyTorch reads it: all but integers and double precision is a float."""
    if isinstance(o, (np.integer, float, complex)):
        return o.item()
    return float(o.real)


def plain_number(value):
    """A number of a subclass (NumPy's double precision, an IntEnum) as Python's own, NumPy's others as `number_of` says; what
    is no number as it is."""
    if type(value) in NUMBERS:
        return value
    if isinstance(value, np.generic):
        return number_of(value)
    kind = next((k for k in NUMBERS if isinstance(value, k)), None)
    return value if kind is None else kind(value)


def _normalize_one(op, kind, name, position, o):
    if o is None or isinstance(o, TensorBase) or type(o) in NUMBERS:
        return o
    if isinstance(o, np.generic):
        return number_of(o)
    if kind == TENSORS and isinstance(o, (list, tuple)):
        for i, item in enumerate(o):
            if item is not None and not hasattr(type(item), "__torch_function__"):
                raise TypeError(
                    f"expected Tensor as element {i} in argument {position}, but got "
                    f"{type_name(item)}"
                )
        return tuple(o)
    if isinstance(o, (int, float, complex)):
        return plain_number(o)
    if hasattr(type(o), "__torch_function__"):
        return o
    wanted = {TENSOR: "Tensor", OPTIONAL_TENSOR: "Tensor", TENSORS: "tuple of Tensors"}.get(
        kind, "Number"
    )
    raise TypeError(
        f"{op.name}(): argument '{public_name(name)}' (position {position + 1}) must be {wanted}, "
        f"not {type_name(o)}"
    )
