"""Trees by their spec: how generated code takes nested arguments apart."""

from __future__ import annotations

from typing import Any

from ..utils._pytree import PyTree, TreeSpec


def tree_flatten_spec(pytree: PyTree, spec: TreeSpec) -> list[Any]:
    """The leaves of a tree, as a spec says: deeper structure stays whole.

    Raises:
        ValueError: if the tree does not have the spec's structure.
    """
    if spec.type is tuple and isinstance(pytree, (list, tuple)):
        # Generated code writes arguments as a list: ``([x, y], {"z": z})``.
        children = [
            tuple(tree) if child.type is tuple and isinstance(tree, list) else tree
            for tree, child in zip(pytree, spec.children())
        ]
        pytree = tuple(children) if len(children) == len(pytree) else pytree
    return spec.flatten_up_to(pytree)


__all__ = ["tree_flatten_spec"]

SUPPORTED_NODES: dict = {}
SUPPORTED_NODES_EXACT_MATCH: dict = {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None) -> None:
    """Notes how a class's objects are taken apart by a spec. `_pytree` does it for every registered class."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec
