"""Finding patterns in graphs (``torch.ao.quantization.fx.match_utils``)."""

from __future__ import annotations

import sys
from typing import Any

import ftorch as torch
from ftorch.ao.quantization.utils import MatchAllNode
from ftorch.fx.node import Node
from ftorch.nn.utils.parametrize import type_before_parametrizations

from .graph_module import _is_observed_standalone_module
from .quantize_handler import QuantizeHandler

__all__: list[str] = []

_MatchResult = tuple[Node, list, Any, QuantizeHandler]
_MatchResultWithQConfig = tuple[Node, list, Any, QuantizeHandler, Any]


def _is_match(modules, node, pattern, max_uses=sys.maxsize) -> bool:
    """Whether a pattern ends at a node.

    A pattern is a module's class, a function, a method's name, or a tuple of such a one and the patterns of its
    arguments, whose results have no other users.
    """
    own, arguments = (pattern[0], pattern[1:]) if isinstance(pattern, tuple) else (pattern, ())
    is_class = isinstance(own, type)
    if is_class and issubclass(own, MatchAllNode):
        return True
    if node == pattern:
        return True
    if not isinstance(node, Node) or len(node.users) > max_uses:
        return False
    if is_class and issubclass(own, torch.nn.Module):
        if node.op != "call_module" or type_before_parametrizations(modules[node.target]) != own:
            return False
    elif callable(own):
        if node.op != "call_function" or node.target is not own:
            return False
        if node.target is getattr and node.args[1] != pattern[1]:
            return False
    elif isinstance(own, str):
        if node.op != "call_method" or node.target != own:
            return False
    elif node.target != own:
        return False
    if not arguments:
        return True
    return len(arguments) == len(node.args) and all(
        _is_match(modules, argument, p, max_uses=1) for argument, p in zip(node.args, arguments)
    )


def _matched(pattern, node) -> list:
    """The nodes of a pattern that ends at a node, in the pattern's order."""
    if not isinstance(pattern, tuple):
        return [node]
    found = _matched(pattern[0], node)
    if pattern[0] is getattr:
        return found
    inner = [n for p, argument in zip(pattern[1:], node.args) for n in _matched(p, argument)]
    if len(inner) == 1:
        return [*found, inner[0]]
    return [*found, tuple(inner)] if len(pattern) == 2 else [*found, *inner]


def _nodes_of(matched):
    """The nodes of nested patterns."""
    if isinstance(matched, Node):
        yield matched
    elif isinstance(matched, (list, tuple)):
        for part in matched:
            yield from _nodes_of(part)


def _find_matches(graph, modules, patterns, root_node_getter_mapping, standalone_module_names=None,
                  standalone_module_classes=None, custom_module_classes=None) -> dict[str, _MatchResult]:
    """{node's name: (the pattern's last node, its nodes, the pattern, its handler)}, the longest patterns first."""
    found: dict[str, _MatchResult] = {}
    for node in reversed(list(graph.nodes)):
        if node.name in found:
            continue
        for pattern, make in patterns.items():
            if _is_match(modules, node, pattern):
                nodes = _matched(pattern, node)
                handler = make(nodes, modules, root_node_getter_mapping.get(pattern))
                for inner in _nodes_of(nodes):
                    found[inner.name] = (node, nodes, pattern, handler)
                break
    names, classes = standalone_module_names or [], standalone_module_classes or []
    for node in graph.nodes:
        if node.op != "call_module":
            continue
        module = modules[node.target]
        if type(module) in (custom_module_classes or []):
            found[node.name] = (node, node, None, QuantizeHandler(node, modules, is_custom_module=True))
        if node.target in names or type(module) in classes or _is_observed_standalone_module(module):
            found[node.name] = (node, node, None, QuantizeHandler(node, modules, is_standalone_module=True))
    return found
