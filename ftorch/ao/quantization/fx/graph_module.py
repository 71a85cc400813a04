"""Graph modules that keep some of the model's attributes (``torch.ao.quantization.fx.graph_module``)."""

from __future__ import annotations

import copy
from typing import Any

import ftorch as torch
from ftorch.fx import GraphModule

__all__ = ["FusedGraphModule", "ObservedGraphModule", "ObservedStandaloneGraphModule", "QuantizedGraphModule"]

_ATTRIBUTES = "_observed_graph_module_attrs"


class FusedGraphModule(GraphModule):
    """A graph module with some attributes of its root."""

    def __init__(self, root, graph, preserved_attr_names: set[str]):
        self.preserved_attr_names = preserved_attr_names
        kept = {name: getattr(root, name) for name in preserved_attr_names if hasattr(root, name)}
        super().__init__(root, graph)
        self.preserved_attr_names = preserved_attr_names
        for name, value in kept.items():
            setattr(self, name, value)

    def __deepcopy__(self, memo):
        root = torch.nn.Module()
        root.__dict__ = copy.deepcopy(self.__dict__, memo)
        return type(self)(root, copy.deepcopy(self.graph), copy.deepcopy(self.preserved_attr_names))


class ObservedGraphModule(FusedGraphModule):
    """A graph module that is observed."""


class ObservedStandaloneGraphModule(ObservedGraphModule):
    """A graph module that is observed, inside of another one."""


class QuantizedGraphModule(FusedGraphModule):
    """A graph module whose packed weights are saved with its state."""

    def __init__(self, root, graph, preserved_attr_names: set[str]):
        super().__init__(root, graph, preserved_attr_names)
        self._register_state_dict_hook(_save_packed_weight)
        self.register_load_state_dict_pre_hook(_load_packed_weight)


def _is_packed(value) -> bool:
    return hasattr(value, "unpack") and not isinstance(value, torch.nn.Module)


def _save_packed_weight(self, destination, prefix, keep_vars):
    """Puts a module's packed weights into its state."""
    for name, value in sorted(vars(self).items()):
        if "_packed_weight" in name and _is_packed(value):
            destination[prefix + name] = value


def _load_packed_weight(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    """Takes a module's packed weights from a state."""
    for key in [k for k in state_dict if "_packed_weight" in k and k.startswith(prefix)]:
        name = key[len(prefix):]
        if hasattr(self, name) and _is_packed(state_dict[key]):
            setattr(self, name, state_dict.pop(key))


def _is_observed_module(module: Any) -> bool:
    return hasattr(module, "meta") and _ATTRIBUTES in module.meta


def _get_observed_graph_module_attr(model, attr_name: str) -> Any:
    return getattr(model.meta[_ATTRIBUTES], attr_name) if _is_observed_module(model) else None


def _is_observed_standalone_module(module: Any) -> bool:
    return bool(_get_observed_graph_module_attr(module, "is_observed_standalone_module"))
