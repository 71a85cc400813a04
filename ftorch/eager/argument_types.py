"""What a call's arguments are: static ones of the schema's types, tensors of dtypes the op takes.

Asked when a call is first planned.
"""

from __future__ import annotations

import numbers

import numpy as np

from .registry import OpDef
from .tensor import TensorBase


def public_name(name):
    """The name of a schema's argument in error messages."""
    return "input" if name == "self" else name


def check_arguments(op, slots, tensors, types):
    """Checks the arguments of a call to a declared op, before they are promoted.

    Args:
        slots: what each of the schema's arguments is (see `planning.Structure`).
        types: the Python types of the scalars.

    Raises:
        TypeError: for a static argument that has not the schema's type.
        RuntimeError: what the op's own checks of dtypes raise (`OpDef.dtypes`).
    """
    definition = op.definition
    if not isinstance(definition, OpDef):
        return  # derived: its arguments have been checked before
    _check_static(op, definition, slots)
    for positions, check in definition.dtype_checks:
        check(*(_dtype_of(slots[i], tensors, types) for i in positions))


def _dtype_of(slot, tensors, types):
    tag, where = slot[0], slot[-1]
    if tag == "t":
        return tensors[where]._geometry.dtype
    if tag == "l":
        return [None if j is None else tensors[j]._geometry.dtype for j in where]
    return types[where] if tag == "s" else None


_STATIC_TYPES = {
    "int": numbers.Integral, "SymInt": numbers.Integral, "float": numbers.Real,
    "bool": (bool, np.bool_), "str": str,
}  # fmt: skip


def _is_of(value, base):
    """Whether a static value can stand for a schema's base type; 0-d tensors stand for numbers."""
    if base != "bool" and isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, _STATIC_TYPES[base]) or (
        base in ("int", "SymInt", "float") and isinstance(value, TensorBase)
    )


def _check_static(op, definition, slots):
    for i, (argument, slot) in enumerate(zip(definition.schema.arguments, slots)):
        base, is_list, value = argument.type.base, argument.type.is_list, slot[-1]
        if base not in _STATIC_TYPES or slot[0] != "v" or value is None:
            continue
        prefix = f"{op.name}(): argument '{public_name(argument.name)}'"
        wanted = "int" if base == "SymInt" else base
        wanted = f"tuple of {wanted}s" if is_list else wanted
        if is_list and isinstance(value, (tuple, list)):
            wrong = next((j for j, v in enumerate(value) if not _is_of(v, base)), None)
            if wrong is None or "?" in argument.type.suffixes[:1]:
                continue
            given = type(value[wrong]).__name__
            if wrong:
                raise TypeError(
                    f"{prefix} failed to unpack the object at pos {wrong + 1} with error \"type must "
                    f"be {wanted},but got {given}\""
                )
            raise TypeError(
                f"{prefix} (position {i + 1}) must be {wanted}, but found element of type {given} at "
                "pos 0"
            )
        if not _is_of(value, base) or (is_list and argument.type.size is None):
            raise TypeError(
                f"{prefix} (position {i + 1}) must be {wanted}, not {type(value).__name__}"
            )
