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
        """The states by name."""
        known = {id(p): n for n, p in self.named_parameters.items()}
        return {known[id(p)]: s for p, s in self._optimizer.state.items() if id(p) in known}

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
        params = [params] if isinstance(params, torch.Tensor) else list(params)
        named = self.module.named_parameters() if self.module is not None else self.named_parameters.items()
        known = {id(p): n for n, p in named}
        for p in params:
            if id(p) not in known:
                raise ValueError("some parameters are not in the module")
            self.named_parameters[known[id(p)]] = p
            self.ordered_param_keys.append(known[id(p)])
        self._optimizer.add_param_group(param_group)
        self.param_groups = self._optimizer.param_groups

    def init_state(self) -> None:
        """Makes the states, by a step of zeros with learning rate 0."""
        params = list(self.named_parameters.values())
        kept = [p.grad for p in params]
        rates = [g.get("lr") for g in self.param_groups]
        for p in params:
            if p.requires_grad:
                p.grad = torch.zeros_like(p)
        for g in self.param_groups:
            if "lr" in g:
                g["lr"] = torch.tensor(0.0) if isinstance(g["lr"], torch.Tensor) else 0.0
        self._optimizer.step()
        for g, rate in zip(self.param_groups, rates):
            if rate is not None:
                g["lr"] = rate
        for p, g in zip(params, kept):
            p.grad = g

    def state_dict(self) -> dict:
        """States and groups by name."""
        plain = self._optimizer.state_dict()
        name = dict(enumerate(self.ordered_param_keys))
        groups = [
            {**g, "params": sorted(name[i] for i in g["params"])} for g in plain["param_groups"]
        ]
        return {"state": {name[i]: s for i, s in plain["state"].items()}, "param_groups": groups}

    def load_state_dict(self, state_dict) -> None:
        """Takes a state dict by names.

        Raises:
            ValueError: for names that are missing.
        """
        number = {n: i for i, n in enumerate(self.ordered_param_keys)}
        plain = self._optimizer.state_dict()
        given = copy.copy(state_dict["state"])
        for key in plain["state"]:
            if self.ordered_param_keys[key] not in given:
                raise ValueError(f"Expect state for parameter {self.ordered_param_keys[key]} in state_dict")
        groups = []
        for own in plain["param_groups"]:
            names = sorted(self.ordered_param_keys[i] for i in own["params"])
            match = [g for g in state_dict["param_groups"] if sorted(g["params"]) == names]
            if not match:
                raise ValueError(f"Expect param group {names} in state_dict")
            groups.append({**match[0], "params": own["params"]})
        self._optimizer.load_state_dict({
            "state": {number[n]: s for n, s in given.items() if n in number}, "param_groups": groups,
        })
        self.param_groups = self._optimizer.param_groups
