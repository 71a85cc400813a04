"""``split_module``: cuts a graph into submodules."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule, _assign_attr
from ..node import Node, map_arg


class Partition:
    """A part of a graph while it is put together."""

    def __init__(self, name: str):
        self.name = name
        self.submod_name = f"submod_{name}"
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.depends_on: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {[n.name for n in self.nodes]},\n "
            f"inputs: {list(self.inputs)},\n outputs: {list(self.outputs)},\n "
            f"depends on: {list(self.depends_on)}"
        )


def split_module(m: GraphModule, root_m: Module | None, split_callback: Callable[[Node], Any],
                 qualname_map: dict[str, str] | None = None, keep_original_order: bool = False,
                 keep_original_node_name: bool = False) -> GraphModule:
    """A module that calls submodules, one for each part of a graph.

    Args:
        root_m: has no effect.
        split_callback: says for a node which part it goes to (any value; the submodule's name ends
            with it).
        qualname_map: receives {new path of an attribute: old one}.
        keep_original_order: calls the parts in the order in which they begin.
        keep_original_node_name: nodes of the parts have the names of the original.

    Raises:
        RuntimeError: parts depend on each other in a circle.

    >>> import ftorch as torch
    >>> from ftorch.fx.passes.split_module import split_module
    >>> module = torch.fx.symbolic_trace(lambda x: torch.relu(x + 1) * 2)
    >>> parts = split_module(module, None, lambda node: "b" if node.name == "mul" else "a")
    >>> print(parts.code.strip())
    def forward(self, x):
        submod_a = self.submod_a(x);  x = None
        submod_b = self.submod_b(submod_a);  submod_a = None
        return submod_b
    """
    partitions: dict[str, Partition] = {}
    of: dict[Node, str] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = str(split_callback(node))
        of[node] = name
        partitions.setdefault(name, Partition(name)).nodes.append(node)
    _connect(m.graph, partitions, of)
    order = list(partitions) if keep_original_order else _sorted(partitions)
    for partition in partitions.values():
        _fill(partition, m, keep_original_node_name, qualname_map)
    return _assemble(m, partitions, of, order)


def _connect(graph, partitions, of):
    """What each part takes and gives, in the order in which the graph uses it."""
    for node in graph.nodes:
        user = of.get(node)
        for used in node.all_input_nodes:
            source = of.get(used)
            if source == user:
                continue
            if source is not None:
                partitions[source].outputs.setdefault(used)
            if user is not None:
                partitions[user].inputs.setdefault(used)
                if source is not None:
                    partitions[user].depends_on.setdefault(source)


def _sorted(partitions) -> list[str]:
    order: list[str] = []
    pending = dict(partitions)
    while pending:
        ready = next(
            (n for n, p in pending.items() if not any(d in pending for d in p.depends_on)), None
        )
        if ready is None:
            raise RuntimeError("cycle exists between partitions!")
        order.append(ready)
        del pending[ready]
    return order


def _attribute(m, path):
    for part in path.split("."):
        m = getattr(m, part)
    return m


def _fill(partition: Partition, m, keep_names, qualname_map):
    env = partition.environment
    for used in partition.inputs:
        env[used] = partition.graph.placeholder(used.name, type_expr=used.type)
        env[used].meta = dict(used.meta)

    for node in partition.nodes:
        args, kwargs = (map_arg(a, env.__getitem__) for a in (node.args, node.kwargs))
        target = node.target
        if node.op == "call_module":
            target = node.target.replace(".", "_")
            partition.targets[target] = m.get_submodule(node.target)
            if qualname_map is not None:
                qualname_map[f"{partition.submod_name}.{target}"] = node.target
        name = node.name if keep_names else None
        new = partition.graph.create_node(node.op, target, args, dict(kwargs), name, node.type)
        new.meta = dict(node.meta)
        env[node] = new
    results = tuple(env[n] for n in partition.outputs)
    if results:
        partition.graph.output(results[0] if len(results) == 1 else results)
    else:
        partition.graph.output(())


def _assemble(m, partitions, of, order) -> GraphModule:
    graph = Graph()
    env: dict[Node, Node] = {}
    root: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            default = node.args[0] if node.args else ...
            env[node] = graph.placeholder(node.target, type_expr=node.type, default_value=default)
        elif node.op == "get_attr":
            env[node] = graph.get_attr(node.target, type_expr=node.type)
            root[node.target] = _attribute(m, node.target)
        else:
            continue
        env[node].meta = dict(node.meta)

    for name in order:
        partition = partitions[name]
        holder = Module()
        for path, value in partition.targets.items():
            _assign_attr(value, holder, path)
        root[partition.submod_name] = GraphModule(holder, partition.graph)
        call = graph.call_module(partition.submod_name, tuple(env[n] for n in partition.inputs))
        results = list(partition.outputs)
        if len(results) == 1:
            env[results[0]] = call
            continue
        for i, node in enumerate(results):
            env[node] = graph.call_function(operator.getitem, (call, i))
    output = m.graph.output_node()
    graph.output(map_arg(output.args[0], env.__getitem__), type_expr=output.type)
    return GraphModule(root, graph)


__all__ = ["Partition", "split_module"]
