"""Masks of rows, and the biases of such rows (``torch.ao.pruning._experimental.pruner.parametrization``)."""

from __future__ import annotations

import ftorch as torch
from ftorch import nn
from ftorch.ao.pruning.sparsifier.utils import module_contains_param

__all__ = ["BiasHook", "FakeStructuredSparsity", "module_contains_param"]


class FakeStructuredSparsity(nn.Module):
    """A parametrization that multiplies rows with a mask, which is not saved with the module.

    Args:
        mask: one boolean for each row.
    """

    mask: torch.Tensor

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x):
        if not isinstance(self.mask, torch.Tensor):
            raise AssertionError("mask must be a torch.Tensor")
        if self.mask.shape[0] != x.shape[0]:
            raise AssertionError(f"mask shape[0] ({self.mask.shape[0]}) must match x shape[0] ({x.shape[0]})")
        return self.mask.reshape(-1, *[1] * (x.dim() - 1)) * x

    def state_dict(self, *args, **kwargs):
        """Nothing: the sparsifier saves the mask."""
        return {}


class BiasHook:
    """A forward hook that adds the bias which ``prepare`` took out of a layer.

    Args:
        parametrization: with the layer's mask.
        prune_bias: whether biases of masked rows are zero.
    """

    def __init__(self, parametrization, prune_bias):
        self.param = parametrization
        self.prune_bias = prune_bias

    def __call__(self, module, input, output):
        if getattr(module, "_bias", None) is not None:
            bias = module._bias.data
            if self.prune_bias:
                bias[~self.param.mask] = 0
            output += bias.reshape(1, -1, *[1] * (output.dim() - 2))
        return output
