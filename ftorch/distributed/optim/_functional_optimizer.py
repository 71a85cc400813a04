"""Optimizers that are given gradients instead of finding them in parameters."""

from __future__ import annotations

import ftorch as torch


class FunctionalOptimizer:
    """An optimizer of a class of `ftorch.optim` whose gradients are arguments.

    Args:
        params: the parameters of `step`. ``defaults``: for the optimizer.

    Raises:
        ValueError: without parameters.
    """

    optimizer_class: type[torch.optim.Optimizer]
    renamed: dict[str, str] = {}

    def __init__(self, params, *args, _allow_empty_param_list: bool = False, **defaults):
        import inspect

        params = list(params)
        if not params and not _allow_empty_param_list:
            raise ValueError("optimizer got an empty parameter list")
        names = [n for n in inspect.signature(self.optimizer_class).parameters if n != "params"]
        defaults |= dict(zip(names, args))
        known = set(names)
        self.options = {k: v for k, v in defaults.items() if k in known}
        signature = inspect.signature(self.optimizer_class).parameters
        self.defaults = {n: signature[n].default for n in names} | self.options
        self.param_group = {"params": params}
        self._optimizers: dict = {}

    @property
    def state(self) -> dict:
        """The states by parameter."""
        return {p: o.state[p] for p, o in self._optimizers.items() if p in o.state}

    def step_param(self, param, grad) -> None:
        """Updates one parameter (not at all without a gradient)."""
        if grad is None:
            return
        optimizer = self._optimizers.get(param)
        if optimizer is None:
            optimizer = self._optimizers[param] = self.optimizer_class([param], **self.options)
        kept, param.grad = param.grad, grad
        try:
            optimizer.step()
        finally:
            param.grad = kept

    def step(self, gradients) -> None:
        """Updates all parameters.

        Raises:
            ValueError: for another number of gradients.
        """
        params = self.param_group["params"]
        if len(params) != len(gradients):
            raise ValueError(
                "the gradients passed in does not equal to the size of the parameters!"
                f"Params length: {len(params)}. Gradients length: {len(gradients)}"
            )
        for p, g in zip(params, gradients):
            self.step_param(p, g)
