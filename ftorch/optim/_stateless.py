"""An optimizer that works for a while on other parameters and another state."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from ..eager.native.contexts import contextmanager, putting_back
from ..eager.tensor import Tensor

_NAME = "swap_in_optimizer_params_and_state"


def _check_state(state):
    if not isinstance(state, dict):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be a dict mapping packed parameter "
            f"ids to per-param state dicts, got {type(state).__name__}."
        )
    if any(isinstance(key, Tensor) for key in state):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style state keyed by packed parameter ids."
        )
    if any(isinstance(k, int) and not isinstance(v, dict) for k, v in state.items()):
        raise RuntimeError(
            f"{_NAME} requires per-parameter optimizer state entries to be dictionaries."
        )
    return state


def _check_group(index, group, saved):
    if not isinstance(saved, dict):
        raise RuntimeError(f"{_NAME} requires each optimizer param group to be a dictionary.")
    numbers = saved.get("params")
    if not isinstance(numbers, list) or not all(isinstance(n, int) for n in numbers):
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param_groups[*]['params'] entries "
            "keyed by packed parameter ids."
        )
    if len(group["params"]) != len(numbers):
        raise RuntimeError(
            f"swapin_optim_state param group {index} has a different number of params than the "
            "live optimizer param group."
        )
    only_saved = [key for key in saved if key not in group]
    only_live = [key for key in group if key not in saved]
    if only_saved or only_live:
        raise RuntimeError(
            f"{_NAME} requires optimizer.state_dict()-style param group keys to exactly match the "
            f"live optimizer group keys for group {index}. Keys only in swap-in: {only_saved}. "
            f"Keys only in live: {only_live}."
        )
    return numbers


def _prepare(optimizer, parameters, saved):
    """For each group what to swap in: its parameters, their numbers, its hyperparameters."""
    if not optimizer.state:
        raise RuntimeError(f"{_NAME} requires initialized optimizer state.")
    if not isinstance(saved, dict):
        raise RuntimeError(f"{_NAME} requires a DCP-style optimizer state_dict.")
    state, groups = _check_state(saved.get("state")), saved.get("param_groups")
    if not isinstance(groups, list):
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['param_groups'] to be a list of param-group "
            f"dicts, got {type(groups).__name__}."
        )
    if len(optimizer.param_groups) != len(groups):
        raise RuntimeError(
            "swapin_optim_state has a different number of parameter groups than the live optimizer."
        )
    flat, prepared, known = iter(parameters.values()), [], set()
    for i, (group, new) in enumerate(zip(optimizer.param_groups, groups, strict=True)):
        numbers = _check_group(i, group, new)
        known.update(numbers)
        tensors = list(islice(flat, len(numbers)))
        if len(tensors) != len(numbers):
            raise RuntimeError(
                f"{_NAME} requires the explicit parameter state to match optimizer.param_groups "
                "ordering."
            )
        prepared.append((group, {**new, "params": tensors}, numbers))
    extra = [key for key in state if key not in known]
    if extra:
        raise RuntimeError(
            f"{_NAME} requires swapin_optim_state['state'] to be keyed only by packed parameter "
            f"ids from param_groups[*]['params']; got extra keys {extra!r}."
        )
    return state, prepared


@contextmanager
def swap_in_optimizer_params_and_state(optimizer, swapin_parameters, swapin_optim_state):
    """Inside the block, the optimizer has the given parameters and state.

    Args:
        swapin_parameters: by name, in the order of the optimizer's groups.
        swapin_optim_state: as `Optimizer.state_dict` gives it.

    Raises:
        RuntimeError: the state does not fit the optimizer.
    """
    state, prepared = _prepare(optimizer, swapin_parameters, swapin_optim_state)
    with putting_back(_put_back, optimizer, optimizer.state, [dict(g) for g in optimizer.param_groups]):
        new_state = defaultdict(dict)
        for group, new, numbers in prepared:
            group.update(new)
            for p, number in zip(new["params"], numbers, strict=True):
                new_state[p] = dict(state.get(number, {}))
        optimizer.state = new_state
        yield


def _put_back(optimizer, state, groups):
    for group, old in zip(optimizer.param_groups, groups, strict=True):
        group.clear()
        group.update(old)
    optimizer.state = state
