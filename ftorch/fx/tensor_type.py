"""Types of tensors by their sizes, some of which are not known."""

from __future__ import annotations

from ._compatibility import compatibility

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


@compatibility(is_backward_compatible=False)
class TensorType:
    """A tensor of some sizes; `Dyn` is a size that is not known.

    >>> from ftorch.fx.tensor_type import Dyn, TensorType, is_consistent
    >>> is_consistent(TensorType((1, Dyn)), TensorType((1, 2)))
    True
    """

    def __init__(self, dim):
        self.__origin__ = TensorType
        self.__args__ = dim

    def __repr__(self):
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other):
        return isinstance(other, self.__class__) and list(self.__args__) == list(other.__args__)

    def __hash__(self):
        return hash(tuple(self.__args__))

    @staticmethod
    def __class_getitem__(*args):
        return TensorType(args[0] if len(args) == 1 and isinstance(args[0], tuple) else args)


class _DynType:
    """The type of what is not known."""

    def __init__(self):
        self.__name__ = "_DynType"

    def __eq__(self, other):
        return isinstance(other, self.__class__)

    def __hash__(self):
        return hash(_DynType)

    def __str__(self):
        return "Dyn"

    __repr__ = __str__


Dyn = _DynType()


@compatibility(is_backward_compatible=False)
def is_consistent(t1, t2) -> bool:
    """Whether two types can be of one value: they agree in what both know."""
    if t1 == t2 or isinstance(t1, _DynType) or isinstance(t2, _DynType):
        return True
    return _all_pairs(is_consistent, t1, t2)


@compatibility(is_backward_compatible=False)
def is_more_precise(t1, t2) -> bool:
    """Whether the first type says all that the second one says."""
    if t1 == t2 or isinstance(t2, _DynType):
        return True
    return _all_pairs(is_more_precise, t1, t2)


def _all_pairs(test, t1, t2):
    if not (isinstance(t1, TensorType) and isinstance(t2, TensorType)):
        return False
    return len(t1.__args__) == len(t2.__args__) and all(map(test, t1.__args__, t2.__args__))
