"""Finite differences: how the outputs of a function change with one of its inputs."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np

from ..eager.call.elements import elements as _elements
from ..eager.core import api as torch
from ..eager.core.dtype import from_numpy
from ..eager.core.geometry import Size
from ..eager.tensor import TensorBase
from .grad_mode import enable_grad, no_grad


def tensors(values):
    values = values if isinstance(values, (tuple, list)) else (values,)
    return tuple(v for v in values if isinstance(v, TensorBase))


def is_inexact(t):
    return t.is_floating_point() or t.is_complex()


def outputs(func, inputs):
    """The outputs that can have derivatives."""
    return tuple(o for o in tensors(func(*inputs)) if is_inexact(o))


def _iter_tensors(x, only_requiring_grad: bool = False):
    """The tensors of nested iterables, or those of them that require gradients."""
    if isinstance(x, TensorBase):
        if x.requires_grad or not only_requiring_grad:
            yield x
    elif isinstance(x, Iterable) and not isinstance(x, str):
        for item in x:
            yield from _iter_tensors(item, only_requiring_grad)


def _perturbed(func, inputs, t, change):
    """Outputs (as arrays) with the elements of one input changed in place, and put back."""
    with no_grad():
        before = t.detach().clone()
        t.data.add_(change)
    outer, running.inside = running.inside, True
    try:
        with enable_grad():
            found = [np.array(_elements(o.detach())) for o in outputs(func, inputs)]
    finally:
        running.inside = outer
        with no_grad():
            t.data.copy_(before)
    return found


class Running(threading.local):
    """Whether a function runs for finite differences: sparse inputs have all their places then."""

    inside = False


running = Running()


def difference(func, inputs, t, direction, eps, index=None):
    """Derivatives of all outputs along a direction of one input, by central differences.

    Args:
        index: the element that the direction is along, for errors.

    Raises:
        AssertionError: the shape or dtype of an output depends on the values.
    """
    step = torch.from_numpy(np.asarray(direction * eps)).to(t.dtype)
    minus = _perturbed(func, inputs, t, -step)
    plus = _perturbed(func, inputs, t, step)
    where = "" if index is None else f" on index {tuple(map(int, np.unravel_index(index, t.shape)))}"
    for one, other in zip(minus, plus):
        for what, pair in (("shape", [Size(a.shape) for a in (one, other)]),
                           ("dtype", [from_numpy(a.dtype) for a in (one, other)])):
            if pair[0] != pair[1]:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are perturbed{where} by {eps}, "
                    f"but got: {what}s {pair[0]} and {pair[1]}."
                )
    return [(p - m) / (2 * eps) for p, m in zip(plus, minus)]


def unit(t, index, value):
    direction = np.zeros(t.shape, t.dtype.numpy)
    direction.reshape(-1)[index] = value
    return direction


def numerical(func, inputs, t, outputs, eps, part):
    """Jacobians (elements of input x elements of output), one per output.

    For complex inputs the columns are d/da + i d/db of the chosen part of the output: what PyTorch's
    backward gives for a gradient of 1 (or i).
    """
    jacobians = [
        np.zeros((t.numel(), o.numel()), np.complex128 if t.is_complex() else np.float64)
        for o in outputs
    ]
    for i in range(t.numel()):
        columns = [part(d) for d in difference(func, inputs, t, unit(t, i, 1), eps, i)]
        if t.is_complex():
            imaginary = [part(d) for d in difference(func, inputs, t, unit(t, i, 1j), eps, i)]
            columns = [a + 1j * b for a, b in zip(columns, imaginary)]
        for n, (jacobian, column) in enumerate(zip(jacobians, columns)):
            if column.dtype.kind == "c" and jacobian.dtype.kind != "c":  # a complex output of a real input
                jacobian = jacobians[n] = jacobian.astype(np.complex128)
            jacobian[i] = np.asarray(column).reshape(-1)
    return jacobians


def _get_numerical_jacobian(fn, inputs, outputs=None, target=None, eps=1e-3, is_forward_ad=False):
    """For each tensor of ``target`` (the inputs) that requires gradients, its Jacobians for all outputs.

    Args:
        target: tensors that ``fn`` reads; they are changed for a moment.
        is_forward_ad: outputs may be complex.

    Raises:
        ValueError: an output is complex.
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    outputs = tensors(fn(*inputs)) if outputs is None else outputs
    if not is_forward_ad and any(o.is_complex() for o in outputs):
        raise ValueError("Expected output to be non-complex. get_numerical_jacobian no longer supports functions that return "
                         "complex outputs.")
    found = []
    for t in _iter_tensors(inputs if target is None else target, True):
        if t.is_complex() and any(o.is_complex() for o in outputs):
            raise AssertionError("Expected ds_dx to be real-valued, not complex")
        jacobians = numerical(fn, inputs, t, outputs, eps, np.asarray)
        found.append(tuple(
            torch.from_numpy(j).to(t.dtype if t.is_complex() or not o.is_complex() else o.dtype)
            for j, o in zip(jacobians, outputs)
        ))
    return found
