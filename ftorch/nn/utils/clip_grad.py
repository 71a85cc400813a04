"""Limits on the gradients of a model's parameters."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable

from ...autograd import no_grad
from ...eager.core import api as torch
from ...eager.tensor import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]

# Every function here takes ``foreach`` as PyTorch's do. Whatever it says, the operations of all
# tensors run as one program.


@no_grad()
def _get_total_norm(tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0,
                    error_if_nonfinite: bool = False,
                    foreach: bool | None = None) -> Tensor:
    """The norm of the elements of all tensors together (``torch.nn.utils.get_total_norm``).

    Returns:
        A 0-d tensor on the device of the first tensor; 0 without tensors.

    Raises:
        RuntimeError: if it is inf or nan and ``error_if_nonfinite``.

    >>> import ftorch as torch
    >>> torch.nn.utils.get_total_norm([torch.tensor([3.]), torch.tensor([4.])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return torch.tensor(0.0)
    device = tensors[0].device
    norms = [torch.linalg.vector_norm(tensor, norm_type).to(device) for tensor in tensors]
    total_norm = torch.linalg.vector_norm(torch.stack(norms), norm_type)
    if error_if_nonfinite and not total_norm.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from "
            "`parameters` is non-finite, so it cannot be clipped. To disable "
            "this error and scale the gradients by the non-finite norm anyway, "
            "set `error_if_nonfinite=False`"
        )
    return total_norm


@no_grad()
def _clip_grads_with_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float,
                           total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scales gradients in place by ``max_norm / total_norm``, where that makes them smaller
    (``torch.nn.utils.clip_grads_with_norm_``)."""
    grads = _gradients(parameters)
    if not grads:
        return
    # Multiplying by 1 costs less than looking at the value to decide.
    coefficient = torch.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    for grad in grads:
        grad.mul_(coefficient.to(grad.device))


@no_grad()
def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float,
                    norm_type: float = 2.0, error_if_nonfinite: bool = False,
                    foreach: bool | None = None) -> Tensor:
    """Scales gradients in place so that their norm is at most ``max_norm``
    (``torch.nn.utils.clip_grad_norm_``).

    The norm is that of the elements of all gradients together. Parameters without gradients are
    left out.

    Returns:
        The norm as it was.

    Raises:
        RuntimeError: if it is inf or nan and ``error_if_nonfinite``.

    >>> import ftorch as torch
    >>> p = torch.nn.Parameter(torch.zeros(2))
    >>> p.grad = torch.tensor([3., 4.])
    >>> torch.nn.utils.clip_grad_norm_([p], 1.0), p.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    if not isinstance(parameters, Tensor):
        is_generator = isinstance(parameters, types.GeneratorType)
        parameters = list(parameters)
        if is_generator and not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.",
                stacklevel=3,
            )
    total_norm = _get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    _clip_grads_with_norm_(parameters, max_norm, total_norm)
    return total_norm


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The former name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float,
                     foreach: bool | None = None) -> None:
    """Clamps gradients in place to ``[-clip_value, clip_value]``
    (``torch.nn.utils.clip_grad_value_``).

    Raises:
        RuntimeError: there is no gradient.
    """
    clip_value = float(clip_value)
    grads = _gradients(parameters)
    if not grads:
        raise RuntimeError("Expected !nested_tensorlist[0].empty() to be true, but got false.  (Could this error message be "
                           "improved?  If so, please report an enhancement request to PyTorch.)")
    for grad in grads:
        grad.clamp_(min=-clip_value, max=clip_value)


def _gradients(parameters):
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p.grad for p in parameters if p.grad is not None]
