"""``CapabilityBasedPartitioner``: gathers what a backend supports into submodules."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...graph_module import GraphModule
from ...node import Node
from ..operator_support import OperatorSupportBase, get_node_target
from ..utils.fuser_utils import fuse_by_partitions


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
                 allowed_single_node_partition_ops: Sequence[str] | None = None) -> None:
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
        """The parts, none of which depends on itself through nodes outside; the last one first.

        All that can run as one becomes one, also what has nothing to do with each other.
        """
        nodes = list(self.graph_module.graph.nodes)
        merging = _Merging(nodes)
        groups: list[_Group] = []  # the oldest first
        for i in reversed(range(len(nodes))):
            if not self._is_supported(nodes[i]):
                continue
            group = _Group(len(nodes) - i, len(nodes) - i, 1 << i)
            rest = []
            for other in groups:
                if merging.allows(group.mask | other.mask):
                    group = group.joined(other)
                    merging.merge(group.mask)
                else:
                    rest.append(other)
            groups = sorted([*rest, group], key=lambda g: g.age)
        groups.sort(key=lambda g: g.number)
        parts = [merging.members(g.mask) for g in groups]
        self._gather_items(parts)
        parts = [p for p in parts if self._is_worth(p)]
        return [Partition(i, p) for i, p in enumerate(parts)]

    def _is_worth(self, nodes) -> bool:
        if self.allows_single_node_partition:
            return True
        submodules = dict(self.graph_module.named_modules())
        names = [get_node_target(submodules, n) for n in nodes if n.op.startswith("call_")]
        idle = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        return len([n for n in names if n not in idle]) > 1 or (
            any(n in self.allowed_single for n in names)
        )

    @staticmethod
    def _gather_items(parts):
        """An element of a tuple belongs to the part that makes the tuple."""
        of = {n: part for part in parts for n in part}
        for part in parts:
            for node in part:
                for user in node.users:
                    home = of.get(user)
                    if user.target is operator.getitem and home is not part:
                        if home is not None:
                            home.remove(user)
                        part.append(user)
                        of[user] = part

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Makes submodules of parts, in place."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Makes submodules of what is supported, in place."""
        return self.fuse_partitions(self.propose_partitions(), prefix)


class _Group(NamedTuple):
    """Nodes that are to be one part. Which number and age a union has decides how parts are called."""

    number: int
    age: int
    mask: int

    def joined(self, other: _Group) -> _Group:
        """The union: it goes by the larger one's number, and is as old as the older one."""
        larger = other if self.mask.bit_count() < other.mask.bit_count() else self
        return _Group(larger.number, min(self.age, other.age), self.mask | other.mask)


class _Merging:
    """Which nodes may become one call. Sets of nodes are the bits of integers.

    Nodes that are one call reach what each of them reaches; so does what reaches one of them.
    """

    def __init__(self, nodes: list[Node]):
        self.nodes = nodes
        self.place = {n: i for i, n in enumerate(nodes)}
        self.users = [sum(1 << self.place[u] for u in n.users) for n in nodes]
        self.reached = [0] * len(nodes)
        for i in reversed(range(len(nodes))):
            for user in nodes[i].users:
                place = self.place[user]
                self.reached[i] |= self.reached[place] | 1 << place

    def members(self, group: int) -> list[Node]:
        """The nodes of a set, in order."""
        return [self.nodes[i] for i in _bits(group)]

    def allows(self, group: int) -> bool:
        """Whether nothing outside is behind one of a set's nodes and before another one."""
        outside = 0
        for i in _bits(group):
            outside |= self.users[i]
        return not any(self.reached[i] & group for i in _bits(outside & ~group))

    def merge(self, group: int) -> None:
        """Makes a set one call."""
        reached = 0
        for i in _bits(group):
            reached |= self.reached[i]
        for i, known in enumerate(self.reached):
            if known & group or group >> i & 1:
                self.reached[i] = known | reached | group & ~(1 << i)


def _bits(mask: int):
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


__all__ = ["CapabilityBasedPartitioner", "Partition"]
