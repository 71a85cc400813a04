"""Small helpers of the modules: tuples from numbers, names of types, copies."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from itertools import repeat

from ...eager.core import api as torch
from ...eager.tensor import Tensor
from ..parameter import Parameter


def ntuple(n: int):
    """A function that repeats a number ``n`` times and makes a tuple of anything iterable."""

    def parse(x):
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    return parse


single, pair, triple = ntuple(1), ntuple(2), ntuple(3)
_ntuple, _single, _pair, _triple, _quadruple = ntuple, single, pair, triple, ntuple(4)  # PyTorch's names


def reverse_repeat(values, n: int) -> tuple:
    """Every value ``n`` times, last value first: the order in which `functional.pad` counts."""
    return tuple(x for x in reversed(values) for _ in range(n))


_reverse_repeat_tuple = reverse_repeat


def typename(obj) -> str:
    """How PyTorch's messages name the type of ``obj``: ``str``, ``numpy.ndarray``."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    if isinstance(obj, type) or kind.__module__ in ("builtins", "__builtin__", None, ""):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def clones(module, n: int) -> list:
    """``n`` independent copies of a module."""
    return [copy.deepcopy(module) for _ in range(n)]


def new_parameter(*shape, device=None, dtype=None):
    """A parameter that is still to be initialised."""
    return Parameter(torch.empty(shape, device=device, dtype=dtype))


def consume_prefix_in_state_dict_if_present(state_dict: dict, prefix: str) -> None:
    """Takes ``prefix`` from the keys of a state that have it, in place, and from its metadata's.

    >>> import ftorch as torch
    >>> state = torch.nn.Sequential(torch.nn.Linear(1, 1)).state_dict()
    >>> torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "0.")
    >>> list(state), list(state._metadata)
    (['weight', 'bias'], [''])
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in list(metadata):
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)
