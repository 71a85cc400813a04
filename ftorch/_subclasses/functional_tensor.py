"""Tensors of functional graphs (``torch._subclasses.functional_tensor``).

Graphs here are functional as they are captured: there is no tensor that stands for another one, so that
`FunctionalTensor` has no instances, and what takes one apart gives back what it is given.
"""

from __future__ import annotations

from ..eager.tensor import Tensor


class _NoInstances(type(Tensor)):
    def __instancecheck__(cls, instance):
        return False


class FunctionalTensor(Tensor, metaclass=_NoInstances):
    """A tensor inside PyTorch's functionalization: none is made here.

    Raises:
        RuntimeError: when called.
    """

    def __new__(cls, *args, **kwargs):
        raise RuntimeError(
            "graphs are functional as they are captured: torch.func.functionalize and torch.export need no "
            "FunctionalTensor"
        )


def mb_unwrap_functional_tensor(tensor):
    """The tensor itself."""
    return tensor

