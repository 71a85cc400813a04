"""``Variadic[int]``: any number of arguments of a class, at the end of a signature."""

from __future__ import annotations

from .utils import typename

__all__ = ["VariadicSignatureType", "isvariadic", "VariadicSignatureMeta", "Variadic"]


class VariadicSignatureType(type):
    """The class of such classes; they are equal where they take the same."""

    def __subclasscheck__(cls, subclass):
        other = subclass.variadic_type if isvariadic(subclass) else (subclass,)
        return subclass is cls or all(issubclass(o, cls.variadic_type) for o in other)

    def __eq__(cls, other):
        return isvariadic(other) and set(cls.variadic_type) == set(other.variadic_type)

    def __hash__(cls):
        return hash((type(cls), frozenset(cls.variadic_type)))


def isvariadic(obj) -> bool:
    """Whether a class of a signature stands for any number of arguments.

    >>> isvariadic(int), isvariadic(Variadic[int])
    (False, True)
    """
    return isinstance(obj, VariadicSignatureType)


class VariadicSignatureMeta(type):
    """Makes ``Variadic[...]`` a class."""

    def __getitem__(cls, variadic_type):
        if not (isinstance(variadic_type, (type, tuple)) or type(variadic_type)):
            raise ValueError("Variadic types must be type or tuple of types (Variadic[int] or Variadic[(int, float)]")
        if not isinstance(variadic_type, tuple):
            variadic_type = (variadic_type,)
        return VariadicSignatureType(
            f"Variadic[{typename(variadic_type)}]", (), {"variadic_type": variadic_type, "__slots__": ()}
        )


class Variadic(metaclass=VariadicSignatureMeta):
    """Any number of arguments of a class: ``Variadic[int]``."""
