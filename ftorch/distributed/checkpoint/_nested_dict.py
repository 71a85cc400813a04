"""Nested state dicts as flat ones."""

from __future__ import annotations

from collections.abc import Mapping

import ftorch as torch

FLATTEN_MAPPING = dict[str, tuple[str | int, ...]]


def _has_tensor(value):
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, Mapping):
        return any(_has_tensor(v) for v in value.values())
    return isinstance(value, list) and any(_has_tensor(v) for v in value)


def _is_flattened(value):
    """Whether a list's items are saved one by one: one of them is a tensor, a mapping or such a list."""
    return any(isinstance(v, (torch.Tensor, Mapping)) or isinstance(v, list) and _is_flattened(v) for v in value)


def flatten_state_dict(state_dict: Mapping, *, before_2_4: bool = False) -> tuple[dict, dict]:
    """({dotted path: value}, {dotted path: path}). Lists of neither tensors nor mappings are values.

    Args:
        before_2_4: as PyTorch did then: mappings without tensors are values, too.
    """
    flat, paths = {}, {}

    def visit(path, value):
        if isinstance(value, Mapping) and (not before_2_4 or _has_tensor(value)):
            for key, item in value.items():
                visit((*path, str(key)), item)
        elif isinstance(value, list) and (_has_tensor(value) if before_2_4 else _is_flattened(value)):
            for i, item in enumerate(value):
                visit((*path, i), item)
        else:
            name = ".".join(map(str, path))
            if name in flat:
                raise ValueError(f"duplicated flatten key {name}")
            flat[name], paths[name] = value, path

    for key, value in state_dict.items():
        visit((str(key),), value)
    return flat, paths


def _key(holder, key):
    """The key of a mapping whose text is that of a path."""
    return key if key in holder else next((k for k in holder if str(k) == key), key)


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
            key = _key(holder, key)
            if key not in holder:
                holder[key] = [] if isinstance(following, int) else {}
            holder = holder[key]
    last = path[-1]
    if isinstance(holder, list):
        while len(holder) <= last:
            holder.append(None)
    else:
        last = _key(holder, last)
    holder[last] = value


def unflatten_state_dict(state_dict: Mapping, mapping: Mapping) -> dict:
    """The nested state of a flat one, by the paths that `flatten_state_dict` gave.

    >>> from ftorch.distributed.checkpoint._nested_dict import flatten_state_dict, unflatten_state_dict
    >>> flat, paths = flatten_state_dict({"a": {"b": 1}, "c": [2, {"d": 3}]})
    >>> flat
    {'a.b': 1, 'c.0': 2, 'c.1.d': 3}
    >>> unflatten_state_dict(flat, paths)
    {'a': {'b': 1}, 'c': [2, {'d': 3}]}
    """
    nested: dict = {}
    for name, value in state_dict.items():
        put(nested, mapping[name], value)
    return nested
