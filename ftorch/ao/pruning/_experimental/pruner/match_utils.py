"""Chains of nodes that fit a pattern (``torch.ao.pruning._experimental.pruner.match_utils``)."""

from __future__ import annotations

from typing import Any

from ftorch import nn
from ftorch.ao.quantization.utils import MatchAllNode
from ftorch.fx import Node
from ftorch.nn.utils import parametrize


def _match(modules: dict[str, Any], node: Node, current: Any) -> bool:
    """Whether a node is a call of a module type or a function, or has a target by that name."""
    if isinstance(current, type) and issubclass(current, MatchAllNode):
        return True
    if not isinstance(node, Node):
        return False
    if isinstance(current, type) and issubclass(current, nn.Module):
        return (node.op == "call_module"
                and parametrize.type_before_parametrizations(modules[str(node.target)]) == current)
    if callable(current):
        return node.op == "call_function" and node.target is current
    return isinstance(current, str) and node.target == current


def apply_match(modules: dict[str, Any], pattern: Any, node: Node,
                matched_node_pattern: list[Node]) -> list[Node] | None:
    """The nodes from ``node`` on, each the first user of the one before, that fit a pattern; or None."""
    if not isinstance(pattern, tuple):
        return [node] if _match(modules, node, pattern) else None
    found = list(matched_node_pattern)
    for i, part in enumerate(pattern):
        if not _match(modules, node, part):
            return None
        found.append(node)
        if i + 1 < len(pattern):
            if not node.users:
                return None
            node = next(iter(node.users))
    return found
