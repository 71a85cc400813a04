"""Results of operators that nobody said how to differentiate: their gradients are none, with a warning, or refused."""

from __future__ import annotations

import warnings

from ..call.op import is_in_graph
from ..tensor import TensorBase, modes
from .nodes import Node
from .tape import edge_of

__all__ = ["NOT_REGISTERED", "note_unregistered", "refuse_gradients"]

NOT_REGISTERED = (
    "an autograd kernel was not registered to the Autograd key(s) but we are trying to backprop "
    "through it. This may lead to silently incorrect behavior. This behavior is deprecated and will "
    "be removed in a future version of PyTorch. If your operator is differentiable, please ensure "
    "you have registered an autograd kernel to the correct Autograd key (e.g. DispatchKey::Autograd, "
    "DispatchKey::CompositeImplicitAutograd). If your operator is not differentiable, or to squash "
    "this warning and use the previous behavior, please register "
    "torch::CppFunction::makeFallthrough() to DispatchKey::Autograd."
)


class WarnNotImplemented(Node):
    """The node of an operator without a derivative."""

    __slots__ = ("message", "_ftorch_width", "_ftorch_output_geometries")

    def __init__(self, message):
        super().__init__()
        self.message, self._ftorch_width, self._ftorch_output_geometries = message, 0, ()

    def apply(self, grads):
        warnings.warn(self.message, stacklevel=2)
        return [None] * len(self._ftorch_edges)


class _Refusing(Node):
    __slots__ = ("operator",)

    def __init__(self, operator):
        super().__init__()
        self.operator = operator

    def apply(self, grads):
        raise RuntimeError(f"derivative for {self.operator} is not implemented")


_NotImplemented = type("NotImplemented", (_Refusing,), {"__slots__": (), "__module__": "builtins"})


def refuse_gradients(t, operator: str, tensors: list) -> None:
    """Makes a tensor the result of an operator without a derivative, if an argument requires grad: backward raises.

    Args:
        operator: its name, as the error says it.
        tensors: its arguments that are tensors.
    """
    if modes.grad and any(map(is_in_graph, tensors)):
        node = _NotImplemented(operator)
        node._ftorch_edges = tuple(edge_of(a) if is_in_graph(a) else None for a in tensors)
        t._ftorch_requires_grad, t._grad_fn, t._ftorch_output_nr = True, node, 0


def note_unregistered(name: str, tensors: list, result) -> None:
    """Gives the results of an operator without a derivative their history; an argument requires grad.

    Args:
        name: the operator's, ``"quantized::linear_dynamic"``.
        tensors: its arguments that are tensors.
        result: what it gave; what requires grad already, by what its kernel called, warns when the gradient comes.
    """
    message, node = f"{name}: {NOT_REGISTERED}", None
    for t in result if isinstance(result, (list, tuple)) else (result,):
        if not isinstance(t, TensorBase) or any(t is given for given in tensors) or hasattr(t, "_ftorch_level"):
            continue
        if t._ftorch_requires_grad:
            if t._grad_fn is not None:
                t.register_hook(lambda grad: warnings.warn(message, stacklevel=2))
            continue
        dtype = t._ftorch_geometry.dtype
        if not (dtype.is_floating_point or dtype.is_complex):
            continue
        if node is None:
            node = WarnNotImplemented(message)
            node._ftorch_edges = tuple(edge_of(a) if a._ftorch_requires_grad else None for a in tensors)
        node._ftorch_output_geometries = (*node._ftorch_output_geometries, t._ftorch_geometry)
        t._ftorch_requires_grad, t._grad_fn, t._ftorch_output_nr = True, node, node._ftorch_width
        node._ftorch_width += 1
