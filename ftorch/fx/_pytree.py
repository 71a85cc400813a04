"""Trees by their spec: how generated code takes nested arguments apart."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from ..utils._pytree import PyTree, TreeSpec, tree_flatten


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[Any]:
    """The leaves of a tree, as a spec says: deeper structure stays whole.

    What is read is what the spec asks for, by index or key, so that a `Proxy` can stand for a tree.

    Raises:
        RuntimeError: a tree of another class that does not have the spec's structure.
    """
    if spec.is_leaf():
        return [pytree]
    children = SUPPORTED_NODES.get(spec.type)
    if children is None and isinstance(spec.type, type) and issubclass(spec.type, tuple):
        children = _by_index  # results of several values
    if children is None:
        leaves, found = tree_flatten(pytree)
        if found != spec:
            raise RuntimeError(
                f"Real spec {found} of object {pytree} is different from expected spec {spec}. Please file an issue at "
                "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml"
            )
        return leaves
    return [leaf for part, child in zip(children(pytree, spec), spec.children())
            for leaf in tree_flatten_spec(part, child)]


__all__ = ["tree_flatten_spec"]


def _by_index(pytree, spec):
    return [pytree[i] for i in range(spec.num_children)]


def _by_key(pytree, spec):
    return [pytree[key] for key in spec.context]


SUPPORTED_NODES: dict[Any, Callable] = {
    dict: _by_key, list: _by_index, tuple: _by_index, collections.namedtuple: _by_index}
SUPPORTED_NODES_EXACT_MATCH: dict[Any, Callable | None] = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None) -> None:
    """Notes how a class's objects are taken apart by a spec."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec
