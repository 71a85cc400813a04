"""What passes need to know of nodes: names, results, order."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from ...eager.tensor import Tensor
from .._compatibility import compatibility
from .._targets import qualified_name
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from .operator_support import get_node_target

__all__ = ["FxNetAccFusionsFinder", "get_acc_ops_name", "get_node_target", "is_node_output_tensor",
           "legalize_graph", "stable_topological_sort"]

Tensors = tuple[Tensor, ...] | list[Tensor]
TensorOrTensors = Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


@compatibility(is_backward_compatible=False)
def get_acc_ops_name(k) -> str:
    """The name of a function; names as they are.

    >>> import ftorch as torch
    >>> from ftorch.fx.passes.tools_common import get_acc_ops_name
    >>> get_acc_ops_name(torch.relu)
    'torch.relu'
    """
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return qualified_name(k)


@compatibility(is_backward_compatible=False)
def is_node_output_tensor(node: Node) -> bool:
    """Whether the result is a tensor, by ``meta["type"]``."""
    kind = node.meta.get("type", None)
    return isinstance(kind, type) and issubclass(kind, Tensor)


@compatibility(is_backward_compatible=False)
class FxNetAccFusionsFinder:
    """Groups of an accelerator's nodes that pass other values than tensors to each other.

    Args:
        acc_nodes: the nodes that run on the accelerator. Those between them whose results are no
            tensors are part of their groups.

    Calling it gives {node: the set of its group}.
    """

    @dataclass
    class FusionGroup:
        """Nodes that stay together."""

        top_node_idx: int
        nodes: NodeSet
        inputs: NodeSet
        nodes_need_process: NodeSet

    def __init__(self, module: GraphModule, acc_nodes: NodeSet):
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes

    def __call__(self) -> dict[Node, NodeSet]:
        groups: dict[Node, NodeSet] = {}
        for node in self.acc_nodes:
            if node in groups or node.op not in CALLABLE_NODE_OPS or is_node_output_tensor(node):
                continue
            if node not in self.acc_nodes:
                continue
            group, pending = {node}, [node]
            while pending:
                current = pending.pop()
                near = list(current.all_input_nodes) + (
                    [] if is_node_output_tensor(current) else list(current.users)
                )
                for other in near:
                    reads = other in current.users
                    if other in group or other.op not in CALLABLE_NODE_OPS:
                        continue
                    if not reads and is_node_output_tensor(other):
                        continue
                    group.add(other)
                    pending.append(other)
            if not group <= self.acc_nodes:
                self.acc_nodes -= group
                continue
            for member in group:
                groups[member] = group
        return groups


@compatibility(is_backward_compatible=False)
def legalize_graph(gm: GraphModule) -> GraphModule:
    """Puts nodes behind what they read, in place; else they keep their order where it is free.

    Raises:
        RuntimeError: nodes depend on each other in a circle.
    """
    missing = {n: len(n.all_input_nodes) for n in gm.graph.nodes}
    ready = [n for n in gm.graph.nodes if missing[n] == 0]
    ordered: list[Node] = []
    for node in ready:  # grows
        ordered.append(node)
        for user in node.users:
            missing[user] -= 1
            if missing[user] == 0:
                ready.append(user)
    return _reordered(gm, ordered, missing)


@compatibility(is_backward_compatible=False)
def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Puts nodes behind what they read, in place, and moves no others.

    Raises:
        RuntimeError: nodes depend on each other in a circle.
    """
    place = {n: i for i, n in enumerate(gm.graph.nodes)}
    nodes = list(place)
    missing = {n: len(n.all_input_nodes) for n in nodes}
    ready = [i for i, n in enumerate(nodes) if missing[n] == 0]
    ordered: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        ordered.append(node)
        for user in node.users:
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(ready, place[user])
    return _reordered(gm, ordered, missing)


def _reordered(gm, ordered, missing):
    if len(ordered) < len(missing):
        left = [n for n in missing if n not in set(ordered)]
        raise RuntimeError(f"Input graph has cycles, unable to add {left}")
    graph = Graph()
    env: dict[Node, Node] = {}
    for node in ordered:
        env[node] = graph.node_copy(node, lambda n: env[n])
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm

