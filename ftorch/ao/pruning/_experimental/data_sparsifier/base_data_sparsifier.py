"""What sparsifiers of data have in common (``torch.ao.pruning._experimental.data_sparsifier``)."""

from __future__ import annotations

import abc
import copy
import warnings
from collections import defaultdict
from typing import Any

import ftorch as torch
from ftorch import nn
from ftorch.ao.pruning.sparsifier import base_sparsifier, utils
from ftorch.nn.utils import parametrize

__all__ = ["BaseDataSparsifier"]

EMBEDDING_TYPES = {nn.Embedding, nn.EmbeddingBag}
SUPPORTED_TYPES = {torch.Tensor, nn.Parameter, *EMBEDDING_TYPES}


class _Container(nn.Module):
    """Holds the data as buffers, so that masks can be parametrizations."""


class BaseDataSparsifier(base_sparsifier.BaseSparsifier):
    """Puts masks on tensors, parameters and embeddings by name: `add_data`, `step`, `squash_mask`.

    Subclasses write ``update_mask(name, data, **group)``.

    Args:
        data_list: (name, data) pairs that are added at once.
        defaults: settings of the data that do not say otherwise.
    """

    def __init__(self, data_list: list[tuple[str, Any]] | None = None, **defaults):
        super().__init__(defaults=defaults)
        self._container = _Container()
        self.data_groups: dict[str, dict] = defaultdict(dict)
        for name, data in data_list or ():
            self.add_data(name, data, **self.defaults)

    def prepare(self, model, config):
        raise NotImplementedError("this function is undefined for this class")

    def _extract_weight(self, data):
        return data.weight if type(data) in EMBEDDING_TYPES else data

    def add_data(self, name: str, data, reuse_mask=True, **config):
        """Puts a mask of ones on data.

        Args:
            reuse_mask: whether the mask of data that had this name stays.

        Returns:
            The data with its mask applied.

        Raises:
            AssertionError: for other types than tensors, parameters and embeddings; for a mask that does not fit.
        """
        if type(data) not in SUPPORTED_TYPES:
            raise AssertionError(f"specified data type:{type(data)} not supported at the moment")
        group = {**copy.deepcopy(self.defaults), **config}
        weight = self._extract_weight(data)
        mask = group.get("mask", torch.ones_like(weight))
        parametrization = group.get("parametrization", utils.FakeSparsity)
        if name in self.state:
            warnings.warn("Replacing existing data of the same name. - Did you mean a different name?", stacklevel=2)
            group = {**copy.deepcopy(self.data_groups[name]), **config}
            if reuse_mask:
                if weight.shape != self.get_data(name).shape:
                    raise AssertionError(
                        "to retain the old mask, the shape of the new data must be the same as the previous one"
                    )
                mask = self.get_mask(name)
            self._delete_data(name)
        self._hold(name, weight, parametrization(mask))
        self.state[name]["mask"] = mask
        self.data_groups[name] = group
        return getattr(self._container, name)

    def _hold(self, name: str, data, parametrization=None) -> None:
        self._container.register_buffer(name, data)
        if parametrization is not None:
            parametrize.register_parametrization(self._container, name, parametrization)

    def get_data(self, name: str, return_original: bool = True):
        """The data of a name, as it was added or with its mask.

        Raises:
            ValueError: for an unknown name, or for original data after `squash_mask`.
        """
        if name not in self.data_groups:
            raise ValueError("data with specified name does not exist")
        if not return_original:
            return getattr(self._container, name)
        if not parametrize.is_parametrized(self._container, name):
            raise ValueError("mask squashed - original mask value does not exist")
        return getattr(self._container.parametrizations, name).original

    def _convert_mask(self, states, sparse_coo=True):
        states = copy.deepcopy(states)
        for state in states.values():
            state["mask"] = state["mask"].to_sparse_coo() if sparse_coo else state["mask"].to_dense()
        return states

    def state_dict(self) -> dict[str, Any]:
        """{"state": masks as sparse tensors, "data_groups": settings, "_container": the data}."""
        return {"state": self._convert_mask(self.state), "data_groups": self.data_groups,
                "_container": self._container.state_dict()}

    def _load_container_from_state(self, states, data_groups, container_state_dict):
        for name, state in states.items():
            masked = f"parametrizations.{name}.original"
            if data_groups.get(name) is None or not {name, masked} & container_state_dict.keys():
                raise RuntimeError(f"Error loading {name}")
            if name in container_state_dict:
                self._hold(name, container_state_dict[name])
            else:
                data = container_state_dict[masked]
                kind = data_groups.get("parametrization", utils.FakeSparsity)
                self._hold(name, data, kind(state.get("mask", torch.ones_like(data))))

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Takes what `state_dict` gave: in place of what is here, or beside it where ``strict`` is False.

        Raises:
            RuntimeError: for a mask without its data.
        """
        states, groups, data = (copy.deepcopy(state_dict[key]) for key in ("state", "data_groups", "_container"))
        states = self._convert_mask(states, sparse_coo=False)
        if strict:
            self._container = _Container()
        self._load_container_from_state(states, groups, data)
        if not strict:
            states.update(self.state)
            groups.update(self.data_groups)
        self.__setstate__({"state": states, "data_groups": groups})

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_container" in state:
            data = state.pop("_container")
            self._container = _Container()
            state["state"] = self._convert_mask(state["state"], sparse_coo=False)
            self._load_container_from_state(state["state"], state["data_groups"], data)
        self.__dict__.update(state)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, **self.state_dict()}

    def __repr__(self):
        text = f"{type(self).__name__} ("
        for name, group in self.data_groups.items():
            text += f"\n\tData Group\n\t    name: {name}\n"
            text += "".join(f"\t    {key}: {group[key]}\n" for key in sorted(group) if key != "data")
        return text + ")"

    def get_mask(self, name: str):
        """The mask of a name; ValueError for an unknown one."""
        if name not in self.state:
            raise ValueError("data with specified name does not exist")
        return self.state[name]["mask"]

    def squash_mask(self, *args, leave_parametrized=True, names=None, **kwargs):
        """Takes masks away: the zeros stay, or with ``leave_parametrized=False`` the data is as it was added."""
        for name in list(self.data_groups) if names is None else names:
            parametrize.remove_parametrizations(self._container, name, leave_parametrized=leave_parametrized)

    def step(self):  # type: ignore[override]
        """Chooses the zeros anew."""
        if not self.enable_mask_update:
            return
        with torch.no_grad():
            for name, group in self.data_groups.items():
                self.update_mask(name, self.get_data(name), **group)

    @abc.abstractmethod
    def update_mask(self, name, data, **kwargs):  # type: ignore[override]
        """Writes the mask of a name."""

    def _delete_data(self, name):
        self.squash_mask(names=[name], leave_parametrized=False)
        delattr(self._container, name)
        del self.state[name], self.data_groups[name]
