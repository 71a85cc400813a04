"""Functions that end gradients: with an error, or with none (``torch._C._functions.DelayedError``, `UndefinedGrad`)."""

from __future__ import annotations

from ..eager.autograd import tape as _tape
from ..eager.autograd.nodes import Node as _Node
from .graph import Node

_MODULE = __name__.replace("autograd._ending", "_C._functions")  # where users find them


class _Ending(_Node):
    """A node through which no gradient goes."""

    __slots__ = ("message",)

    def name(self):
        return type(self).__name__

    def apply(self, grads):
        if self.message is not None:
            raise RuntimeError(self.message)
        return [None] * len(self._ftorch_edges)


def _through(name, message, tensors):
    node = _tape.node_class(name, _Ending)()
    node.message = message
    node._ftorch_edges = tuple(_tape.edge_of(t) if t.requires_grad else None for t in tensors)
    outputs = []
    for nr, t in enumerate(tensors):
        out = t.detach()
        out._grad_fn, out._ftorch_output_nr, out._ftorch_requires_grad = node, nr, True
        outputs.append(out)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


@Node.register
class DelayedError:
    """A function of tensors that raises in backward.

    >>> import ftorch as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> torch._C._functions.DelayedError("not here", 1)(x).sum().backward()
    Traceback (most recent call last):
        ...
    RuntimeError: not here
    """

    __module__ = _MODULE

    def __init__(self, message: str, num_inputs: int):
        self.message = message

    def __call__(self, *tensors):
        return _through("Error", self.message, tensors)


@Node.register
class UndefinedGrad:
    """A function of tensors whose gradients are missing."""

    __module__ = _MODULE

    def __call__(self, *tensors):
        return _through("UndefinedGradBackward", None, tensors)
