"""`Optimizer`: parameter groups, state, hooks, and saving and loading them."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from copy import deepcopy
from itertools import chain

from ..eager.core import dtype as dtypes
from ..eager.tensor import Tensor
from ..utils.hooks import RemovableHandle
from ._helpers import (  # noqa: F401  (optimizers written for PyTorch import these from here)
    ParamsT,
    StateDict,
    _default_to_fused_or_foreach,
    _disable_dynamo_if_unsupported,
    _get_capturable_supported_devices,
    _get_value,
    _stack_if_compiling,
    _to_scalar,
    _use_grad_for_differentiable,
    _view_as_real,
)

__all__ = [
    "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
]

_GLOBAL_PRE_HOOKS: OrderedDict = OrderedDict()
_GLOBAL_POST_HOOKS: OrderedDict = OrderedDict()

_HOOK_TABLES = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks",
)


class _RequiredParameter:
    """The default of a hyperparameter that every group has to give."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def _register(table, hook, prepend=False):
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` before the step of every optimizer."""
    return _register(_GLOBAL_PRE_HOOKS, hook)


def register_optimizer_step_post_hook(hook) -> RemovableHandle:
    """Calls ``hook(optimizer, args, kwargs)`` after the step of every optimizer."""
    return _register(_GLOBAL_POST_HOOKS, hook)


class Optimizer:
    """The base class of optimizers.

    Args:
        params: parameters, pairs of name and parameter, or dictionaries that are groups with
            hyperparameters of their own.
        defaults: hyperparameters of the groups that do not give them.

    Attributes:
        param_groups: dictionaries with ``"params"`` and the hyperparameters.
        state: what is remembered for each parameter.

    Raises:
        TypeError: ``params`` is a tensor, a set, or has something else than tensors.
        ValueError: there are no parameters, one is not a leaf, or one is given twice.
    """

    def __init__(self, params, defaults):
        self.defaults = defaults
        for table in _HOOK_TABLES:
            setattr(self, table, OrderedDict())
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                "but got " + params.type()
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self):
        return {
            "defaults": self.defaults, "state": self.state, "param_groups": self.param_groups,
        }

    def __setstate__(self, state):
        self.__dict__.update(state)
        for table in _HOOK_TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        groups = []
        for i, group in enumerate(self.param_groups):
            settings = [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
            groups.append("\n".join([f"Parameter Group {i}", *settings, ""]))
        return f"{type(self).__name__} (\n" + "\n".join(groups) + ")"

    # steps

    def step(self, closure=None):
        """Updates the parameters from their gradients.

        Args:
            closure: evaluates the loss anew (and its gradients) and returns it.

        Returns:
            the closure's result, or None.
        """
        raise NotImplementedError

    @staticmethod
    def profile_hook_step(func):
        """``func`` with the step hooks around it."""

        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            self = args[0]
            before = self._optimizer_step_pre_hooks
            if before or _GLOBAL_PRE_HOOKS:
                for hook in (*_GLOBAL_PRE_HOOKS.values(), *before.values()):
                    result = hook(self, args, kwargs)
                    if result is None:
                        continue
                    if not (isinstance(result, tuple) and len(result) == 2):
                        raise RuntimeError(
                            f"{func} must return None or a tuple of (new_args, new_kwargs), but "
                            f"got {result}."
                        )
                    args, kwargs = result
            out = func(*args, **kwargs)
            after = self._optimizer_step_post_hooks
            if after or _GLOBAL_POST_HOOKS:
                for hook in (*after.values(), *_GLOBAL_POST_HOOKS.values()):
                    hook(self, args, kwargs)
            return out

        return wrapper

    def _patch_step_function(self):
        """Puts the hooks around the class's `step`, once for each class."""
        if not getattr(type(self).step, "hooked", False):
            type(self).step = self.profile_hook_step(type(self).step)
            type(self).step.hooked = True

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices: bool = False):
        """Groups of the tensors at the same place of several lists: ``{(device, dtype): (lists, places)}``."""
        from ..utils._foreach_utils import _group_tensors_by_device_and_dtype

        return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)

    def zero_grad(self, set_to_none=True) -> None:
        """Clears the gradients: None, or zeros."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                    continue
                grad = p.grad
                if grad is None:
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    # hooks

    def register_step_pre_hook(self, hook) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` before each step; it may return new ones."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook) -> RemovableHandle:
        """Calls ``hook(optimizer, args, kwargs)`` after each step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` before `state_dict` collects."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` afterwards; it may return another one."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False) -> RemovableHandle:
        """Calls ``hook(optimizer, state_dict)`` before loading; it may return another one."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False) -> RemovableHandle:
        """Calls ``hook(optimizer)`` after loading."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # saving and loading

    def state_dict(self):
        """The state and the groups, with parameters replaced by their numbers."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers, groups = {}, []
        start = 0
        for group in self.param_groups:
            before = set(numbers)  # a parameter has the number of its first group, in which its last counts
            numbers.update({id(p): i for i, p in enumerate(group["params"], start) if id(p) not in before})
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            start += len(packed["params"])
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    def load_state_dict(self, state_dict) -> None:
        """Takes over what `state_dict` gave; tensors get the parameters' dtypes and devices.

        Raises:
            ValueError: the groups do not have the same numbers of parameters.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        groups, saved_groups = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for group, saved in zip(groups, saved_groups, strict=True):
            if len(group["params"]) != len(saved["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
        parameters = {
            number: (p, saved)
            for group, saved in zip(groups, saved_groups, strict=True)
            for number, p in zip(saved["params"], group["params"], strict=True)
        }
        state = defaultdict(dict)
        for number, value in state_dict["state"].items():
            if number in parameters:
                p, saved = parameters[number]
                state[p] = _adapted(value, p, saved.get("capturable") or saved.get("fused"))
            else:
                state[number] = value
        for group, saved in zip(groups, saved_groups, strict=True):
            saved["params"] = group["params"]
            if "param_names" in group:
                saved.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # groups

    def add_param_group(self, param_group) -> None:
        """Adds parameters with hyperparameters of their own, while training.

        Args:
            param_group: ``{"params": ..., "lr": ...}``.

        Raises:
            TypeError: not a dictionary, parameters in a set, or something else than tensors.
            ValueError: a parameter that is not a leaf or is in another group, names for only some,
                or a hyperparameter is missing.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering "
                "of tensors in sets will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        names = [p[0] for p in params if isinstance(p, tuple)]
        param_group["params"] = params = [p[1] if isinstance(p, tuple) else p for p in params]
        if names:
            if len(names) != len(params):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing"
                )
            param_group["param_names"] = names
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    + type(p).__name__
                )
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        if len(params) != len({id(p) for p in params}):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=3,
            )
        is_named = "param_names" in param_group
        if any(("param_names" in group) != is_named for group in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with names' if is_named else 'without names'} to the optimizer"
            )
        known = {id(p) for p in chain.from_iterable(g["params"] for g in self.param_groups)}
        if any(id(p) in known for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)


def _adapted(value, p, on_device, key=None):
    """A loaded state for the parameter ``p``: its dtype and device, but for step counts."""
    if isinstance(value, Tensor):
        if key == "step":
            return value.to(dtype=dtypes.float32, device=p.device) if on_device else value
        if p.is_floating_point():
            return value.to(dtype=p.dtype, device=p.device)
        return value.to(device=p.device)
    if isinstance(value, dict):
        return {k: _adapted(v, p, on_device, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(_adapted(v, p, on_device) for v in value)
    return value
