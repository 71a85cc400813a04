"""TorchScript's types: parsed from annotations, inferred from values, and what values fit them."""

from __future__ import annotations

import ast
import warnings
import weakref
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ....eager.core import device as _device
from ....eager.core import dtype as _dtype
from ....eager.core import formats as _formats
from ....eager.sampling.generator import Generator
from ....eager.tensor import TensorBase
from ....eager.tensor_api.legacy_types import is_legacy_type

__all__ = ["Attribute", "Type", "conforms", "infer", "name_of", "named", "parse_type", "type_of_annotation"]


@dataclass(frozen=True)
class Type:
    """A type by name and parameters: ``Dict[str, Tensor]`` is ``Type("Dict", (str, Tensor))``.

    Classes of a program go by their qualified names, ``__torch__.Point``.

    Attributes:
        size: of a list: how many elements a single value stands for in a call from Python.
    """

    name: str
    args: tuple[Type, ...] = ()
    size: int | None = field(default=None, compare=False)

    def __str__(self):
        if self.name == "Tuple" and not self.args:
            return "Tuple[()]"
        return f"{self.name}[{', '.join(map(str, self.args))}]" if self.args else self.name

    @property
    def is_class(self):
        return self.name.startswith("__torch__")

    def shown(self) -> str:
        """The type as error messages and graphs write it: ``Dict(str, Tensor)``, ``int[]``, ``T?``."""
        inner = [a.shown() for a in self.args]
        if self.name == "List":
            return f"{inner[0]}[{self.size or ''}]"
        if self.name == "Optional":
            return f"{inner[0]}?"
        if self.name == "Tuple":
            return f"({', '.join(inner)})"
        if self.name == "number":
            return "Scalar"
        return f"{self.name}({', '.join(inner)})" if inner else self.name


TENSOR, INT, FLOAT, BOOL, STR = (Type(n) for n in ("Tensor", "int", "float", "bool", "str"))
NONE, ANY, COMPLEX, DEVICE, NUMBER = (
    Type(n) for n in ("NoneType", "Any", "complex", "Device", "number")
)

# Codes that programs name dtypes, layouts, memory formats and schemes of quantization by.
_CODES = {
    "uint8": 0, "int8": 1, "int16": 2, "int32": 3, "int64": 4, "float16": 5, "float32": 6,
    "float64": 7, "complex32": 8, "complex64": 9, "complex128": 10, "bool": 11, "qint8": 12, "quint8": 13, "qint32": 14,
    "bfloat16": 15, "quint4x2": 16, "quint2x4": 17, "float8_e5m2": 23,
    "float8_e4m3fn": 24, "float8_e5m2fnuz": 25, "float8_e4m3fnuz": 26, "uint16": 27, "uint32": 28,
    "uint64": 29, "float8_e8m0fnu": 44,
}
DTYPE_OF = {number: getattr(_dtype, name) for name, number in _CODES.items()}
CODE_OF = {d: code for code, d in DTYPE_OF.items()}
LAYOUTS = [
    _formats.strided, _formats.sparse_coo, _formats.sparse_csr, _formats._mkldnn,
    _formats.sparse_csc, _formats.sparse_bsr, _formats.sparse_bsc, _formats.jagged,
]
MEMORY_FORMATS = [
    _formats.contiguous_format, _formats.preserve_format, _formats.channels_last,
    _formats.channels_last_3d,
]
QSCHEMES = [
    _formats.per_tensor_affine, _formats.per_channel_affine, _formats.per_tensor_symmetric, _formats.per_channel_symmetric,
    _formats.per_channel_affine_float_qparams,
]


def code(value):
    """The number that programs use for a dtype, layout, memory format or scheme of quantization; else the value itself."""
    if isinstance(value, _dtype.dtype):
        return CODE_OF[value]
    if isinstance(value, _formats.layout):
        return LAYOUTS.index(value)
    if isinstance(value, _formats.memory_format):
        return MEMORY_FORMATS.index(value)
    if isinstance(value, _formats.qscheme):
        return QSCHEMES.index(value)
    return value


class Attribute(NamedTuple):
    """A value with its type, for attributes whose type the value does not show.

    >>> import ftorch as torch
    >>> torch.jit.Attribute({}, dict[str, int]).value
    {}
    """

    value: Any
    type: Any


# --- parsing -------------------------------------------------------------------------


def parse_type(source: str | ast.expr) -> Type:
    """The type that an annotation in a program's text names.

    Raises:
        RuntimeError: if it is none.
    """
    if isinstance(source, str):
        try:
            source = ast.parse(source.strip(), mode="eval").body
        except SyntaxError:
            raise RuntimeError(f"Unknown type name {source!r}") from None
    if isinstance(source, ast.Constant) and source.value is None:
        return NONE
    if isinstance(source, ast.Constant) and isinstance(source.value, str):
        return parse_type(source.value)
    if isinstance(source, ast.Name):
        return NONE if source.id == "None" else Type(source.id)
    if isinstance(source, ast.Attribute):
        name = ast.unparse(source)
        known = {"torch.Tensor": TENSOR, "torch.device": DEVICE, "torch.dtype": INT, "torch.qscheme": INT}
        return known.get(name, Type(name))
    if isinstance(source, ast.Subscript):
        base = parse_type(source.value).name
        inner = source.slice
        items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if base == "Final":
            return parse_type(items[0])
        return Type(base, tuple(map(parse_type, items)))
    raise RuntimeError(f"Unknown type name '{ast.unparse(source)}'")


