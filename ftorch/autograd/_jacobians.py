"""Jacobians by differences and by backward passes, under the names that PyTorch's ``gradcheck`` has for them."""

from __future__ import annotations

import warnings

import numpy as np

from ..eager.autograd.backward import grad as _grad
from ..eager.core import api
from ..eager.core.formats import strided
from ._finite_differences import _get_numerical_jacobian, _iter_tensors, numerical

__all__ = ["get_analytical_jacobian", "get_numerical_jacobian", "get_numerical_jacobian_wrt_specific_input"]

_PRIVATE = (
    "`{}` was part of PyTorch's private API and not meant to be exposed. We are deprecating it and it will be removed in a "
    "future version of PyTorch. If you have a specific use for this or feature request for this to be a stable API, please "
    "file us an issue at https://github.com/pytorch/pytorch/issues/new"
)


def _as_tuple(x) -> tuple:
    """Several values as a tuple, one as a tuple of it."""
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _differentiable_outputs(x) -> tuple:
    """The values that require grad."""
    return tuple(o for o in _as_tuple(x) if o.requires_grad)


def get_numerical_jacobian_wrt_specific_input(fn, input_idx, inputs, outputs, eps, input=None, is_forward_ad=False):
    """A Jacobian for each output, by central differences, of the input of an index.

    Args:
        fn: gives the outputs for ``inputs``, whose elements are changed while it is called.
        input: the tensor that is changed, if it is not the input itself.

    Returns:
        Tensors of (elements of the input, elements of the output).

    >>> import ftorch as torch
    >>> from ftorch.autograd.gradcheck import get_numerical_jacobian_wrt_specific_input
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> get_numerical_jacobian_wrt_specific_input(lambda x: x * 3, 0, (x,), (x * 3,), 1e-3)[0].round()
    tensor([[3., 0.],
            [0., 3.]], dtype=torch.float64)
    """
    x = inputs[input_idx] if input is None else input
    for o in outputs:
        if o.is_complex() and (x.is_complex() or not is_forward_ad):
            raise AssertionError(f"Expected ds_dx to be real-valued, not complex{'' if x.is_complex() else '.'}")
    found = numerical(fn, inputs, x, outputs, eps, np.asarray)
    return tuple(
        api.from_numpy(j).to(x.dtype if x.is_complex() else o.dtype) for j, o in zip(found, outputs, strict=True)
    )


def get_numerical_jacobian(fn, inputs, target=None, eps=1e-3, grad_out=1.0):
    """The first output's Jacobian in each input that requires grad; ``fn`` is called with the tuple of inputs.

    Raises:
        ValueError: for another ``grad_out``, or complex outputs.
    """
    warnings.warn(_PRIVATE.format("get_numerical_jacobian"), FutureWarning, stacklevel=2)
    if grad_out != 1.0:
        raise ValueError("Expected grad_out to be 1.0. get_numerical_jacobian no longer supports values of grad_out != 1.0.")
    found = _get_numerical_jacobian(lambda *given: _as_tuple(fn(given)), inputs, None, target, eps)
    return tuple(per_output[0] for per_output in found)


def _rows_of(inputs, output):
    """The gradients of each element of an output in each input, as rows; None where there is none."""
    found = []
    for place in range(output.numel()):
        seed = output.new_zeros(output.numel())
        seed[place] = 1
        found.append(_grad(output, inputs, seed.reshape(output.shape), retain_graph=True, allow_unused=True))
    return found


def get_analytical_jacobian(inputs, output, nondet_tol=0.0, grad_out=1.0):
    """(the output's Jacobian in each input that requires grad, whether a second backward pass gives the same, whether gradients
    have the inputs' sizes, and their dtypes).

    Raises:
        ValueError: for another ``grad_out``, or a complex output.
    """
    warnings.warn(_PRIVATE.format("get_analytical_jacobian"), FutureWarning, stacklevel=2)
    if grad_out != 1.0:
        raise ValueError("Expected grad_out to be 1.0. get_analytical_jacobian no longer supports values of grad_out != 1.0.")
    if output.is_complex():
        raise ValueError("Expected output to be non-complex. get_analytical_jacobian no longer supports functions that return "
                         "complex outputs.")
    leaves = list(_iter_tensors(inputs, True))
    first, again = _rows_of(leaves, output), _rows_of(leaves, output)
    jacobians, is_reentrant, sizes, dtypes = [], True, True, True
    for i, x in enumerate(leaves):
        columns = []
        for row, other in zip(first, again):
            g, h = row[i], other[i]
            if g is None:
                columns.append(api.zeros(x.numel(), dtype=x.dtype))
                continue
            sizes, dtypes = sizes and g.shape == x.shape, dtypes and g.dtype == x.dtype
            g, h = (v.to_dense() if v.layout is not strided else v for v in (g, h))
            is_reentrant = is_reentrant and bool(((g - h).abs() <= nondet_tol).all())
            columns.append(g.reshape(-1))
        jacobians.append(api.stack(columns, 1) if columns else api.zeros(x.numel(), 0, dtype=x.dtype))
    return tuple(jacobians), is_reentrant, sizes, dtypes
