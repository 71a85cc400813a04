"""The classes of the graph's nodes (``torch._C._functions``), for ``isinstance``, and functions that end gradients."""

from __future__ import annotations

from ..autograd.graph import Node as _AnyNode
from ..eager.autograd import tape as _tape
from ..eager.autograd.nodes import AccumulateGrad
from ..eager.autograd.nodes import Node as _Node

__all__ = ["AccumulateGrad", "DelayedError", "UndefinedGrad"]


class _Named(type):
    """The class of all nodes of a name, whichever class implements them."""

    def __instancecheck__(cls, node):
        return isinstance(node, _Node) and type(node).__name__ == cls.__name__

    def __subclasscheck__(cls, kind):
        return issubclass(kind, _Node) and kind.__name__ == cls.__name__


class _Ending(_Node):
    """A node through which no gradient goes."""

    __slots__ = ("message",)

    def name(self):
        return type(self).__name__

    def apply(self, grads):
        if self.message is not None:
            raise RuntimeError(self.message)
        return [None] * len(self.edges)


def _through(name, message, tensors):
    node = _tape.node_class(name, _Ending)()
    node.message = message
    node.edges = tuple(_tape.edge_of(t) if t.requires_grad else None for t in tensors)
    outputs = []
    for nr, t in enumerate(tensors):
        out = t.detach()
        out._grad_fn, out._ftorch_output_nr, out._ftorch_requires_grad = node, nr, True
        outputs.append(out)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


@_AnyNode.register
class DelayedError:
    """A function of tensors that raises in backward.

    >>> import ftorch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch._C._functions.DelayedError("not here", 1)(x).sum().backward()
    Traceback (most recent call last):
        ...
    RuntimeError: not here
    """

    def __init__(self, message: str, num_inputs: int):
        self.message = message

    def __call__(self, *tensors):
        return _through("Error", self.message, tensors)


@_AnyNode.register
class UndefinedGrad:
    """A function of tensors whose gradients are missing."""

    def __call__(self, *tensors):
        return _through("UndefinedGradBackward", None, tensors)


def __getattr__(name: str):
    # Which ops have nodes is known by the registry; a name is one's where its form is.
    stem = name.rstrip("0123456789")
    if name.startswith("_") or not (stem.endswith(("Backward", "Backwards")) and name[0].isupper()):
        if name not in ("CopySlices", "NotImplemented"):
            raise AttributeError(f"module 'torch._C._functions' has no attribute '{name}'")
    found = globals()[name] = _Named(name, (_Node,), {"__slots__": (), "__module__": "torch._C._functions"})
    return found
