"""Masks on what enters layers, chosen from what has entered them (``…activation_sparsifier``)."""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import ftorch as torch
from ftorch import nn
from ftorch.ao.pruning.sparsifier.utils import fqn_to_module, module_to_fqn

__all__ = ["ActivationSparsifier"]

_FUNCTIONS = ("aggregate_fn", "reduce_fn", "mask_fn")
_NOT_SAVED = ("hook", "layer")


def _each_mask(states: dict[str, Any], function: Callable) -> dict[str, Any]:
    """A copy of the states with each mask, or each of a list of masks, changed."""
    states = copy.deepcopy(states)
    for state in states.values():
        mask = state["mask"]
        if isinstance(mask, list):
            mask[:] = map(function, mask)
        elif mask is not None:
            state["mask"] = function(mask)
    return states


class ActivationSparsifier:
    """Sets activations to zero before they enter a layer: ``mask_fn(reduce_fn(all of them by aggregate_fn))``.

    Register layers, run the model, `step` to choose the masks, and `squash_mask` to apply them from then on.

    Args:
        model: the model that the layers are of.
        aggregate_fn: ``(what was seen, an input) -> what was seen``.
        reduce_fn: what was seen to what ``mask_fn`` takes.
        mask_fn: ``(reduced, **sparse_config) -> mask``.
        features: indices along ``feature_dim`` with masks of their own; None for one mask of the whole input.
        sparse_config: what ``mask_fn`` is given. All of these are defaults for `register_layer`.

    >>> import ftorch as torch
    >>> from ftorch.ao.pruning._experimental.activation_sparsifier.activation_sparsifier import ActivationSparsifier
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 1))
    >>> sparsifier = ActivationSparsifier(model, torch.add, lambda x: x.mean(0), lambda x: (x > 1).float())
    >>> sparsifier.register_layer(model[0])
    >>> _ = model(torch.tensor([[0.0, 1.0, 2.0]]))
    >>> sparsifier.step()
    >>> sparsifier.get_mask("0")
    tensor([0., 0., 1.])
    """

    def __init__(self, model: nn.Module, aggregate_fn=None, reduce_fn=None, mask_fn=None, features=None,
                 feature_dim=None, **sparse_config):
        self.model = model
        self.defaults: dict[str, Any] = defaultdict(None, {
            "sparse_config": sparse_config, "aggregate_fn": aggregate_fn, "reduce_fn": reduce_fn, "mask_fn": mask_fn,
            "features": features, "feature_dim": feature_dim,
        })
        self.data_groups: dict[str, dict] = defaultdict(dict)
        self.state: dict[str, Any] = defaultdict(dict)

    @staticmethod
    def _safe_rail_checks(args):
        if args["features"] is not None and args["feature_dim"] is None:
            raise AssertionError("need feature dim to select features")
        for key in _FUNCTIONS:
            if not callable(args[key]):
                raise AssertionError(f"{args[key]} must be callable")

    def _aggregate_hook(self, name):
        group = self.data_groups[name]
        dim, features, aggregate = group["feature_dim"], group["features"], group["aggregate_fn"]

        def seen(before, x):
            return aggregate(torch.zeros_like(x) if before is None else before, x)

        def hook(module, input) -> None:
            x, group = input[0], self.data_groups[name]
            before = group.get("data")
            parts = [x] if features is None else [
                torch.index_select(x, dim, torch.tensor([feature], device=x.device)) for feature in features
            ]
            if before is None:
                masks = [torch.ones_like(part) for part in parts]
                self.state[name]["mask"] = masks[0] if features is None else masks
            if features is None:
                group["data"] = seen(before, x)
            else:
                group["data"] = [seen(b, part) for b, part in zip(before or [None] * len(parts), parts)]

        return hook

    def register_layer(self, layer: nn.Module, aggregate_fn=None, reduce_fn=None, mask_fn=None, features=None,
                       feature_dim=None, **sparse_config):
        """Begins to look at what enters a layer; what is not given is as for the sparsifier.

        Raises:
            AssertionError: for a layer of another model, functions that are missing, features without a dimension.
        """
        name = module_to_fqn(self.model, layer)
        if name is None:
            raise AssertionError("layer not found in the model")
        if name in self.data_groups:
            warnings.warn(
                "layer already attached to the sparsifier, deregistering the layer and registering with new config",
                stacklevel=2,
            )
            self.unregister_layer(name)
        group = copy.deepcopy(self.defaults)
        given = {"aggregate_fn": aggregate_fn, "reduce_fn": reduce_fn, "mask_fn": mask_fn, "features": features,
                 "feature_dim": feature_dim, "layer": layer}
        group.update((key, value) for key, value in given.items() if value is not None)
        group["sparse_config"].update(sparse_config)
        self._safe_rail_checks(group)
        self.data_groups[name] = group
        self.state[name]["mask"] = None  # of the first input's shape
        group["hook"] = layer.register_forward_pre_hook(self._aggregate_hook(name))
        group["hook_state"] = "aggregate"

    def get_mask(self, name: str | None = None, layer: nn.Module | None = None):
        """The mask of a layer, or those of its features.

        Raises:
            AssertionError: without a name and a layer, or for a layer of another model.
            ValueError: for an unknown name, and before the layer has run.
        """
        if name is None:
            if layer is None:
                raise AssertionError("Need at least name or layer obj to retrieve mask")
            name = module_to_fqn(self.model, layer)
            if name is None:
                raise AssertionError("layer not found in the specified model")
        if name not in self.state:
            raise ValueError("Error: layer with the given name not found")
        mask = self.state[name].get("mask")
        if mask is None:
            raise ValueError("Error: shape unknown, call layer() routine at least once to infer mask")
        return mask

    def unregister_layer(self, name):
        """Leaves a layer alone."""
        self.data_groups.pop(name)["hook"].remove()
        self.state.pop(name)

    def step(self):
        """Chooses the masks, and forgets what was seen."""
        with torch.no_grad():
            for name, group in self.data_groups.items():
                self.update_mask(name, group["data"], group)
                del group["data"]

    def update_mask(self, name, data, configs):
        """Writes the mask of a layer from what was seen of its inputs."""
        masks, one = self.get_mask(name), configs["features"] is None
        for mask, seen in zip([masks] if one else masks, [data] if one else data):
            mask.data = configs["mask_fn"](configs["reduce_fn"](seen), **configs["sparse_config"])

    def _sparsify_hook(self, name):
        mask, group = self.get_mask(name), self.data_groups[name]
        features, dim = group["features"], group["feature_dim"]

        def hook(module, input):
            x = input[0]
            if features is None:
                return x * mask
            for feature, part in zip(features, mask):
                index = torch.tensor([feature], device=x.device)
                x.index_copy_(dim, index, torch.index_select(x, dim, index) * part)
            return x

        return hook

    def squash_mask(self, attach_sparsify_hook=True, **kwargs):
        """Ends the looking; from now on the masks are applied, unless that is not wanted."""
        for name, group in self.data_groups.items():
            group.pop("hook").remove()
            if attach_sparsify_hook:
                group["hook"] = group["layer"].register_forward_pre_hook(self._sparsify_hook(name))
            group["hook_state"] = "sparsify"

    def _get_serializable_data_groups(self):
        return {name: {k: v for k, v in group.items() if k not in _NOT_SAVED}
                for name, group in self.data_groups.items()}

    def _convert_mask(self, states_dict, sparse_coo=True):
        return _each_mask(states_dict, lambda mask: mask.to_sparse_coo() if sparse_coo else mask.to_dense())

    def state_dict(self) -> dict[str, Any]:
        """{"state": masks as sparse tensors, "data_groups": the layers' settings, "defaults"}."""
        return {"state": self._convert_mask(self.state), "data_groups": self._get_serializable_data_groups(),
                "defaults": self.defaults}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes what `state_dict` gave, and puts hooks on the layers of this sparsifier's model."""
        self.__set_state__({key: state_dict[key] for key in ("state", "data_groups", "defaults")})

    def __get_state__(self) -> dict[str, Any]:
        return self.state_dict()

    def __set_state__(self, state: dict[str, Any]) -> None:
        state["state"] = self._convert_mask(state["state"], sparse_coo=False)
        self.__dict__.update(state)
        hooks = {"aggregate": self._aggregate_hook, "sparsify": self._sparsify_hook}
        for name, group in self.data_groups.items():
            layer = fqn_to_module(self.model, name)
            if layer is None:
                raise AssertionError(f"layer {name} not found in the model")
            group["layer"] = layer
            if group.get("hook_state") in hooks:
                group["hook"] = layer.register_forward_pre_hook(hooks[group["hook_state"]](name))

    def __repr__(self):
        text = f"{type(self).__name__} ("
        for name, group in self.data_groups.items():
            text += f"\n\tData Group\n\t    name: {name}\n"
            hidden = ("data", "hook", *_FUNCTIONS)
            text += "".join(f"\t    {key}: {group[key]}\n" for key in sorted(group) if key not in hidden)
        return text + ")"
