"""``CapabilityBasedPartitioner``: gathers what a backend supports into submodules."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from ..operator_support import OperatorSupportBase


class Partition:
    """Nodes that become one submodule."""

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None):
        self.id = id
        self.nodes: dict[Node, None] = dict.fromkeys(nodes or ())

    def __repr__(self) -> str:
        return str(list(self.nodes))

    def add_node(self, node: Node) -> None:
        """Adds a node."""
        self.nodes.setdefault(node)

    def remove_node(self, node: Node) -> None:
        """Removes a node."""
        del self.nodes[node]

    def size(self) -> int:
        """How many nodes it has."""
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Finds the largest parts of a graph that are supported and can run as one.

    Args:
        allows_single_node_partition: keeps parts of one node that computes.
        non_compute_ops: names of functions that do not count as computing.
        allowed_single_node_partition_ops: names of functions that may be a part alone.
    """

    def __init__(self, graph_module: GraphModule, operator_support: OperatorSupportBase,
                 allows_single_node_partition: bool = False,
                 non_compute_ops: Sequence[str] | None = None,
                 allowed_single_node_partition_ops: Sequence[str] | None = None) -> None:  # fmt: skip
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = set(non_compute_ops or ())
        self.allowed_single = set(allowed_single_node_partition_ops or ())

    def _is_supported(self, node):
        submodules = dict(self.graph_module.named_modules())
        return node.op not in ("placeholder", "output", "get_attr") and (
            self.operator_support.is_node_supported(submodules, node)
        )

    def propose_partitions(self) -> list[Partition]:
        """The parts, none of which depends on itself through nodes outside."""
        nodes = list(self.graph_module.graph.nodes)
        group: dict[Node, int] = {}
        members: dict[int, list[Node]] = {}
        for i, node in enumerate(nodes):
            if not self._is_supported(node):
                continue
            group[node] = i
            members[i] = [node]
            candidates = dict.fromkeys(group[n] for n in node.all_input_nodes if n in group)
            for other in candidates:
                if other in members and group[node] != other and self._can_merge(
                    members[group[node]], members[other]
                ):  # fmt: skip
                    mine = group[node]
                    for n in members.pop(other):
                        group[n] = mine
                        members[mine].append(n)
        parts = [sorted(m, key=lambda n: n._position()) for m in members.values()]
        parts = [p for p in parts if self._is_worth(p)]
        parts.sort(key=lambda p: p[0]._position())
        return [Partition(i, p) for i, p in enumerate(parts)]

    @staticmethod
    def _can_merge(a: list[Node], b: list[Node]) -> bool:
        """Whether no path leads from the union out and back in."""
        union = {*a, *b}
        pending = [u for n in union for u in n.users if u not in union]
        seen = set(pending)
        while pending:
            node = pending.pop()
            for user in node.users:
                if user in union:
                    return False
                if user not in seen:
                    seen.add(user)
                    pending.append(user)
        return True

    def _is_worth(self, nodes) -> bool:
        from ..operator_support import get_node_target

        submodules = dict(self.graph_module.named_modules())
        names = [get_node_target(submodules, n) for n in nodes]
        computing = [n for n in names if n not in self.non_compute_ops and n != "_operator.getitem"]
        if not computing:
            return False
        return len(computing) > 1 or self.allows_single_node_partition or (
            computing[0] in self.allowed_single
        )

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Makes submodules of parts, in place."""
        for partition in partitions:
            fuse(self.graph_module, list(partition.nodes), f"{prefix}{partition.id}")
        self.graph_module.graph.lint()
        self.graph_module.recompile()
        return self.graph_module

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Makes submodules of what is supported, in place."""
        return self.fuse_partitions(self.propose_partitions(), prefix)


def fuse(gm: GraphModule, nodes: list[Node], name: str) -> Node:
    """Replaces nodes, which no path may leave and enter again, by a call of a submodule."""
    graph = Graph()
    env: dict[Node, Node] = {}
    inside = set(nodes)
    inputs = dict.fromkeys(
        used for n in nodes for used in n.all_input_nodes
        if used not in inside and used.op != "get_attr"
    )  # fmt: skip
    for used in inputs:
        env[used] = graph.placeholder(used.name, type_expr=used.type)
        env[used].meta = dict(used.meta)

    def local(n):
        if n not in env:
            env[n] = graph.node_copy(n)
        return env[n]

    for node in nodes:
        env[node] = graph.node_copy(node, local)
    outputs = [n for n in nodes if any(u not in inside for u in n.users)]
    results = tuple(env[n] for n in outputs)
    graph.output(results[0] if len(results) == 1 else results)
    gm.add_submodule(name, GraphModule(gm, graph, name))
    _order(gm, nodes, inputs)
    with gm.graph.inserting_after(nodes[-1]):
        call = gm.graph.call_module(name, tuple(inputs))
    with gm.graph.inserting_after(call):
        for i, node in reversed(list(enumerate(outputs))):
            new = call if len(outputs) == 1 else gm.graph.call_function(operator.getitem, (call, i))
            node.replace_all_uses_with(new, lambda u: u not in inside and u is not call)
    for node in reversed(nodes):
        gm.graph.erase_node(node)
    return call


def _order(gm, nodes, inputs):
    """Moves the nodes together: behind everything they need, before everything that needs them."""
    inside = set(nodes)
    needed: set[Node] = set()
    pending = list(inputs)
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending.extend(node.all_input_nodes)
    for used in sorted(needed, key=lambda n: n._position()):
        if used > nodes[0]:
            nodes[0].prepend(used)
    for before, node in zip(nodes, nodes[1:]):
        before.append(node)
    users = [u for n in nodes for u in n.users if u not in inside]
    assert all(u > nodes[-1] for u in users), "the nodes depend on themselves through others"


__all__ = ["CapabilityBasedPartitioner", "Partition", "fuse"]
