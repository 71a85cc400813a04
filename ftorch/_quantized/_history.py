"""What the graph knows of operators of quantized layers: they have no derivative, and backward passes say so."""

from __future__ import annotations

from ..eager.autograd.unregistered import note_unregistered
from ..eager.tensor import TensorBase, modes

__all__ = ["tensors_in", "with_history"]


def with_history(name, function, args, kwargs):
    """The results of a call; where an argument requires grad they do, too."""
    result = function(*args, **kwargs)
    if modes.grad:
        tensors = list(tensors_in((*args, *kwargs.values())))
        for t in tensors:
            if t._ftorch_requires_grad:
                note_unregistered(name, tensors, result)
                break
    return result


def tensors_in(values):
    """The tensors among arguments, and in lists of them."""
    for value in values:
        if isinstance(value, TensorBase):
            yield value
        elif type(value) in (list, tuple):
            yield from tensors_in(value)
