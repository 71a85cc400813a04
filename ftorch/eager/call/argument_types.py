"""Type checks of arguments: static ones of the schema's types, tensors of dtypes the op takes.

Asked when a call is first planned.
"""

from __future__ import annotations

import numbers

import numpy as np

from ..._alias import is_own
from ..core.registry import OpDef
from ..tensor import TensorBase, modes
from .hooks import hooks


def stands_for_tensor(value) -> bool:
    """Whether a value goes where tensors go: one, or an object whose class is asked now."""
    return isinstance(value, TensorBase) or (
        (modes.subclasses or bool(modes.function_modes)) and hasattr(type(value), "__torch_function__")
    )


def public_name(name):
    """The name of a schema's argument in error messages."""
    return "input" if name == "self" else name


_QUALIFIED = {name: name for name in (
    "dtype", "device", "layout", "memory_format", "Size", "finfo", "iinfo", "qscheme"
)} | {"Generator": "_C.Generator", "UntypedStorage": "storage.UntypedStorage"}


def type_name(value) -> str:
    """A value's type as PyTorch's messages name it: NumPy's types and some of PyTorch's by their module, too."""
    kind = type(value)
    if kind.__name__ in _QUALIFIED and is_own(kind.__module__):
        return f"torch.{_QUALIFIED[kind.__name__]}"
    if kind.__module__ == "numpy" and kind is not np.matrix:
        return f"numpy.{kind.__name__}"
    return kind.__name__


def wrong_call(text) -> TypeError:
    """The error for an argument of another type: in PyTorch's words, where the public call says how it was given."""
    explain = hooks.wrong_call
    return TypeError((explain and explain()) or text)


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
        return tensors[where]._ftorch_geometry.dtype
    if tag == "l":
        return [None if j is None else tensors[j]._ftorch_geometry.dtype for j in where]
    return types[where] if tag == "s" else None


_STATIC_TYPES = {
    "int": numbers.Integral, "SymInt": numbers.Integral, "float": numbers.Real,
    "bool": (bool, np.bool_), "str": str,
}


def _is_of(value, base):
    """Whether a static value can stand for a schema's base type; 0-d tensors stand for numbers."""
    if base != "bool" and isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, _STATIC_TYPES[base]) or (
        base in ("int", "SymInt", "float") and isinstance(value, TensorBase)
    )


def _static_arguments(definition):
    """[(position, argument, base type, whether it is a list)] of the arguments that may be static, kept."""
    found = _static.get(id(definition))
    if found is None:
        found = _static[id(definition)] = [
            (i, a, a.type.base, a.type.is_list)
            for i, a in enumerate(definition.schema.arguments) if a.type.base in _STATIC_TYPES
        ]
    return found


_static: dict[int, list] = {}  # by id of a definition, which lives as long as the process
_INTS = {int}
_EXACTLY = {"int": _INTS, "SymInt": _INTS, "float": {int, float}, "bool": {bool}, "str": {str}}


def _check_static(op, definition, slots):
    for i, argument, base, is_list in _static_arguments(definition):
        slot = slots[i]
        value = slot[-1]
        if slot[0] != "v" or value is None:
            continue
        if (set(map(type, value)) <= _EXACTLY[base]) if is_list and isinstance(value, tuple) else (
            not is_list and value.__class__ in _EXACTLY[base]
        ):
            continue  # the commonest
        prefix = f"{op.name}(): argument '{public_name(argument.name)}'"
        wanted = "int" if base == "SymInt" else base
        wanted = f"tuple of {wanted}s" if is_list else wanted
        if is_list and isinstance(value, (tuple, list)):
            wrong = next((j for j, v in enumerate(value) if not _is_of(v, base)), None)
            if wrong is None or "?" in argument.type.suffixes[:1]:
                continue
            given = type_name(value[wrong])
            if wrong:
                raise wrong_call(
                    f"{prefix} failed to unpack the object at pos {wrong + 1} with error \"type must "
                    f"be {wanted},but got {given}\""
                )
            raise wrong_call(
                f"{prefix} (position {i + 1}) must be {wanted}, but found element of type {given} at "
                "pos 0"
            )
        if not _is_of(value, base) or (is_list and argument.type.size is None):
            raise wrong_call(
                f"{prefix} (position {i + 1}) must be {wanted}, not {type_name(value)}"
            )
