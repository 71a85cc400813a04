"""``replace_pattern``: finds parts of a graph that look like another, and puts a third in place."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign_attr
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher


class Match(NamedTuple):
    """Where a pattern was found.

    Attributes:
        anchor: the pattern's node from which the match was found.
        nodes_map: {node of the pattern: node of the graph}.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """Where a pattern was found, and the nodes that replaced it."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node] = field(default_factory=list)


def replace_pattern(gm: GraphModule, pattern: Callable | GraphModule,
                    replacement: Callable | GraphModule) -> list[Match]:
    """Replaces every part of a graph that computes what ``pattern`` does.

    Parts do not overlap; the inside of a part must not be used from outside. Parameters of pattern
    and replacement correspond by position.

    Returns:
        Where it was found.

    >>> import ftorch as torch
    >>> module = torch.fx.symbolic_trace(lambda x, y: torch.relu(x + y) * 2)
    >>> matches = torch.fx.replace_pattern(
    ...     module, lambda a, b: torch.relu(a + b), lambda a, b: torch.maximum(a, b))
    >>> len(matches), module(torch.ones(1), torch.zeros(1))
    (1, tensor([2.]))
    """
    return [Match(r.anchor, r.nodes_map) for r in _replace(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule, pattern: Callable | Graph | GraphModule,
    replacement: Callable | Graph | GraphModule | None = None,
    match_filters: list[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """As `replace_pattern`, with a say about every match.

    Args:
        match_filters: ``filter(match, graph, pattern_graph)``; all have to agree to a replacement.
        ignore_literals: numbers in the pattern match any number.
        replacement_callback: makes the replacement for a match, in place of ``replacement``.

    Raises:
        AssertionError: neither replacement nor callback is given.
    """
    return _replace(gm, pattern, replacement, match_filters, ignore_literals, replacement_callback)


def _graph_of(program) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _replace(gm, pattern, replacement=None, match_filters=None, ignore_literals=False,
             replacement_callback=None) -> list[ReplacedPatterns]:
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, match_output=False, match_placeholder=False,
                              remove_overlapping_matches=True, ignore_literals=ignore_literals)
    found = [
        m for m in matcher.match(graph)
        if all(accepts(m, graph, pattern_graph) for accepts in match_filters or ())
    ]
    common = None if replacement is None else _graph_of(replacement)
    if common is None and replacement_callback is None:
        raise AssertionError("Must provide either replacement GraphModule or replacement_callback")
    replaced, changed = [], {}
    for match in found:
        new = common if common is not None else replacement_callback(match, graph, pattern_graph)
        replaced.append(_put(graph, pattern_graph, new, match, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return replaced


def _put(graph, pattern_graph, replacement, match, changed) -> ReplacedPatterns:
    """Replaces one match. ``changed``: {node that was replaced: its successor}."""
    parameters = [n for n in replacement.nodes if n.op == "placeholder"]
    if len(parameters) != len(match.placeholder_nodes):
        raise AssertionError(
            f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(parameters)}"
        )
    for pattern_node, node in match.nodes_map.items():
        if isinstance(node, Node):  # an earlier replacement may have taken its place
            match.nodes_map[pattern_node] = changed.get(node, node)
    val_map: dict[Node, Node] = {
        parameter: changed.get(given, given) if isinstance(given, Node) else given
        for parameter, given in zip(parameters, match.placeholder_nodes)
    }
    # Replace behind everything the replacement reads, in front of everything that reads it.
    first_user = min(
        (u for n in match.returning_nodes for u in n.users), default=None, key=lambda u: u._position()
    )
    last_used = max(
        (n for n in val_map.values() if isinstance(n, Node)), default=None,
        key=lambda n: n._position(),
    )
    inside = [n for n in match.nodes_map.values() if isinstance(n, Node)]
    anchor = first_user or max(inside, key=lambda n: n._position()).next
    if last_used is not None and anchor._position() <= last_used._position():
        anchor = last_used.next
    known = set(graph.nodes)
    with graph.inserting_before(anchor):
        result = graph.graph_copy(replacement, val_map)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(results) != len(match.returning_nodes):
        raise AssertionError(
            f"Expected {len(match.returning_nodes)} returning nodes, got {len(results)}"
        )
    for old, new in zip(match.returning_nodes, results):
        old.replace_all_uses_with(new)
        changed[old] = new
    for node in reversed(list(pattern_graph.nodes)):
        mine = match.nodes_map.get(node)
        if node.op not in ("placeholder", "output") and isinstance(mine, Node) and not mine.users:
            graph.erase_node(mine)
    nodes_map = {k: v for k, v in match.nodes_map.items() if k.op != "output"}
    made = [n for n in graph.nodes if n not in known]
    return ReplacedPatterns(match.anchors[0], nodes_map, made)


def _take_attributes(gm: GraphModule, replacement: Module) -> None:
    """Gives the module what the replacement refers to, and takes away what nobody does."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        if _lookup(gm, node.target) is None:
            value = _lookup(replacement, node.target)
            if value is None:
                raise RuntimeError(
                    f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                    f"{node.target}, but the referenced attribute does not exist in the replacement "
                    "GraphModule"
                )
            _assign_attr(copy.deepcopy(value), gm, node.target)
    gm.graph.lint()


def _lookup(module: Any, path: str):
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]
