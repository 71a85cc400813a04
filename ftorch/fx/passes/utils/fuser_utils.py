"""Parts of a graph as submodules in their place."""

from __future__ import annotations

import operator
from collections import deque

from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from ..tools_common import stable_topological_sort
from .common import lift_subgraph_as_module

__all__ = ["erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm", "topo_sort",
           "validate_partition"]


@compatibility(is_backward_compatible=False)
def topo_sort(nodes: list[Node]) -> list[Node]:
    """Nodes behind those of them that they read."""
    inside = set(nodes)
    missing = {n: sum(used in inside for used in n.all_input_nodes) for n in nodes}
    ready = deque(n for n in nodes if missing[n] == 0)
    ordered: list[Node] = []
    while ready:
        node = ready.popleft()
        ordered.append(node)
        for user in node.users:
            if user in inside:
                missing[user] -= 1
                if missing[user] == 0:
                    ready.append(user)
    assert len(ordered) == len(nodes), "topological sorted nodes doesn't have same length as input nodes"
    return ordered


@compatibility(is_backward_compatible=False)
def validate_partition(partition: list[Node]) -> bool:
    """Whether no path leads out of some nodes and back in, so that they can be one call."""
    inside = set(partition)
    pending = deque(u for n in partition for u in n.users if u not in inside)
    seen = set(pending)
    while pending:
        for user in pending.popleft().users:
            if user in inside:
                return False
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return True


@compatibility(is_backward_compatible=False)
def fuse_as_graphmodule(gm: GraphModule, nodes: list[Node], module_name: str,
                        partition_lookup_table=None, *, always_return_tuple: bool = False):
    """A module that computes some nodes.

    Args:
        partition_lookup_table: what counts as among the nodes.
        always_return_tuple: also for a single result.

    Returns:
        (the module, the nodes that it reads, the nodes that others read of it).
    """
    for node in nodes:
        assert node.graph.owning_module is gm, f"{node} doesn't belong to passed in graph module"
        assert not node._erased, f"{node} has been removed from owning graph"
    assert validate_partition(nodes), "Invalid partition, found dependency cycles"
    inside = set(nodes if partition_lookup_table is None else partition_lookup_table)
    graph = Graph()
    places: dict[Node, Node] = {}
    own: dict[Node, Node] = {}

    def local(used):
        if used in own:
            return own[used]
        if used not in places:
            places[used] = graph.placeholder(used.name, type_expr=used.type)
            places[used].meta = dict(used.meta)
        return places[used]

    for node in nodes:
        own[node] = graph.node_copy(node, local)
    outputs = [n for n in nodes if any(u not in inside for u in n.users)]
    results = tuple(own[n] for n in outputs)
    graph.output(results if always_return_tuple or len(results) != 1 else results[0])
    graph.lint()
    made, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return made, tuple(places), tuple(outputs)


@compatibility(is_backward_compatible=False)
def insert_subgm(gm: GraphModule, sub_gm: GraphModule, orig_inputs, orig_outputs) -> GraphModule:
    """Calls a module where the last of its inputs is known, and lets everybody read its results."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    graph = gm.graph
    last = max(orig_outputs, key=lambda n: n._position()) if orig_outputs else graph.output_node().prev
    with graph.inserting_after(last):
        call = graph.call_module(name, args=tuple(orig_inputs), kwargs=None)
    as_tuple = isinstance(sub_gm.graph.output_node().args[0], tuple)
    if len(orig_outputs) == 1 and not as_tuple:
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    for i, node in enumerate(orig_outputs):
        with graph.inserting_after(node):  # the order is put right later
            item = graph.call_function(operator.getitem, (call, i))
        node.replace_all_uses_with(item, propagate_meta=True)
    call.meta["val"] = tuple(n.meta.get("val", None) for n in orig_outputs)
    return gm


@compatibility(is_backward_compatible=False)
def erase_nodes(gm: GraphModule, nodes: list[Node]) -> None:
    """Removes nodes, which are in topological order."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


@compatibility(is_backward_compatible=False)
def fuse_by_partitions(gm: GraphModule, partitions, prefix: str = "fused_",
                       always_return_tuple: bool = False) -> GraphModule:
    """Makes a submodule of each part, in place.

    Args:
        partitions: dictionaries whose keys are the nodes of a part.
    """
    for i, partition in enumerate(partitions):
        ordered = sorted(partition, key=lambda n: n._position())
        made, inputs, outputs = fuse_as_graphmodule(
            gm, ordered, f"{prefix}{i}", partition, always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, made, inputs, outputs)
        erase_nodes(gm, ordered)
    return stable_topological_sort(gm)
