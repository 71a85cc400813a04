"""The classes of the graph's nodes (``torch._C._functions``), for ``isinstance``, and functions that end gradients."""

from __future__ import annotations

from ..autograd._ending import DelayedError, UndefinedGrad
from ..eager.autograd.nodes import AccumulateGrad
from ..eager.autograd.nodes import Node as _Node

__all__ = ["AccumulateGrad", "DelayedError", "UndefinedGrad"]


class _Named(type):
    """The class of all nodes of a name, whichever class implements them."""

    def __instancecheck__(cls, node):
        return isinstance(node, _Node) and type(node).__name__ == cls.__name__

    def __subclasscheck__(cls, kind):
        return issubclass(kind, _Node) and kind.__name__ == cls.__name__


def __getattr__(name: str):
    # Which ops have nodes is known by the registry; a name is one's where its form is.
    stem = name.rstrip("0123456789")
    if name.startswith("_") or not (stem.endswith(("Backward", "Backwards")) and name[0].isupper()):
        if name not in ("CopySlices", "NotImplemented"):
            raise AttributeError(f"module 'torch._C._functions' has no attribute '{name}'")
    found = globals()[name] = _Named(name, (_Node,), {"__slots__": (), "__module__": "torch._C._functions"})
    return found
