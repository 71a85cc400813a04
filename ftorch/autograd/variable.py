"""The old name of tensors (``torch.autograd.Variable``)."""

import warnings

from ..eager.autograd.backward import ExecutionEngine
from ..eager.tensor import Tensor

__all__ = ["Variable", "VariableMeta"]


def variable(*args, **kwargs):
    """Raises RuntimeError: `torch.tensor` makes tensors."""
    raise RuntimeError("torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead")


class VariableMeta(type):
    """Every tensor is an instance of `Variable`."""

    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class Variable(metaclass=VariableMeta):
    """What tensors with gradients were called before 0.4: ``Variable(x, requires_grad)`` is a tensor of x's memory.

    Raises:
        TypeError: if the data are no tensor.

    >>> import ftorch as torch
    >>> torch.autograd.Variable(torch.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    _execution_engine = ExecutionEngine()

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                UserWarning, stacklevel=2,
            )
        if data is None:
            return Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(bool(requires_grad))
