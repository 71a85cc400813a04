"""Parts of two graph modules that compute the same thing (``torch.ao.ns.fx.graph_matcher``)."""

from __future__ import annotations

import enum
import itertools
from typing import Any

from ftorch.ao.quantization import FakeQuantizeBase, ObserverBase
from ftorch.ao.quantization.utils import getattr_from_fqn
from ftorch.fx import GraphModule
from ftorch.fx.graph import Graph, Node

from .mappings import get_base_name_to_sets_of_related_ops, get_unmatchable_types_map
from .ns_types import NSNodeTargetType, NSSubgraph
from .pattern_utils import (
    end_node_matches_reversed_fusion,
    get_reversed_fusions,
    get_type_a_related_to_b,
)


def _get_output_nodes(g: Graph) -> list[Node]:
    return [n for n in g.nodes if n.op == "output"]


class _NSGraphMatchableSubgraphsIterator:
    """The parts of a graph that are compared, from its results on; nodes that are quantized as one are one part."""

    def __init__(self, gm: GraphModule, non_matchable_functions: set[NSNodeTargetType],
                 non_matchable_modules: set[NSNodeTargetType], non_matchable_methods: set[NSNodeTargetType]):
        self.gm = gm
        self.non_matchable_functions = non_matchable_functions
        self.non_matchable_modules = non_matchable_modules
        self.non_matchable_methods = non_matchable_methods
        self.seen_nodes: set[Node] = set()
        self.stack: list[Node] = _get_output_nodes(gm.graph)
        self.fusions = get_reversed_fusions()

    def __iter__(self):
        return self

    def __next__(self) -> NSSubgraph:
        while self.stack:
            end = self.stack.pop()
            if end in self.seen_nodes:
                continue
            start = base = end
            for chain, place in self.fusions:
                if end_node_matches_reversed_fusion(end, chain, self.gm, self.seen_nodes):
                    for i in range(len(chain) - 1):
                        self.seen_nodes.add(start)
                        first: Any = start.args[0]
                        start = first
                        if i == len(chain) - 2 - place:
                            base = start
                    break
            self.seen_nodes.add(start)
            self.stack += start.all_input_nodes
            if self._is_matchable(base) and not (start is end and self._is_observer(end)):
                return NSSubgraph(start_node=start, end_node=end, base_op_node=base)
        raise StopIteration

    def _is_observer(self, node: Node) -> bool:
        return node.op == "call_module" and isinstance(
            getattr_from_fqn(self.gm, str(node.target)), (ObserverBase, FakeQuantizeBase)
        )

    def _is_matchable(self, node: Node) -> bool:
        if node.op == "call_function":
            return node.target not in self.non_matchable_functions
        if node.op == "call_module":
            kinds: Any = tuple(self.non_matchable_modules)
            return not isinstance(getattr_from_fqn(self.gm, str(node.target)), kinds)
        return node.op == "call_method" and node.target not in self.non_matchable_methods


class GraphMatchingException(Exception):
    """Two graphs have other parts."""


class SubgraphTypeRelationship(enum.Enum):
    """How two parts' operators stand to each other."""

    EQUAL = enum.auto()
    EQUAL_BUT_UKNOWN = enum.auto()
    RELATED_BUT_NOT_EQUAL = enum.auto()
    NOT_RELATED = enum.auto()


def _get_node_target_type(node: Node, gm: GraphModule) -> Any:
    """A call's function, method's name, or module's class; None for other nodes."""
    if node.op == "call_module":
        return type(getattr_from_fqn(gm, str(node.target)))
    return node.target if node.op in ("call_function", "call_method") else None


