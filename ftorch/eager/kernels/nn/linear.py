"""Linear and bilinear layers."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax

from ...core.registry import op
from .._common import broadcast_shapes, dtype_name, opmath, up
from ..linalg.matmul import check_expands, check_mm, matmul, product


@op("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", public="nn.functional",
    forms="function out")
def linear(input, weight, bias):
    """``input @ weight.T + bias`` (``torch.nn.functional.linear``).

    Args:
        input: (..., in); weight: (out, in) or (in,); bias: (out,) or None.

    Raises:
        RuntimeError: for shapes or dtypes that do not fit.

    >>> import ftorch as torch
    >>> torch.nn.functional.linear(torch.ones(2), torch.ones(3, 2), torch.zeros(3))
    tensor([2., 2., 2.])
    """
    if not input.ndim or not weight.ndim:
        raise RuntimeError(
            "both arguments to linear need to be at least 1D, but they are "
            f"{input.ndim}D and {weight.ndim}D"
        )
    if weight.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {weight.ndim}D"
        )
    if weight.ndim == 1:
        if bias is not None:
            raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
        return matmul(input, weight)
    rows = math.prod(input.shape[:-1])
    if bias is not None:
        if bias.dtype != weight.dtype:
            raise RuntimeError(
                f"self and mat2 must have the same dtype, but got {dtype_name(bias.dtype)} and "
                f"{dtype_name(weight.dtype)}"
            )
        if input.dtype != weight.dtype and input.shape[-1] == weight.shape[1]:
            raise RuntimeError(
                f"mat1 and mat2 must have the same dtype, but got {dtype_name(input.dtype)} and "
                f"{dtype_name(weight.dtype)}"
            )
        if input.ndim <= 2 or bias.ndim <= 1:
            check_expands(bias.shape, (rows, weight.shape[0]))
        else:
            broadcast_shapes((*input.shape[:-1], weight.shape[0]), bias.shape)
    check_mm(input, weight.T, shape=(rows, input.shape[-1]))
    dimensions = (((input.ndim - 1,), (1,)), ((), ()))
    if bias is None:
        return lax.dot_general(input, weight, dimensions)
    wide = lax.dot_general(
        input, weight, dimensions, preferred_element_type=opmath(input.dtype)
    )
    return (wide + up(bias)).astype(input.dtype)


@linear.derivative
def _(grad, input, weight, bias):
    conj_input, conj_weight = jnp.conj(input), jnp.conj(weight)
    if weight.ndim == 1:
        return (
            grad[..., None] * conj_weight,
            jnp.tensordot(grad, conj_input, axes=grad.ndim),
            None,
        )
    rows = tuple(range(grad.ndim - 1))
    return (
        product(grad, conj_weight),
        jnp.tensordot(grad, conj_input, axes=(rows, rows)),
        None if bias is None else grad,
    )


@op("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    public=". nn.functional")
def bilinear(input1, input2, weight, bias):
    """``input1^T weight input2 + bias`` for each output (``torch.nn.functional.bilinear``).

    Args:
        input1: (..., in1); input2: (..., in2); weight: (out, in1, in2); bias: (out,) or None.

    Raises:
        RuntimeError: for shapes that do not fit.
    """
    if input1.ndim != input2.ndim:
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}"
        )
    for i, (a, b) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if a != b:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {i}: got {a} and {b}"
            )
    for i, x in ((1, input1), (2, input2)):
        if x.shape[-1] != weight.shape[i]:
            raise RuntimeError(
                f"bilinear(): input{i} size does not match weight size: got {x.shape[-1]} but "
                f"expected {weight.shape[i]}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but "
            f"expected {weight.shape[0]}"
        )
    result = jnp.einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else result + bias
