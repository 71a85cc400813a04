"""Walks over nested state dicts, and values at paths in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ftorch as torch

from ._nested_dict import put

PATH_ITEM = str | int
OBJ_PATH = tuple[PATH_ITEM, ...]

__all__ = ["get_element", "print_tensor", "set_element", "traverse_state_dict"]


def _keep_visiting_tensors(value) -> bool:
    return isinstance(value, torch.Tensor)


def traverse_state_dict(state_dict, visitor: Callable, keep_traversing: Callable = _keep_visiting_tensors) -> None:
    """Calls ``visitor(path, value)`` for each value of a nested state dict.

    Lists are opened where one of their items is a mapping, a list to be opened or such that ``keep_traversing`` says so
    (tensors); others are values, as tuples are.

    >>> from ftorch.distributed.checkpoint._traverse import traverse_state_dict
    >>> traverse_state_dict({"a": {"b": 1}, "c": [2, {"d": 3}], "e": [4, 5]}, lambda path, value: print(path, value))
    ('a', 'b') 1
    ('c', 0) 2
    ('c', 1, 'd') 3
    ('e',) [4, 5]
    """
    def is_whole(value):
        if isinstance(value, Mapping) or not isinstance(value, list):
            return not isinstance(value, Mapping)
        return not any(
            isinstance(item, (Mapping, list)) and not is_whole(item) or keep_traversing is not None and keep_traversing(item)
            for item in value
        )

    def visit(path, value):
        if isinstance(value, Mapping):
            for key, item in value.items():
                visit((*path, str(key)), item)
        elif is_whole(value):
            visitor(path, value)
        else:
            for i, item in enumerate(value):
                visit((*path, i), item)

    for key, value in state_dict.items():
        visit((str(key),), value)


def set_element(root_dict: dict, path: OBJ_PATH, value: Any) -> None:
    """Sets the value at a path, making the mappings and lists on the way."""
    put(root_dict, path, value)


def get_element(root_dict: dict, path: OBJ_PATH, default_value: Any = None) -> Any:
    """The value at a path; ``default_value`` where there is none."""
    found: Any = root_dict
    for part in path:
        if isinstance(part, int):
            if not isinstance(found, list) or len(found) <= part:
                return default_value
        elif not isinstance(found, Mapping) or part not in found:
            return default_value
        found = found[part]
    return found


def print_tensor(path: OBJ_PATH, value: Any, print_fun: Callable[[str], None] = print) -> None:
    """Prints a value's path and size or type; of divided tensors the own parts' on lines of their own."""
    _print(value, str(path), print_fun)


def _print(value, prefix, say):
    if hasattr(value, "local_shards"):
        say(f"{prefix} ShardedTensor size: {value.size()}")
        for shard in value.local_shards():
            _print(shard.tensor, f"{shard.metadata.shard_offsets} ", say)
    elif hasattr(value, "to_local"):
        say(f"{prefix} DistributedTensor size: {value.size()}")
        _print(value.to_local(), "", say)
    elif isinstance(value, torch.Tensor):
        say(f"{prefix} Tensor size: {value.size()}")
    else:
        say(f"{prefix} Type: {type(value)}")
