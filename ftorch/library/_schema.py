"""Schemas: inferred from a function's annotations, and how arguments are cast to their types."""

from __future__ import annotations

import inspect
import numbers
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..eager.core import dtype as _dtype
from ..eager.core.device import device
from ..eager.core.formats import layout, memory_format
from ..eager.core.schema import Argument, Schema, Type
from ..eager.sampling.generator import Generator
from ..eager.tensor import Tensor, TensorBase

# --- inference -----------------------------------------------------------------------

_Number = typing.Union[int, float, bool]  # noqa: UP007
_BASES = [
    (Tensor, "Tensor", "LO"), (int, "SymInt", "OLP"), (float, "float", "OLP"),
    (bool, "bool", "OLP"), (str, "str", "O"), (_Number, "Scalar", "OL"),
    (_dtype.dtype, "ScalarType", "O"), (device, "Device", "O"),
]


def _lists(kind) -> list:
    return [typing.Sequence[kind], typing.List[kind], Sequence[kind], list[kind]]  # noqa: UP006


def _parameter_types() -> dict:
    found: dict[Any, str] = {}
    for kind, name, forms in _BASES:
        optional = typing.Optional[kind]  # noqa: UP045
        found[kind] = name
        found[optional] = f"{name}?"
        if "L" in forms:
            found.update(dict.fromkeys(_lists(kind), f"{name}[]"))
        if kind is Tensor:
            found.update(dict.fromkeys(_lists(optional), f"{name}?[]"))
        if "P" in forms:
            lists = [typing.Optional[k] for k in _lists(kind)]  # noqa: UP045
            found.update(dict.fromkeys(lists, f"{name}[]?"))
    return found


_PARAMETERS = _parameter_types()
_RETURNS = {
    Tensor: "Tensor", typing.List[Tensor]: "Tensor[]", list[Tensor]: "Tensor[]",  # noqa: UP006
    int: "SymInt", float: "float", bool: "bool", _Number: "Scalar",
}


def _without_tuples(annotation):
    """``tuple[int, ...]`` and ``tuple[int, int]`` as ``list[int]``; anything else as None."""
    if typing.get_origin(annotation) is not tuple:
        return None
    items = typing.get_args(annotation)
    if not items or (len(items) == 2 and items[1] is Ellipsis) or len(set(items)) == 1:
        return list[items[0]] if items else None
    return None


