"""Optimizers that step as soon as a parameter's gradient is there."""

from __future__ import annotations

__all__: list[str] = []


def _apply_optimizer_in_backward(optimizer_class, params, optimizer_kwargs, register_hook: bool = True) -> None:
    """Gives each parameter an optimizer of its own, whose step follows its gradient in backward; the
    gradient is freed then."""
    for param in params:
        if not hasattr(param, "_in_backward_optimizers"):
            param._in_backward_optimizers, param._optimizer_classes = [], []
            param._optimizer_kwargs = []
        param._in_backward_optimizers.append(optimizer_class([param], **optimizer_kwargs))
        param._optimizer_classes.append(optimizer_class)
        param._optimizer_kwargs.append(optimizer_kwargs)
        if not register_hook or len(param._in_backward_optimizers) > 1:
            continue

        def step(p):
            for optimizer in p._in_backward_optimizers:
                optimizer.step()
            p.grad = None

        param._in_backward_handle = param.register_post_accumulate_grad_hook(step)


def _get_in_backward_optimizers(module) -> list:
    """The optimizers of a module's parameters."""
    return [o for p in module.parameters() for o in getattr(p, "_in_backward_optimizers", [])]
