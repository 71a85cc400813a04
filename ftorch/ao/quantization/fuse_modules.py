"""Joining layers of a model (``torch.ao.quantization.fuse_modules``)."""

from __future__ import annotations

import copy

from ftorch import nn
from ftorch.nn.utils.parametrize import type_before_parametrizations

from .fuser_method_mappings import fuse_conv_bn, fuse_conv_bn_relu, get_fuser_method  # noqa: F401

__all__ = ["fuse_known_modules", "fuse_modules", "fuse_modules_qat"]


def _get_module(model, submodule_key):
    for name in submodule_key.split("."):
        model = getattr(model, name)
    return model


def _set_module(model, submodule_key, module):
    *path, last = submodule_key.split(".")
    for name in path:
        model = getattr(model, name)
    setattr(model, last, module)


def fuse_known_modules(mod_list, is_qat, additional_fuser_method_mapping=None):
    """Joined modules: the first is what they became, the others identities. Hooks move along.

    Raises:
        NotImplementedError: if they cannot be joined.
    """
    types = tuple(type_before_parametrizations(m) for m in mod_list)
    fuser_method = get_fuser_method(types, additional_fuser_method_mapping)
    if fuser_method is None:
        raise NotImplementedError(f"Cannot fuse modules: {types}")
    fused = fuser_method(is_qat, *mod_list)
    for hook in list(mod_list[0]._forward_pre_hooks.values()):
        fused.register_forward_pre_hook(hook)
    mod_list[0]._forward_pre_hooks.clear()
    for hook in list(mod_list[-1]._forward_hooks.values()):
        fused.register_forward_hook(hook)
    mod_list[-1]._forward_hooks.clear()
    identities = []
    for _ in mod_list[1:]:
        identity = nn.Identity()
        identity.training = mod_list[0].training
        identities.append(identity)
    return [fused, *identities]


def _fuse(model, groups, is_qat, inplace, fuser_func, custom):
    if not inplace:
        model = copy.deepcopy(model)
    additional = (custom or {}).get("additional_fuser_method_mapping", {})
    if all(isinstance(name, str) for name in groups):
        groups = [groups]
    for names in groups:
        new = fuser_func([_get_module(model, name) for name in names], is_qat, additional)
        for name, module in zip(names, new):
            _set_module(model, name, module)
    return model


def fuse_modules(model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None):
    """Joins layers of a model that is evaluated: convolutions or linear layers with normalizations and ReLUs.

    Args:
        modules_to_fuse: a list of names, or a list of such lists.

    >>> import ftorch as torch
    >>> m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
    >>> type(torch.ao.quantization.fuse_modules(m, ["0", "1"])[0]).__name__
    'LinearReLU'
    """
    return _fuse(model, modules_to_fuse, False, inplace, fuser_func, fuse_custom_config_dict)


def fuse_modules_qat(
    model, modules_to_fuse, inplace=False, fuser_func=fuse_known_modules, fuse_custom_config_dict=None
):
    """`fuse_modules` of a model that is trained: normalizations stay, beside what they follow."""
    return _fuse(model, modules_to_fuse, True, inplace, fuser_func, fuse_custom_config_dict)
