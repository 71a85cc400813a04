"""Hooks of tensors and nodes that see gradients: how they are called, and what they may give instead."""

from __future__ import annotations

from ..tensor import TensorBase
from .tape import RETAINED


def run_tensor_hooks(node, grads):
    """Calls the hooks of a node's results, which may replace their gradients."""
    for nr, registered in list(node._ftorch_tensor_hooks.items()):
        if nr >= len(grads):
            continue
        keep = registered.get(RETAINED)  # what is retained is what hooks make of it
        for hook in list(registered.values()):
            if hook is keep:
                continue
            # Without a gradient: none arrived at this result, but at another of its node.
            result = hook(grads[nr])
            if result is not None:
                if grads[nr] is None:
                    raise RuntimeError("can't replace a None gradient with a non-None value")
                check_replacement(hook, result, grads[nr])
                grads[nr] = result
        if keep is not None and grads[nr] is not None:
            keep(grads[nr])


def check_replacement(hook, result, grad):
    """Raises PyTorch's errors for what a hook gives instead of a gradient."""
    if not isinstance(result, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    name = getattr(hook, "__name__", "<unknown>")
    if result.dtype is not grad.dtype:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was {_type_name(grad)} got "
            f"{_type_name(result)})"
        )
    if result.device.type != grad.device.type:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was {_type_name(grad)} got {_type_name(result)})"
        )
    if tuple(result.shape) != tuple(grad.shape):
        raise RuntimeError(f"hook '{name}' has changed the size of value")


def check_replacements(hook, results, grads):
    """Raises PyTorch's errors for what a node's hook gives instead of its gradients."""
    if not isinstance(results, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(results).__name__}'")
    if len(results) != len(grads):
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', '<unknown>')}' has returned an incorrect number of values "
            f"(got {len(results)}, but expected {len(grads)})"
        )
    for result, grad in zip(results, grads):
        if result is None:
            continue
        if grad is None:
            raise RuntimeError("can't replace a None gradient with a non-None value")
        check_replacement(hook, result, grad)


def _type_name(t):
    if t.device.type == "meta":
        return f"Meta{t.dtype.scalar_name}Type"
    return (
        f"torch.{'' if t.device.type == 'cpu' else t.device.type + '.'}{t.dtype.scalar_name}Tensor"
    )


def run_post_hooks(node, outputs, grads):
    """Calls a node's hooks with the gradients of its inputs, as PyTorch counts them."""
    places = list(node._ftorch_shown_edges())
    for hook in list(node._ftorch_post_hooks.values()):
        shown = tuple(None if i is None or i >= len(outputs) else outputs[i] for i in places)
        result = hook(shown, tuple(grads))
        if result is not None:
            check_replacements(hook, result, shown)
            for i, g in zip(places, result):
                if i is not None:
                    outputs[i] = g
    return outputs
