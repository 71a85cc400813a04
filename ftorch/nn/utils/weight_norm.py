"""Weight normalization by a hook (deprecated; see `torch.nn.utils.parametrizations.weight_norm`)."""

from __future__ import annotations

import warnings

from ...eager.core import api as torch
from ..parameter import Parameter, UninitializedParameter
from . import _hooks

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """The hook that computes ``name`` from ``name_g`` (norms) and ``name_v`` (directions)."""

    def __init__(self, name, dim):
        self.name = name
        self.dim = -1 if dim is None else dim

    @property
    def tensor_name(self):
        return self.name

    def compute_weight(self, module):
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return torch._weight_norm(v, g, self.dim)

    @staticmethod
    def apply(module, name, dim):
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of "
            "`torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        _hooks.refuse_second(module, WeightNorm, name, "weight_norm")
        hook = WeightNorm(name, dim)
        weight = getattr(module, name)
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `WeightNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying weight normalization"
            )
        del module._parameters[name]
        norms = torch.norm_except_dim(weight, 2, hook.dim).data
        module.register_parameter(name + "_g", Parameter(norms))
        module.register_parameter(name + "_v", Parameter(weight.data))
        hook(module, None)
        module.register_forward_pre_hook(hook)
        return hook

    def remove(self, module):
        weight = self.compute_weight(module)
        delattr(module, self.name)
        for suffix in ("_g", "_v"):
            del module._parameters[self.name + suffix]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module, inputs):
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module, name="weight", dim=0):
    """Splits a parameter into norms ``name_g`` and directions ``name_v``, joined before each call.

    Deprecated: `torch.nn.utils.parametrizations.weight_norm`.

    Raises:
        RuntimeError: if it is split already. ValueError: for a lazy module's parameter.
    """
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module, name="weight"):
    """Joins what `weight_norm` split. Raises ValueError if it was not."""
    return _hooks.take(module, WeightNorm, name, f"weight_norm of '{name}' not found in {module}")
