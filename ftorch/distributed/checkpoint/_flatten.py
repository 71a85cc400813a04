"""Nested state dicts as flat ones."""

from __future__ import annotations

from collections.abc import Mapping

import ftorch as torch


def _has_tensor(value):
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, Mapping):
        return any(_has_tensor(v) for v in value.values())
    return isinstance(value, (list, tuple)) and any(_has_tensor(v) for v in value)


def flatten(state: Mapping) -> tuple[dict, dict]:
    """({dotted path: value}, {dotted path: path}). Lists without tensors are values."""
    flat, paths = {}, {}

    def visit(path, value):
        if isinstance(value, Mapping) and value:
            for key, item in value.items():
                visit((*path, str(key) if not isinstance(key, (str, int)) else key), item)
        elif isinstance(value, list) and _has_tensor(value):
            for i, item in enumerate(value):
                visit((*path, i), item)
        else:
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"duplicated flatten key {name}")
            flat[name], paths[name] = value, path

    for key, value in state.items():
        visit((key,), value)
    return flat, paths


def put(state, path, value) -> None:
    """Sets the value at a path, making what is between."""
    holder = state
    for key, following in zip(path, path[1:]):
        if isinstance(holder, list):
            while len(holder) <= key:
                holder.append(None)
            if holder[key] is None:
                holder[key] = [] if isinstance(following, int) else {}
            holder = holder[key]
        else:
            if key not in holder:
                holder[key] = [] if isinstance(following, int) else {}
            holder = holder[key]
    last = path[-1]
    if isinstance(holder, list):
        while len(holder) <= last:
            holder.append(None)
    holder[last] = value
