"""Optimizer steps that follow the reduction of each bucket."""

from __future__ import annotations

__all__: list[str] = []


class _OptimizerHookState:
    """A functional optimizer, and the parameters that it updates (None: all).

    Raises:
        ValueError: for an optimizer without ``step_param``.
    """

    def __init__(self, functional_optim, params=None):
        if not hasattr(functional_optim, "step_param"):
            raise ValueError(
                f"Class {type(functional_optim)} must implement method step_param."
            )
        self.functional_optimizer = functional_optim
        self.params_to_optimize = None if params is None else set(params)


def _hook_then_optimizer(hook, optimizer_state):
    """A hook after which the bucket's parameters are updated."""

    def both(hook_state, bucket):
        def update(future):
            value = future.value()
            bucket.set_buffer(value[0] if isinstance(value, (list, tuple)) else value)
            wanted = optimizer_state.params_to_optimize
            for gradient, parameter in zip(bucket.gradients(), bucket.parameters()):
                if wanted is None or parameter in wanted:
                    optimizer_state.functional_optimizer.step_param(parameter, gradient)
            return bucket.buffer()

        return hook(hook_state, bucket).then(update)

    return both
