"""Products with one common left operand as a single product."""

from __future__ import annotations

import operator
from itertools import combinations

import ftorch

from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..node import Node
from ..passes.tools_common import legalize_graph

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def split_result_tensors(result, inputs):
    """The parts of a product that belong to each of the left operands that were put together.

    Args:
        result: of shape (rows of all inputs, ...); inputs: the operands.
    """
    return ftorch.split(result, [x.shape[0] for x in inputs])


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Whether a node may read another one, directly or not; True where the search is given up."""
    if a == b:
        return True
    if not a.all_input_nodes:
        return False
    if search_depth == 0:
        return True
    return any(may_depend_on(used, b, search_depth - 1) for used in a.all_input_nodes)


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Whether no node reads another one of them."""
    return not any(may_depend_on(a, b) or may_depend_on(b, a) for a, b in combinations(nodes, 2))


def merge_matmul(in_mod) -> GraphModule:
    """A module whose products with one right operand are one product of what is on the left.

    Args:
        in_mod: a module or function, which is traced.
    """
    gm = symbolic_trace(in_mod)
    groups: dict[object, list[Node]] = {}
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is ftorch.matmul:
            groups.setdefault(node.args[1], []).append(node)
    for right, nodes in groups.items():
        if len(nodes) < 2 or not are_nodes_independent(nodes):
            continue
        _merge(gm, nodes, right)
    legalize_graph(gm)
    gm.recompile()
    gm.graph.lint()
    return gm


def _merge(gm: GraphModule, nodes: list[Node], right) -> None:
    graph = gm.graph
    lefts = [n.args[0] for n in nodes]
    with graph.inserting_before(nodes[0]):
        together = graph.call_function(ftorch.cat, (lefts,), {})
        product = graph.call_function(ftorch.matmul, (together, right), {})
        parts = graph.call_function(split_result_tensors, (product, lefts), {})
        items = [graph.call_function(operator.getitem, (parts, i), {}) for i in range(len(nodes))]
    for node, item in zip(nodes, items):
        node.replace_all_uses_with(item)
        graph.erase_node(node)