def infer_schema(prototype_function, /, *, mutates_args, op_name: str | None = None) -> str:
    """The schema of a function with annotations.

    Args:
        mutates_args: names of the arguments that the function writes to, or "unknown".
        op_name: goes in front of the schema.

    Raises:
        ValueError: an annotation is missing or not supported.

    >>> import ftorch as torch
    >>> def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scale, mutates_args=())
    '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def fail(what):
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    def resolved(annotation):
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, getattr(prototype_function, "__globals__", {}))
        except Exception:
            fail(
                f"Unsupported type annotation {annotation}. It is not a type."
            )

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated "
            "or the string 'unknown'. "
        )
    unknown = mutates_args == "unknown"
    if not unknown:
        mutates_args = tuple(mutates_args)
    parts, star, written = [], False, set()
    for name, p in signature.parameters.items():
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if p.annotation is p.empty:
            fail(f"Parameter {name} must have a type annotation.")
        annotation = resolved(p.annotation)
        text = _parameter(annotation, name, fail)
        if "Tensor" in text and (unknown or name in mutates_args):
            text = text.replace("Tensor", f"Tensor(a{len(parts) - star}!)", 1)
            written.add(name)
        elif not unknown and name in mutates_args:
            fail(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors "
                 "can be mutated")
        parts.append(f"{text} {name}{_default_text(p, fail)}")
    missing = set() if unknown else set(mutates_args) - set(signature.parameters)
    if missing:
        fail(
            f"{missing} in mutates_args were not found in the custom op's signature. mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string "
            "'unknown' if you don't know."
        )
    if signature.return_annotation is signature.empty:
        fail("No return type annotation was provided. Please add one.")
    returns = _returns(resolved(signature.return_annotation), fail)
    return f"{op_name or ''}({', '.join(parts)}) -> {returns}"


def _parameter(annotation, name, fail) -> str:
    found = _lookup(_PARAMETERS, annotation)
    if found is not None:
        return found
    instead = _without_tuples(annotation)
    if _lookup(_PARAMETERS, instead) is not None:
        fail(
            f"Parameter {name} has unsupported type {annotation}. Tuple type annotation is not "
            f"supported. Please try to use a List instead. For example, {instead}. The valid types "
            f"are: {_PARAMETERS.keys()}."
        )
    fail(
        f"Parameter {name} has unsupported type {annotation}. The valid types are: "
        f"{_PARAMETERS.keys()}."
    )
    raise AssertionError


def _lookup(table, annotation):
    try:
        return table.get(annotation)
    except TypeError:
        return None


def _default_text(p, fail) -> str:
    value = p.default
    if value is p.empty:
        return ""
    if value is None or isinstance(value, (bool, int, float)):
        return f"={value}"
    if isinstance(value, str):
        return f'="{value}"'
    if isinstance(value, _dtype.dtype):
        return f"={str(value).removeprefix('torch.')}"
    if isinstance(value, device):
        return f'="{value}"'
    fail(
        f"Parameter {p.name} has an unsupported default value type {type(value)}. Please file an "
        "issue on GitHub so we can prioritize this."
    )
    raise AssertionError


def _returns(annotation, fail) -> str:
    if annotation is None or annotation is type(None):
        return "()"
    found = _lookup(_RETURNS, annotation)
    if found is not None:
        return found
    if typing.get_origin(annotation) is not tuple:
        fail(f"Return has unsupported type {annotation}. The valid types are: {_RETURNS}.")
    parts = [_lookup(_RETURNS, item) for item in typing.get_args(annotation)]
    for item, part in zip(typing.get_args(annotation), parts):
        if part is None:
            fail(
                f"Return has unsupported type {annotation}. The valid types are: {_RETURNS}."
                if item is not Ellipsis else f"Return has unsupported type {annotation}."
            )
    return f"({', '.join(map(str, parts))})"


# --- arguments -----------------------------------------------------------------------


def default_of(argument: Argument):
    """The default of an argument as a value of its type."""
    value = argument.default
    if isinstance(value, str) and argument.type.base == "ScalarType":
        return getattr(_dtype, value)
    if isinstance(value, str) and argument.type.base == "Device":
        return device(value)
    if isinstance(value, tuple):
        return list(value)
    return value


def _int(value):
    if isinstance(value, (int, np.integer)):
        return value if type(value) is not bool else int(value)
    if isinstance(value, TensorBase) and value.dim() == 0 and value._ftorch_geometry.dtype.category == 1:
        return int(value)
    raise TypeError


def _float(value):
    if isinstance(value, (int, float, np.number)):
        return float(value)
    if isinstance(value, TensorBase) and value.dim() == 0 and not value.is_complex():
        return float(value)
    raise TypeError


def _bool(value):
    if isinstance(value, (bool, np.bool_, int)):
        return bool(value)
    raise TypeError


def _number(value):
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, numbers.Number):
        return value
    raise TypeError


def _device(value):
    if isinstance(value, (str, device)):
        return device(value)
    raise TypeError


def _instance(*kinds):
    def check(value):
        if not isinstance(value, kinds):
            raise TypeError
        return value

    return check


_CASTS = {
    "Tensor": _instance(TensorBase, type(None)), "int": _int, "SymInt": _int, "float": _float, "bool": _bool,
    "Scalar": _number, "complex": _number, "str": _instance(str), "Device": _device,
    "ScalarType": _instance(_dtype.dtype, int, type), "Layout": _instance(layout, int),
    "MemoryFormat": _instance(memory_format, int), "Generator": _instance(Generator),
}


def cast(value, kind: Type):
    """A value as an instance of a schema's type.

    Raises:
        TypeError: if it is none.
    """
    one = _CASTS.get(kind.base, lambda v: v)
    return _cast(value, one, list(kind.suffixes))


def _cast(value, one, suffixes):
    if not suffixes:
        return one(value)  # None is an undefined tensor
    *inner, last = suffixes
    if last == "?":
        return None if value is None else _cast(value, one, inner)
    if last[1:-1].isdigit() and not isinstance(value, (list, tuple)):
        return [_cast(value, one, inner)] * int(last[1:-1])
    if not isinstance(value, (list, tuple)):
        raise TypeError
    if any(item is None for item in value) and "?" not in inner:
        raise TypeError
    return [_cast(item, one, inner) for item in value]


_NAMES = {"SymInt": "int", "Scalar": "number", "ScalarType": "int", "Layout": "int",
          "MemoryFormat": "int"}


def _type_name(kind: Type) -> str:
    name = _NAMES.get(kind.base, kind.base)
    for suffix in kind.suffixes:
        name = f"Optional[{name}]" if suffix == "?" else f"List[{name}]"
    return name


def _details(value, kind: Type) -> str:
    if kind.base == "Tensor" and not kind.is_list:
        return f"Unable to cast {value} to Tensor"
    if kind.base == "Scalar" and not kind.is_list:
        return f"Cannot cast {value!s} to number"
    return (
        f"Unable to cast Python instance of type {type(value)} to C++ type '?' (#define "
        "PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)"
    )


def bind(name: str, schema: Schema, args, kwargs) -> tuple[list, dict]:
    """The arguments of a call, cast, with every default filled in.

    Raises:
        RuntimeError: in PyTorch's words.
    """
    positional = [a for a in schema.arguments if not a.is_keyword_only]
    keyword_only = [a for a in schema.arguments if a.is_keyword_only]
    declaration = f"Declaration: {schema}"
    if len(args) + len(kwargs) > len(schema.arguments):
        raise RuntimeError(
            f"{name}() expected at most {len(schema.arguments)} argument(s) but received "
            f"{len(args) + len(kwargs)} argument(s). {declaration}"
        )
    if len(args) > len(positional):
        raise RuntimeError(
            f"{name}() takes {len(positional)} positional argument(s) but {len(args)} was/were given.  {declaration}"
        )
    rest = dict(kwargs)
    values = []
    for i, argument in enumerate(schema.arguments):
        if i < len(args) and not argument.is_keyword_only:
            value = args[i]
            if argument.name in rest:
                raise RuntimeError(
                    f"{name}() got multiple values for argument '{argument.name}'. {declaration}"
                )
        elif argument.name in rest:
            value = rest.pop(argument.name)
        elif argument.has_default:
            values.append(default_of(argument))
            continue
        else:
            raise RuntimeError(
                f"{name}() is missing value for argument '{argument.name}'. {declaration}"
            )
        try:
            values.append(cast(value, argument.type))
        except TypeError:
            raise RuntimeError(
                f"{name}() Expected a value of type '{_type_name(argument.type)}' for argument "
                f"'{argument.name}' but instead found type '{_python_name(value)}'.\nPosition: {i}"
                f"\nValue: {value!r}\n{declaration}\nCast error details: "
                f"{_details(value, argument.type)}"
            ) from None
    if rest:
        raise RuntimeError(
            f"Unknown keyword argument '{next(iter(rest))}' for operator '{name}'. Schema: {schema}"
        )
    count = len(positional)
    return values[:count], {a.name: v for a, v in zip(keyword_only, values[count:])}


def _python_name(value):
    return type(value).__name__


def without_defaults(schema: Schema, args, kwargs) -> tuple[tuple, dict]:
    """The arguments that a kernel is called with: trailing defaults are left to it."""
    positional = [a for a in schema.arguments if not a.is_keyword_only]
    args = list(args)
    while args and positional[len(args) - 1].has_default and _same(
        args[-1], default_of(positional[len(args) - 1])
    ):
        args.pop()
    named = {a.name: a for a in schema.arguments if a.is_keyword_only}
    left = {
        k: v for k, v in kwargs.items()
        if not (named[k].has_default and _same(v, default_of(named[k])))
    }
    return tuple(args), left


def _same(value, default):
    if isinstance(value, TensorBase) or isinstance(default, TensorBase):
        return value is default
    return type(value) is type(default) and value == default