_PLAIN = {
    int: INT, float: FLOAT, bool: BOOL, str: STR, complex: COMPLEX, type(None): NONE, None: NONE,
    TensorBase: TENSOR, _device.device: DEVICE, _dtype.dtype: INT, _formats.layout: INT,
    _formats.memory_format: INT, _formats.qscheme: INT, Generator: Type("Generator"),
}
_GENERIC = {list: "List", dict: "Dict", tuple: "Tuple"}


def type_of_annotation(annotation, class_name=None) -> Type | None:
    """The type for a Python annotation, or None where TorchScript knows none.

    Args:
        class_name: gives the qualified name of a Python class, or None.
    """
    import types
    import typing

    if isinstance(annotation, Type):
        return annotation
    if annotation in (typing.Any, object):
        return ANY
    try:
        if annotation in _PLAIN:
            return _PLAIN[annotation]
    except TypeError:
        return None
    if isinstance(annotation, type) and issubclass(annotation, TensorBase):
        return TENSOR
    if is_legacy_type(annotation):
        warnings.warn(
            "TorchScript will treat type annotations of Tensor dtype-specific subtypes as if they are normal Tensors. dtype "
            "constraints are not enforced in compilation either.", stacklevel=2,
        )
        return TENSOR
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    inner = [type_of_annotation(a, class_name) for a in args if a is not Ellipsis]
    if origin in _GENERIC:
        if None in inner or Ellipsis in args:
            return None
        if args == ((),):
            inner = []
        return Type(_GENERIC[origin], tuple(inner))
    if origin is typing.Union or isinstance(annotation, getattr(types, "UnionType", ())):
        rest = [t for t in inner if t != NONE]
        if None in rest:
            return None
        union = rest[0] if len(rest) == 1 else union_of(rest)
        return Type("Optional", (union,)) if len(rest) < len(inner) else union
    if origin is not None and getattr(origin, "__name__", "") == "Future":
        return Type("Future", tuple(inner))
    if isinstance(annotation, type) and class_name is not None:
        name = class_name(annotation)
        return Type(name) if name else None
    return None


# The order that unions show their types in; what is not here stands behind.
_ORDER = ("Any", "Tensor", "Tuple", "List", "Dict", "number", "float", "complex", "Future", "int", "NoneType", "str", "bool")
_NUMBERS = frozenset({INT, FLOAT, COMPLEX})


def union_of(types) -> Type:
    """The union of some types; all numbers together are one type."""
    found = list(dict.fromkeys(types))
    if _NUMBERS.issubset(found):
        found = [NUMBER, *(t for t in found if t not in _NUMBERS)]
    found.sort(key=lambda t: (_ORDER.index(t.name) if t.name in _ORDER else len(_ORDER), str(t)))
    return found[0] if len(found) == 1 else Type("Union", tuple(found))


# --- values --------------------------------------------------------------------------


def infer(value, class_name=None) -> Type | None:
    """The type of a value, or None where TorchScript has none for it."""
    if isinstance(value, TensorBase):
        return TENSOR
    kind = type(value)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind is list:
        inner = unify([infer(v, class_name) for v in value]) if value else TENSOR
        return inner and Type("List", (inner,))
    if isinstance(value, dict):
        keys = unify([infer(v, class_name) for v in value]) if value else STR
        values = unify([infer(v, class_name) for v in value.values()]) if value else TENSOR
        return Type("Dict", (keys, values)) if keys and values else None
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        inner = [infer(v, class_name) for v in value]
        return None if None in inner else Type("Tuple", tuple(inner))
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return infer(value.item())
    name = name_of(kind) if class_name is None or hasattr(kind, "_qualified") else class_name(kind)
    return Type(name) if name else None


def unify(types) -> Type | None:
    """The one type of several values, Optional where some are None; None if there is none."""
    if any(t is None for t in types):
        return None
    kinds = list(dict.fromkeys(types))
    if len(kinds) == 1:
        return kinds[0]
    bases = {t.args[0] if t.name == "Optional" else t for t in kinds if t != NONE}
    if len(bases) == 1 and any(t == NONE or t.name == "Optional" for t in kinds):
        return Type("Optional", (bases.pop(),))
    return None


_names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # Python class -> its name


def named(cls: type, name: str) -> None:
    """Notes that objects of a Python class are of the type of a name."""
    _names[cls] = name


def name_of(cls: type) -> str | None:
    """The name of a Python class in programs, or None."""
    return _names.get(cls) or getattr(cls, "_qualified", None)  # packed weights say it themselves


def conforms(value, t: Type) -> bool:
    """Whether a value is of a type, as ``isinstance`` in a program asks."""
    name = t.name
    if name == "Any":
        return True
    if name == "Tensor":
        return isinstance(value, TensorBase)
    if name == "Optional":
        return value is None or conforms(value, t.args[0])
    if name == "Union":
        return any(conforms(value, a) for a in t.args)
    if name == "NoneType":
        return value is None
    if name in ("List", "list"):
        return type(value) is list and (not t.args or all(conforms(v, t.args[0]) for v in value))
    if name in ("Dict", "dict"):
        return isinstance(value, dict) and (not t.args or all(
            conforms(k, t.args[0]) and conforms(v, t.args[1]) for k, v in value.items()
        ))
    if name in ("Tuple", "tuple"):
        return isinstance(value, tuple) and (not t.args or len(value) == len(t.args) and all(
            map(conforms, value, t.args)
        ))
    if name == "number":
        return isinstance(value, (int, float, complex)) and not isinstance(value, bool)
    if name in _SCALARS:
        return type(value) in _SCALARS[name]
    if t.is_class:
        return name == name_of(type(value))
    return True


_SCALARS = {
    "int": (int,), "float": (float,), "bool": (bool,), "str": (str,), "complex": (complex,),
    "Device": (_device.device,),
}