def _get_subgraph_relationship_type(subgraph_a: NSSubgraph, subgraph_b: NSSubgraph, gm_a: GraphModule,
                                    gm_b: GraphModule, type_a_related_to_b: set) -> SubgraphTypeRelationship:
    kind, a, b = SubgraphTypeRelationship, subgraph_a.base_op_node, subgraph_b.base_op_node
    calls = ("call_function", "call_method")
    if not (a.op == b.op == "call_module") and not (a.op in calls and b.op in calls):
        return kind.NOT_RELATED
    a_alone, b_alone = a == subgraph_a.start_node, b == subgraph_b.start_node
    if a.op == "call_module" and not (a_alone and b_alone):
        raise AssertionError("Matching call_module patterns where base_op_node != start_node is not supported yet")
    key = (_get_node_target_type(a, gm_a), _get_node_target_type(b, gm_b))
    same = key[0] == key[1]
    if key not in type_a_related_to_b:
        return kind.EQUAL_BUT_UKNOWN if same else kind.NOT_RELATED
    return kind.EQUAL if same and a_alone == b_alone else kind.RELATED_BUT_NOT_EQUAL


def _get_name_for_subgraph(subgraph_a: NSSubgraph, gm_a: GraphModule,
                           base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]],
                           existing_names: set[str]) -> str:
    """"base_op_", the name of the last set with the part's operator, and the first number that is free."""
    target = _get_node_target_type(subgraph_a.base_op_node, gm_a)
    base = None
    for name, related in base_name_to_sets_of_related_ops.items():
        if target in related:
            base = name
    found = next(n for i in itertools.count() if (n := f"base_op_{base}_{i}") not in existing_names)
    existing_names.add(found)
    return found


def get_matching_subgraph_pairs(
    gm_a: GraphModule, gm_b: GraphModule,
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]] | None = None,
    unmatchable_types_map: dict[str, set[NSNodeTargetType]] | None = None,
) -> dict[str, tuple[NSSubgraph, NSSubgraph]]:
    """{name: (part of the one, part of the other)}, in the order of the graphs.

    Raises:
        GraphMatchingException: for graphs with other parts.
    """
    unmatchable = unmatchable_types_map or get_unmatchable_types_map()
    kinds = [unmatchable[key] for key in ("funs_unmatchable", "mods_unmatchable", "meths_unmatchable")]
    parts_a = _NSGraphMatchableSubgraphsIterator(gm_a, *kinds)
    parts_b = _NSGraphMatchableSubgraphsIterator(gm_b, *kinds)
    sets = base_name_to_sets_of_related_ops or get_base_name_to_sets_of_related_ops()
    related = get_type_a_related_to_b(sets)
    names_a: set[str] = set()
    names_b: set[str] = set()
    found: dict[str, tuple[NSSubgraph, NSSubgraph]] = {}
    for a, b in itertools.zip_longest(parts_a, parts_b):
        start_a = None if a is None else _get_node_target_type(a.start_node, gm_a)
        start_b = None if b is None else _get_node_target_type(b.start_node, gm_b)
        if a is None or b is None:
            raise GraphMatchingException(
                f"\nAttempting to match\n({a}, {start_a}) and\n({b}, {start_b}),\n"
                "one of which is empty. Please ensure that the two models you pass in have the same number\n"
                "of subgraphs."
            )
        relation = _get_subgraph_relationship_type(a, b, gm_a, gm_b, related)
        if relation == SubgraphTypeRelationship.NOT_RELATED:
            raise GraphMatchingException(
                f"\nThe subgraphs\n({a}, {start_a}) and\n({b}, {start_b})\n"
                "are not related. Please ensure that the two models you pass in have the same number\n"
                "of subgraphs, and each pair of subgraphs is related to each other."
            )
        if relation == SubgraphTypeRelationship.EQUAL_BUT_UKNOWN:
            continue
        name_a = _get_name_for_subgraph(a, gm_a, sets, names_a)
        name_b = _get_name_for_subgraph(b, gm_b, sets, names_b)
        if name_a != name_b:
            raise AssertionError(f"Subgraph names {name_a} and {name_b} do not match")
        found[name_a] = (a, b)
    return dict(reversed(found.items()))
