"""Programs as trees of modules again: the names of ``torch.export.unflatten``."""

from __future__ import annotations

from enum import Enum

import ftorch as torch

from ._unflatten import FlatArgsAdapter, InterpreterModule, UnflattenedModule, unflatten

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]


class _AttrKind(Enum):
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"
    MODULE = "module"


def _assign_attr(from_obj, to_module, target: str, attr_kind: _AttrKind, persistent: bool = True) -> None:
    """Puts something at a path of a module, making the modules on the way; those called again (``name@1``) share it."""
    *path, field = target.split(".")
    modules = [to_module]
    for item in path:
        for module in modules:
            if not hasattr(module, item):
                setattr(module, item, torch.nn.Module())
        modules = [child for module in modules for name, child in module._modules.items() if name.split("@")[0] == item]
    wanted = {"PARAMETER": torch.nn.Parameter, "BUFFER": torch.Tensor, "CONSTANT": (torch.Tensor, torch.ScriptObject),
              "MODULE": torch.nn.Module}[attr_kind.name]
    if not isinstance(from_obj, wanted):
        raise AssertionError(f"expected a {wanted} for {attr_kind.name} attr_kind, got {type(from_obj)}")
    for module in modules:
        if attr_kind is _AttrKind.PARAMETER:
            module.register_parameter(field, from_obj)
        elif attr_kind is _AttrKind.BUFFER:
            module.register_buffer(field, from_obj, persistent=persistent)
        else:
            setattr(module, field, from_obj)
