"""TorchScript's types as objects (``torch._C.ListType``): what annotations and readers of graphs name.

The types of a graph's values (`GraphType`) are instances of them: ``isinstance(value.type(), torch._C.TensorType)``.
"""

from __future__ import annotations

from ..jit.torchscript.graph.ir import GraphType

__all__ = [
    "AnyType", "AwaitType", "BoolType", "ComplexType", "DeviceObjType", "DictType", "FloatType", "FutureType", "IntType",
    "ListType", "NoneType", "NumberType", "OptionalType", "PyObjectType", "RRefType", "StreamObjType", "StringType",
    "SymBoolType", "SymIntType", "TensorType", "TupleType", "Type", "UnionType",
]


class _OfGraphsToo(type):
    def __instancecheck__(cls, value):
        if isinstance(value, GraphType):
            return cls.__name__ == "Type" or value.kind() == cls.__name__
        return super().__instancecheck__(value)


class Type(metaclass=_OfGraphsToo):
    """A type of TorchScript.

    >>> import ftorch as torch
    >>> torch._C.DictType(torch._C.StringType.get(), torch._C.ListType.ofInts())
    Dict[str, List[int]]
    """

    _ftorch_parts: tuple = ()
    _ftorch_name = ""

    def __new__(cls, *args):
        if cls is Type:
            raise TypeError("torch._C.Type: No constructor defined!")
        return super().__new__(cls)

    def kind(self) -> str:
        """The class's name: ``"ListType"``."""
        return type(self).__name__

    def str(self):
        """The type as graphs write it: ``int[]``, ``Tensor?``."""
        inner = [part.str() for part in self._ftorch_parts]
        if isinstance(self, ListType):
            return f"{inner[0]}[]"
        if isinstance(self, OptionalType):
            return f"{inner[0]}?"
        if isinstance(self, TupleType):
            return f"({', '.join(inner)})"
        if isinstance(self, (FutureType, RRefType)):
            return f"{self._ftorch_name}[{inner[0]}]"
        if isinstance(self, (NumberType, SymBoolType, SymIntType)):
            return {"NumberType": "Scalar"}.get(self.kind(), self.kind().removesuffix("Type"))
        return f"{self._ftorch_name}({', '.join(inner)})" if inner else self._ftorch_name

    @property
    def annotation_str(self):
        """The type as annotations write it."""
        return f"{self}"

    def containedTypes(self) -> list:  # noqa: N802
        """The types of its parts."""
        return list(self._ftorch_parts)

    def is_interface_type(self) -> bool:
        """Whether it is an interface: none of these is."""
        return False

    def isSubtypeOf(self, other) -> bool:  # noqa: N802
        """Whether values of it are values of another type."""
        if isinstance(other, AnyType) or self == other:
            return True
        if isinstance(self, UnionType):
            return all(part.isSubtypeOf(other) for part in self._ftorch_parts)
        if isinstance(self, OptionalType):
            return isinstance(other, (OptionalType, UnionType)) and all(
                part.isSubtypeOf(other) for part in (*self._ftorch_parts, NoneType.get())
            )
        if isinstance(other, OptionalType):
            return isinstance(self, NoneType) or self.isSubtypeOf(other._ftorch_parts[0])
        if isinstance(other, UnionType):
            return any(self.isSubtypeOf(part) for part in other._ftorch_parts)
        if isinstance(other, NumberType):
            return isinstance(self, (IntType, FloatType, ComplexType))
        if isinstance(self, TupleType) and isinstance(other, TupleType):
            mine, theirs = self._ftorch_parts, other._ftorch_parts
            return len(mine) == len(theirs) and all(a.isSubtypeOf(b) for a, b in zip(mine, theirs))
        return False

    def __eq__(self, other):
        return isinstance(other, Type) and f"{self.kind()} {self}" == f"{other.kind()} {other}"

    def __hash__(self):
        return hash(f"{self}")

    def __repr__(self):
        inner = ", ".join(map(repr, self._ftorch_parts))
        return f"{self._ftorch_name}[{inner}]" if inner else self._ftorch_name


class _Plain(Type):
    @classmethod
    def get(cls):
        """The type."""
        return cls()


def _plain(name, shown):
    found = type(name, (_Plain,), {
        "__doc__": f"The type ``{shown}``.", "__module__": __name__, "_ftorch_name": shown,
    })
    return found


AnyType, BoolType, ComplexType = _plain("AnyType", "Any"), _plain("BoolType", "bool"), _plain("ComplexType", "complex")
DeviceObjType, FloatType, IntType = _plain("DeviceObjType", "Device"), _plain("FloatType", "float"), _plain("IntType", "int")
NoneType, NumberType = _plain("NoneType", "NoneType"), _plain("NumberType", "number")
PyObjectType, StreamObjType = _plain("PyObjectType", "PyObject"), _plain("StreamObjType", "Stream")
StringType, SymBoolType, SymIntType = _plain("StringType", "str"), _plain("SymBoolType", "bool"), _plain("SymIntType", "int")


class TensorType(_Plain):
    """The type of tensors."""

    _ftorch_name = "Tensor"

    @classmethod
    def getInferred(cls):  # noqa: N802
        """The type of what has no annotation."""
        return cls()


class _Of(Type):
    def __init__(self, element):
        self._ftorch_parts = (element,)

    def getElementType(self):  # noqa: N802
        """The type of what is in it."""
        return self._ftorch_parts[0]


class AwaitType(_Of):
    """Awaitable values."""

    _ftorch_name = "Await"


class FutureType(_Of):
    """Futures."""

    _ftorch_name = "Future"


class RRefType(_Of):
    """Remote references."""

    _ftorch_name = "RRef"


class OptionalType(_Of):
    """A type or None."""

    _ftorch_name = "Optional"

    @staticmethod
    def ofTensor():  # noqa: N802
        """``Optional[Tensor]``."""
        return OptionalType(TensorType.get())


class ListType(_Of):
    """Lists."""

    _ftorch_name = "List"


def _list_of(element):
    def make():
        return ListType(element.get())

    make.__doc__ = f"``List[{element._ftorch_name}]``."
    return staticmethod(make)


for _name, _element in {
    "ofBools": BoolType, "ofComplexDoubles": ComplexType, "ofFloats": FloatType, "ofInts": IntType, "ofStrings": StringType,
    "ofTensors": TensorType,
}.items():
    setattr(ListType, _name, _list_of(_element))


class DictType(Type):
    """Dictionaries."""

    _ftorch_name = "Dict"

    def __init__(self, key, value):
        self._ftorch_parts = (key, value)

    def getKeyType(self):  # noqa: N802
        """The type of the keys."""
        return self._ftorch_parts[0]

    def getValueType(self):  # noqa: N802
        """The type of the values."""
        return self._ftorch_parts[1]


class _OfSeveral(Type):
    def __init__(self, elements):
        self._ftorch_parts = tuple(elements)


class TupleType(_OfSeveral):
    """Tuples."""

    _ftorch_name = "Tuple"

    def elements(self) -> list:
        """The types of the elements."""
        return list(self._ftorch_parts)

    def __repr__(self):
        return super().__repr__() if self._ftorch_parts else "Tuple[()]"


class UnionType(_OfSeveral):
    """One of several types."""

    _ftorch_name = "Union"
