"""Elementwise functions with a Python signature of their own: ``where``, ``positive`` ..."""

from __future__ import annotations

from ..autograd.views import view_call
from ..call.op import call, call_inplace, call_out, op_named
from ..core.composite import composite
from ..core.dtype import complex128, float64
from ..core.registry import OPS
from ..tensor import TensorBase


@composite()
def where(condition, input=None, other=None, *, out=None):
    """Elements of ``input`` where ``condition`` holds, of ``other`` elsewhere.

    With only a condition, the indices where it holds: a tuple with one index tensor per dimension.

    Args:
        condition: a boolean tensor.
        input, other: tensors or numbers that broadcast with it.

    Raises:
        RuntimeError: if the condition is not boolean, or shapes do not broadcast.

    >>> import ftorch as torch
    >>> torch.where(torch.tensor([True, False]), torch.tensor([1., 2.]), 0.)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    op, operands = op_named("where.self"), (condition, input, other)
    return call(op, operands) if out is None else call_out(op, operands, (), out)


@composite(forms="method", name="where")
def _where(self, condition, other):
    """``self`` where ``condition`` holds, ``other`` elsewhere."""
    return call(op_named("where.self"), (condition, self, other))


@composite(forms="function method")
def positive(input):
    """``+input``: the tensor itself.

    Raises:
        RuntimeError: for boolean tensors.
    """
    if input.dtype.category == 0:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@composite(forms="method", name="polygamma")
def _polygamma(self, n):
    """The n-th derivative of digamma."""
    return call(op_named("polygamma"), (self,), (n,))


@composite(forms="method", name="polygamma_")
def _polygamma_(self, n):
    return call_inplace(op_named("polygamma"), (self,), (n,))


@composite(forms="function method")
def conj_physical(input, *, out=None):
    """The complex conjugate; a real tensor is returned as it is."""
    op = op_named("conj_physical")
    if out is not None:
        return call_out(op, (input,), (), out)
    return call(op, (input,)) if input.is_complex() else input


@composite(forms="method", name="__rdiv__")
def _rdiv(self, other):
    """``other / self`` by the name it had in Python 2."""
    return self.__rtruediv__(other)


@composite(forms="method")
def float_power_(self, exponent):
    """``self ** exponent`` in place, for double precision.

    Raises:
        RuntimeError: for tensors of other dtypes, which cannot hold the result.
    """
    is_tensor = isinstance(exponent, TensorBase)
    of_complex = self.is_complex() or (
        exponent.is_complex() if is_tensor else isinstance(exponent, complex)
    )
    required = complex128 if of_complex else float64
    if self.dtype is not required:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype.scalar_name} but the "
            f"operation's result requires dtype {required.scalar_name}"
        )
    overload = "Tensor_Tensor" if is_tensor else "Tensor_Scalar"
    return call_inplace(op_named(f"float_power.{overload}"), (self, exponent))


@composite(forms="function method")
def conj(input):
    """A view of the complex conjugate; a real tensor is returned as it is.

    >>> import ftorch as torch
    >>> x = torch.tensor([1 + 2j])
    >>> y = torch.conj(x)
    >>> y, y.is_conj()
    (tensor([1.-2.j]), True)
    """
    return view_call(OPS["_conj"], input) if input.is_complex() else input


@composite(forms="function method")
def resolve_conj(input):
    """The tensor itself, or a copy if it is a conjugate view."""
    return input.clone() if input.is_conj() else input


@composite(forms="function method")
def resolve_neg(input):
    """The tensor itself, or a copy if it is the negated part of a conjugate view."""
    return input.clone() if input.is_neg() else input


@composite(forms="function method", aliases="absolute_")
def abs_(input):
    """The absolute value, in place.

    Raises:
        RuntimeError: for complex tensors, which would become real.
    """
    if input.is_complex():
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return call_inplace(op_named("abs"), (input,))
