"""Modules by their names, and masks as parametrizations (``torch.ao.pruning.sparsifier.utils``)."""

from __future__ import annotations

from typing import Any

import ftorch as torch
from ftorch import nn
from ftorch.nn.utils.parametrize import is_parametrized, type_before_parametrizations

__all__ = [
    "FakeSparsity", "fqn_to_module", "get_arg_info_from_tensor_fqn", "module_contains_param", "module_to_fqn",
    "swap_module",
]


def module_contains_param(module: nn.Module, parametrization: type[nn.Module]) -> bool:
    """Whether a parameter of a module has a parametrization of a type."""
    if not is_parametrized(module):
        return False
    return any(isinstance(p, parametrization) for found in module.parametrizations.values() for p in found)


def swap_module(mod: nn.Module, mapping: dict[type[nn.Module], type[nn.Module]]) -> nn.Module:
    """The sparse module of a dense one, ``from_dense``, with its hooks; others as they are.

    Raises:
        AssertionError: for a module on several devices.
    """
    kind = type_before_parametrizations(mod)
    if kind not in mapping:
        return mod
    new: Any = mapping[kind]
    new = new.from_dense(mod)
    for hook in mod._forward_pre_hooks.values():
        new.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        new.register_forward_hook(hook)
    devices = {t.device for t in (*mod.parameters(), *mod.buffers())}
    if len(devices) > 1:
        raise AssertionError(
            f"swap_module only works with cpu or single-device CUDA modules, but got devices {devices}"
        )
    for device in devices:
        new.to(device)
    return new


def module_to_fqn(model: nn.Module, module: nn.Module, prefix: str = "") -> str | None:
    """The path of a submodule, "" for the model; None if it is none."""
    for name, found in model.named_modules():
        if found is module:
            return prefix + name if name else ""
    return None


def fqn_to_module(model: nn.Module | None, path: str) -> nn.Module | None:
    """The submodule of a path, or None."""
    for name in path.split(".") if path else ():
        model = getattr(model, name, None)
    return model


def get_arg_info_from_tensor_fqn(model: nn.Module, tensor_fqn: str) -> dict[str, Any]:
    """{"module_fqn", "module", "tensor_name", "tensor_fqn"} of a parameter's path.

    >>> import ftorch as torch
    >>> torch.ao.pruning.get_arg_info_from_tensor_fqn(torch.nn.Sequential(torch.nn.Linear(1, 1)), "0.weight")["module"]
    Linear(in_features=1, out_features=1, bias=True)
    """
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    return {
        "module_fqn": module_fqn, "module": fqn_to_module(model, module_fqn), "tensor_name": tensor_name,
        "tensor_fqn": tensor_fqn,
    }


class FakeSparsity(nn.Module):
    """A parametrization that multiplies with a mask, which is not saved with the module.

    Args:
        mask: of the parameter's shape.
    """

    mask: torch.Tensor

    def __init__(self, mask):
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x):
        if self.mask.shape != x.shape:
            raise AssertionError(f"mask shape ({self.mask.shape}) must match x shape ({x.shape})")
        return self.mask * x

    def state_dict(self, *args, **kwargs):
        """Nothing: the sparsifier saves the mask."""
        return {}
