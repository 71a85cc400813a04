"""An optimizer whose states are named as the module's parameters are."""

from __future__ import annotations

import copy
import warnings

import ftorch as torch

__all__: list[str] = []


class _NamedOptimizer(torch.optim.Optimizer):
    """An optimizer whose state dict has the parameters' names instead of numbers.

    Args:
        named_parameters: {name: parameter} or pairs. ``optimizer_class``: of `ftorch.optim`.
        param_groups: groups of these parameters.
        module: whose state dict names the parameters.
    """

    def __init__(self, named_parameters, optimizer_class, param_groups=None, module=None, *args, **kwargs):
        self.param_groups = []  # replaced below
        pairs = named_parameters.items() if isinstance(named_parameters, dict) else named_parameters
        self.named_parameters = dict(pairs)
        groups = self.named_parameters.values() if param_groups is None else param_groups
        self._optimizer = optimizer_class(groups, *args, **kwargs)
        self.module = module
        known = {id(p): n for n, p in self.named_parameters.items()}
        if param_groups is None:
            self.ordered_param_keys = list(self.named_parameters)
        else:
            warnings.warn("Since we pass in param_groups, we will use param_groups to initialize the "
                          "optimizer, not all parameters of the module.", stacklevel=2)
            listed = [p for g in param_groups for p in g["params"]]
            if any(id(p) not in known for p in listed):
                raise ValueError(
                    f"Expect param name {listed} found in param group but is missing."
                )
            self.ordered_param_keys = [known[id(p)] for p in listed]
        self.param_groups = self._optimizer.param_groups

    @property
    def state(self):  # pyright: ignore[reportIncompatibleVariableOverride]
        """The optimizer's states."""
        return self._optimizer.state

    def step(self, closure=None):  # pyright: ignore[reportIncompatibleMethodOverride]
        """The optimizer's step."""
        return self._optimizer.step(closure)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The optimizer's."""
        self._optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group) -> None:
        """Adds parameters, which the module must name.

        Raises:
            ValueError: for others.
        """
        params = param_group["params"]
        params = param_group["params"] = [params] if isinstance(params, torch.Tensor) else list(params)
        known = {id(p): n for n, p in self.named_parameters.items()}
        for p in params:
            if id(p) not in known:
                raise ValueError("some parameters are not in the module")
            self.ordered_param_keys.append(known[id(p)])
        self._optimizer.add_param_group(param_group)
        self.param_groups = self._optimizer.param_groups

    def init_state(self) -> None:
        """Makes the states, by a step with gradients of zeros, which stay."""
        for p in self.named_parameters.values():
            if p.requires_grad:
                p.grad = torch.zeros_like(p)
        self.step(closure=None)

    def state_dict(self) -> dict:
        """States and groups by name."""
        plain = self._optimizer.state_dict()
        name = dict(enumerate(self.ordered_param_keys))
        groups = [
            {**g, "params": sorted(name[i] for i in g["params"])} for g in plain["param_groups"]
        ]
        return {"state": {name[i]: s for i, s in plain["state"].items()}, "param_groups": groups}

    def load_state_dict(self, state_dict) -> None:
        """Takes a state dict by names: states and groups that it lacks stay as they are.

        Raises:
            ValueError: before the states are there, and for ones of another kind.
        """
        plain = self._optimizer.state_dict()
        states, given = plain["state"], state_dict["state"]
        if not states:
            raise ValueError("Expects the optim to be initialized before load but found not initialized.")
        for i, name in enumerate(self.ordered_param_keys):
            if name in given:
                states[i] = _taken(name, states[i], given[name])
        by_names = {_key(g["params"]): g for g in state_dict["param_groups"]}
        for own in plain["param_groups"]:
            key = _key(self.ordered_param_keys[i] for i in own["params"])
            group = by_names.get(key)
            if group is None:
                continue
            if len(group) != len(own):
                raise ValueError(f"Expects equal param_group size as {len(own)} for group {key} but found {len(group)}.")
            for k, value in group.items():
                if k not in own:
                    raise ValueError(f"Expects group key {k} to be in group {key} in `state_dict` but is missing.")
                if k != "params":
                    own[k] = copy.deepcopy(value)
        self._optimizer.load_state_dict(plain)
        self.param_groups = self._optimizer.param_groups


def _key(names):
    return "/".join(sorted(names))


def _taken(name, own, given):
    """A parameter's state with the values of another one of the same kind."""
    if len(given) != len(own):
        raise ValueError(f"Expects equal length as {len(own)} for parameter {name} but found: {len(given)}")
    for key in own:
        if key not in given:
            raise ValueError(f"Expects state {key} for parameter {name} but not found.")
    return {key: copy.deepcopy(given[key]) for key in own}
