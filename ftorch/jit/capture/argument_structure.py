"""Input structure: a call's arguments as a key that costs little."""

from __future__ import annotations

from ...eager.core.geometry import Size
from ...eager.tensor import Tensor
from ...utils import _pytree as pytree


class _Unusual(Exception):
    """A container that only pytree knows."""


def _outline(tree, leaves):
    cls = type(tree)
    if cls is Tensor:
        leaves.append(tree)
        return None
    if cls is dict:
        return dict, tuple(tree), tuple([_outline(part, leaves) for part in tree.values()])
    if cls is tuple or cls is list or cls is Size:
        return cls, tuple([_outline(part, leaves) for part in tree])
    if cls in pytree.SUPPORTED_NODES or issubclass(cls, tuple):
        raise _Unusual
    leaves.append(tree)
    return None


def flatten(args, kwargs):
    """The leaves of a call's arguments in pytree's order, and what tells their structure from others.

    Nested tuples are compared and hashed in C, a `TreeSpec` in Python.
    """
    leaves: list = []
    try:
        return leaves, (_outline(args, leaves), _outline(kwargs, leaves))
    except _Unusual:
        return pytree.tree_flatten((args, kwargs))
