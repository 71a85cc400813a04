"""An optimizer behind whose steps parameters are averaged."""

from __future__ import annotations

import warnings

import ftorch as torch

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(torch.optim.Optimizer):
    """Another optimizer, and an averager that is called after each of its steps
    (``torch.distributed.optim.PostLocalSGDOptimizer``)."""

    def __init__(self, optim, averager):
        self.optim, self.averager = optim, averager
        self.param_groups = self.optim.param_groups

    @property
    def state(self):
        """The optimizer's."""
        return self.optim.state

    def __repr__(self):
        return repr(self.optim)

    def state_dict(self):
        """The optimizer's, with the averager's step."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict):
        """Sets both."""
        self.optim.load_state_dict({k: v for k, v in state_dict.items() if k != "step"})
        if "step" in state_dict:
            self.averager.step = state_dict["step"]
        else:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
                stacklevel=2,
            )
            self.averager.step = 0

    def step(self):
        """One step of the optimizer, then the averager."""
        self.optim.step()
        self.averager.average_parameters(params=self.param_groups)

    def zero_grad(self, set_to_none: bool = True):
        """The optimizer's."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        """The optimizer's."""
        self.optim.add_param_group(param_group)
