"""Nodes by the modules and functions of the source that they come from."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..._compatibility import compatibility
from ..._targets import qualified_name
from ...graph import Graph
from ...node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]

logger = logging.getLogger(__name__)


@compatibility(is_backward_compatible=False)
@dataclass
class SourcePartition:
    """The nodes that one module's or function's call became.

    Attributes:
        source: the class or function.
        input_nodes: what the nodes read of others; output_nodes: what others read of them.
        params: the attributes among the nodes.
    """

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


@compatibility(is_backward_compatible=False)
def get_source_partitions(graph: Graph, wanted_sources: list[Any],
                          filter_fn: Callable[[Node], bool] | None = None):
    """{source: [its `SourcePartition`]} of a graph whose nodes know their source.

    Args:
        wanted_sources: classes, functions or names; ``meta["source_fn_stack"]``, else
            ``meta["nn_module_stack"]``, says where a node is from.
        filter_fn: parts are left out unless it holds for all of their nodes.
    """
    found: dict[Any, dict[Any, list[Node]]] = {}
    for node in graph.nodes:
        source = _source_of(node, wanted_sources)
        if source is not None:
            key, kind = source
            found.setdefault(kind, {}).setdefault(key, []).append(node)
    made = {kind: [_partition(n, kind) for n in groups.values()] for kind, groups in found.items()}
    if filter_fn is not None:
        made = {kind: [p for p in parts if all(map(filter_fn, p.nodes))] for kind, parts in made.items()}
        made = {kind: parts for kind, parts in made.items() if parts}
    return made


def _source_of(node: Node, wanted):
    """(what is the same for the nodes of one call, the wanted source), or None."""
    stack = node.meta.get("source_fn_stack")
    if stack:
        name, source = stack[-1]
        return (name, source) if source in wanted else None
    if node.op != "call_function":  # what checks the guards of a program is in no module
        return None
    for path, kind in reversed(list(node.meta.get("nn_module_stack", {}).values())):
        for source in wanted:
            if kind is source or kind == (qualified_name(source) if callable(source) else source):
                return path, source
    return None


def _partition(nodes: list[Node], source) -> SourcePartition:
    inside = set(nodes)
    inputs = dict.fromkeys(
        used for n in nodes for used in n.all_input_nodes
        if used not in inside and used.op != "get_attr"
    )
    outputs = [n for n in nodes if any(u not in inside for u in n.users)]
    params = [n for n in nodes if n.op == "get_attr"]
    return SourcePartition(nodes, source, list(inputs), outputs, params)


@compatibility(is_backward_compatible=False)
def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second part reads what the first one gives."""
    return any(n in subgraph1.nodes for node in subgraph2.nodes for n in node.all_input_nodes)
