"""Gradients of each example by a wrapped module (``torch.nn.utils._per_sample_grad``)."""

from __future__ import annotations

import functools

from ...eager.core import api as torch
from ...eager.tensor import Tensor


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """A function that calls a module so that ``backward`` gives each parameter the gradients of each example.

    They arrive as ``parameter.grad_sample``, with the examples along the first dimension.

    Args:
        batch_size: the number of examples; None to take it from the first tensor given.
        loss_reduction: how the loss is made of the examples': for "mean" the gradients are multiplied by
            their number.
        batch_first: whether examples lie along the first dimension of inputs (else the second).

    Raises:
        RuntimeError: for other reductions, and for modules that are none.
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not hasattr(module, "named_parameters"):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    dim = 0 if batch_first else 1

    def size_of(args, kwargs):
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tensor):
                return value.shape[dim]
        raise RuntimeError("Unable to find a tensor in the passed args and kwargs. Please pass batch_size")

    @functools.wraps(module.forward)
    def wrapper(*args, **kwargs):
        from ...func import functional_call, vmap

        count = batch_size or size_of(args, kwargs)
        expanded = {}
        for name, parameter in module.named_parameters():
            if not parameter.requires_grad:
                continue
            copies = parameter.detach().expand(count, *parameter.shape).requires_grad_()
            copies.register_hook(functools.partial(_keep, parameter, count, loss_reduction))
            expanded[name] = copies
        dims = tuple(dim if isinstance(a, Tensor) else None for a in args)
        named = {k: dim if isinstance(v, Tensor) else None for k, v in kwargs.items()}

        def one(parameters, args, kwargs):
            args = [a.unsqueeze(dim) if d is not None else a for a, d in zip(args, dims)]
            kwargs = {k: v.unsqueeze(dim) if named[k] is not None else v for k, v in kwargs.items()}
            return functional_call(module, parameters, tuple(args), kwargs).squeeze(dim)

        return vmap(one, (0, dims, named), dim, randomness="different")(expanded, args, kwargs)

    return wrapper


def _keep(parameter, count, reduction, grad):
    grad = grad * count if reduction == "mean" else grad
    before = getattr(parameter, "grad_sample", None)
    parameter.grad_sample = grad.detach() if before is None else torch.add(before, grad.detach())
