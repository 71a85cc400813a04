"""Subgraph matches whose nodes go by names that the pattern gives."""

from __future__ import annotations

from typing import Any

from ....utils._pytree import tree_unflatten
from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from .matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


@compatibility(is_backward_compatible=False)
class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """A matcher of a pattern that returns its results and, last of all, {name: node}.

    Each match has ``name_node_map``: {name: the node of the graph}.
    """

    def __init__(self, pattern_gm: GraphModule, match_output: bool = False,
                 match_placeholder: bool = False, remove_overlapping_matches: bool = True,
                 ignore_literals: bool = False) -> None:
        graph, self.name_node_map = _named(pattern_gm)
        super().__init__(graph, match_output, match_placeholder, remove_overlapping_matches,
                         ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The matches in a graph."""
        found = super().match(graph)
        for match in found:
            for name, node in self.name_node_map.items():
                match.name_node_map[name] = match.nodes_map[node]
        return found


def _named(pattern: GraphModule) -> tuple[Graph, dict[str, Node]]:
    """The pattern's graph without the names in its result, and the names."""
    graph: Graph = pattern.graph
    output = graph.output_node()
    given: Any = output.args[0]
    if getattr(pattern, "_out_spec", None) is not None:  # exported: its results are leaves
        given = tree_unflatten(list(given), pattern._out_spec)
    *results, names = given
    assert isinstance(names, dict), (
        "Expecting the input graph to have a dict output as the last element"
    )
    output.args = (tuple(results),)
    return graph, dict(names)
