"""What sparsifiers have in common (``torch.ao.pruning.sparsifier.base_sparsifier``)."""

from __future__ import annotations

import abc
import copy
from collections import defaultdict
from typing import Any

import ftorch as torch
from ftorch import nn
from ftorch.nn.utils import parametrize
from ftorch.nn.utils.parametrize import type_before_parametrizations

from .utils import (
    FakeSparsity,
    get_arg_info_from_tensor_fqn,
    module_contains_param,
    module_to_fqn,
    swap_module,
)

__all__ = ["BaseSparsifier"]

SUPPORTED_MODULES: set[type] = {nn.Linear}
KEYS_NOT_IN_STATE_DICT = ["module", "module_fqn", "tensor_name"]


class BaseSparsifier(abc.ABC):
    """Puts masks on parameters: `prepare` once, `step` to choose zeros anew, `squash_mask` to make them real.

    Subclasses write ``update_mask(module, tensor_name, **group)``.

    Args:
        defaults: what each group has that does not say otherwise.
    """

    model: nn.Module
    config: Any

    def __init__(self, defaults: dict[str, Any] | None = None):
        super().__init__()
        self.defaults: dict[str, Any] = defaults or {}
        self.state: dict[str, dict] = defaultdict(dict)
        self.groups: list[dict[str, Any]] = []
        self.enable_mask_update = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self):
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.groups):
            text += f"\n\tGroup {i}\n\t    module: {group['module']}\n"
            text += "".join(f"\t    {key}: {group[key]}\n" for key in sorted(group) if key != "module")
        return text + ")"

    def state_dict(self) -> dict[str, Any]:
        """{"state": {path: {"mask": mask}}, "groups": the groups without their modules}."""
        groups = [{k: v for k, v in group.items() if k not in KEYS_NOT_IN_STATE_DICT} for group in self.groups]
        return {"state": self.state, "groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Takes what `state_dict` gave, for a model that was prepared.

        Raises:
            RuntimeError: if the model lacks a module, unless ``strict`` is False.
        """
        groups, states = copy.deepcopy(state_dict["groups"]), state_dict["state"]
        for tensor_fqn, state in states.items():
            info = get_arg_info_from_tensor_fqn(self.model, tensor_fqn)
            module, name = info["module"], info["tensor_name"]
            if strict and module is None:
                raise RuntimeError(f"Error loading {tensor_fqn} into the model")
            fake = next((p for p in module.parametrizations[name] if isinstance(p, FakeSparsity)), None)
            if fake is None:
                fake = FakeSparsity(torch.ones(getattr(module, name).shape))
                parametrize.register_parametrization(module, name, fake)
            if state.get("mask") is not None:
                fake.mask = state.pop("mask")
            for group in groups:
                if group["tensor_fqn"] == tensor_fqn:
                    group.update(info)
        self.__setstate__({"state": states, "groups": groups})

    def make_config_from_model(self, model: nn.Module, SUPPORTED_MODULES: set[type] = SUPPORTED_MODULES) -> None:
        """A config of the weights of all linear layers."""
        self.config, stack = [], [model]
        while stack:
            for _, child in stack.pop().named_children():
                if type(child) in SUPPORTED_MODULES:
                    self.config.append({"tensor_fqn": f"{module_to_fqn(model, child)}.weight"})
                else:
                    stack.append(child)

    def prepare(self, model: nn.Module, config) -> None:
        """Puts masks of ones on parameters.

        Args:
            config: a dict with ``tensor_fqn`` for each parameter, and what differs from the defaults; None for the
                weights of all linear layers.

        Raises:
            AssertionError: for an entry without ``tensor_fqn``, or one that says something else as well.
        """
        self.model, self.config = model, config
        if config is None:
            self.make_config_from_model(model)
        for entry in self.config:
            if not isinstance(entry, dict):
                raise AssertionError(
                    "config elements should be dicts not modules i.e.:"
                    "[{`tensor_fqn`: `foo.bar.weight`}, {`tensor_fqn`: ... }, ...]"
                )
            group = {**copy.deepcopy(self.defaults), **entry}
            if group.get("tensor_fqn") is None:
                raise AssertionError(
                    "tensor_fqn is a required argument in the sparsity config which "
                    "replaces previous `module` and [module]`fqn` arguments"
                )
            info = get_arg_info_from_tensor_fqn(model, group["tensor_fqn"])
            for key, value in info.items():
                if key in group and group[key] != value and not (key == "tensor_fqn" and group[key] == f".{value}"):
                    raise AssertionError(
                        f"Given both `{key}` and `tensor_fqn` in the config, it is expected them to agree!"
                    )
            self.groups.append({**group, **info})
        self._prepare()

    def _prepare(self, *args, **kwargs) -> None:
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            mask = group.get("mask", torch.ones_like(getattr(module, name)))
            self.state[group["tensor_fqn"]]["mask"] = mask
            parametrize.register_parametrization(module, name, group.get("parametrization", FakeSparsity)(mask))

    def squash_mask(self, params_to_keep: tuple[str, ...] | None = None,
                    params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None, *args, **kwargs) -> None:
        """Makes the zeros real, and takes the masks away.

        Args:
            params_to_keep: what of each group its module keeps as ``sparse_params``.
            params_to_keep_per_layer: the same, by the module's path.
        """
        for group in self.groups:
            module = group["module"]
            parametrize.remove_parametrizations(module, group["tensor_name"], leave_parametrized=True)
            kept = (*(params_to_keep or ()), *((params_to_keep_per_layer or {}).get(group["module_fqn"]) or ()))
            if kept:
                module.sparse_params = {key: group[key] for key in kept}

    def convert(self, module: nn.Module, mapping: dict[type[nn.Module], type[nn.Module]] | None = None,
                inplace: bool = False, parameterization: type[nn.Module] = FakeSparsity) -> nn.Module:
        """A copy of a model with sparse layers in place of those with masks.

        Args:
            mapping: {dense class: sparse class with ``from_dense``}.

        Raises:
            NotImplementedError: without a mapping.
        """
        if mapping is None:
            raise NotImplementedError("Need to auto generate mapping ")
        if not inplace:
            module = copy.deepcopy(module)
        for name, child in list(module.named_children()):
            if module_contains_param(child, parameterization) and type_before_parametrizations(child) in mapping:
                module._modules[name] = swap_module(child, mapping)
            else:
                module._modules[name] = self.convert(child, mapping, True, parameterization)
        return module

    def step(self, use_path: bool = True) -> None:
        """Chooses the zeros anew."""
        if not self.enable_mask_update:
            return
        with torch.no_grad():
            for group in self.groups:
                self.update_mask(**group)

    @abc.abstractmethod
    def update_mask(self, module: nn.Module, tensor_name: str, **kwargs):
        """Writes the mask of a parameter."""
