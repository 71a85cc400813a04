"""``split_by_tags``: cuts a graph into the parts that its nodes' tags name."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from ..proxy import Proxy
from .utils import HolderModule, lift_subgraph_as_module
from .utils.common import attribute

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


@compatibility(is_backward_compatible=False)
def getattr_recursive(obj, name: str):
    """What a path leads to, or None.

    >>> import ftorch as torch
    >>> from ftorch.fx.passes.split_utils import getattr_recursive
    >>> getattr_recursive(torch.nn.Sequential(torch.nn.Linear(2, 3)), "0.weight").shape
    torch.Size([3, 2])
    """
    for part in name.split("."):
        if not hasattr(obj, part):
            return None
        obj = getattr(obj, part)
    return obj


@compatibility(is_backward_compatible=False)
def setattr_recursive(obj, attr: str, value) -> None:
    """Sets what a path leads to."""
    owner, _, name = attr.rpartition(".")
    setattr(attribute(obj, owner) if owner else obj, name, value)


@compatibility(is_backward_compatible=False)
@dataclass
class Component:
    """A part while it is put together: what it reads (of the original graph), and what others read."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    gm: GraphModule | None = None


@compatibility(is_backward_compatible=False)
def split_by_tags(gm: GraphModule, tags: list[str], return_fqn_mapping: bool = False,
                  return_tuple: bool = False, GraphModuleCls=GraphModule):
    """A module that calls one submodule for each tag.

    Args:
        tags: in the order in which the parts are to run; each node except inputs and the output has one
            of them as its attribute ``tag``.
        return_fqn_mapping: gives (module, {path of an attribute: path in the new module}).
        return_tuple: parts give tuples, also of a single result.

    Raises:
        KeyError: a node has another tag.
    """
    parts = {tag: Component(Graph(), i, tag) for i, tag in enumerate(tags)}
    of: dict[Node, Component] = {}
    local: dict[Node, Node] = {}
    main = Graph()
    env: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            env[node] = main.placeholder(
                node.name, node.type, node.args[0] if node.args else ...
            )
            env[node].meta = copy.copy(node.meta)
        elif node.op != "output":
            part = of[node] = parts[node.tag]
            local[node] = part.graph.node_copy(node, lambda used, p=part: _inner(used, p, of, local))
            local[node].tag = node.tag
    output = gm.graph.output_node()
    for used in output.all_input_nodes:
        if used in of and used not in of[used].orig_outputs:
            of[used].orig_outputs.append(used)
    holder = HolderModule({})
    paths: dict[str, str] = {}
    for part in parts.values():
        paths.update(_finish(part, gm, local, return_tuple))
        call = main.call_module(part.name, tuple(env[n] for n in part.orig_inputs))
        if len(part.orig_outputs) == 1 and not return_tuple:
            env[part.orig_outputs[0]] = call
        else:
            for i, node in enumerate(part.orig_outputs):
                env[node] = Proxy(call)[i].node
        assert part.gm is not None
        holder.add_module(part.name, part.gm)
    main.output(map_arg(output.args[0], env.__getitem__))
    main.output_node().meta = copy.copy(output.meta)
    made = GraphModuleCls(holder, main)
    return (made, paths) if return_fqn_mapping else made


def _inner(used: Node, part: Component, of, local) -> Node:
    """What stands for a node within a part."""
    source = of.get(used)
    if source is part:
        return local[used]
    if used not in part.orig_inputs:
        place = part.graph.placeholder(used.name, type_expr=used.type)
        place.meta = copy.copy(used.meta)
        part.orig_inputs.append(used)
        part.input_placeholders.append(place)
        if source is not None and used not in source.orig_outputs:
            assert source.order <= part.order, f"{used} of {source.name} is needed by {part.name} before"
            source.orig_outputs.append(used)
    return part.input_placeholders[part.orig_inputs.index(used)]


def _finish(part: Component, gm, local, return_tuple):
    results = tuple(local[n] for n in part.orig_outputs)
    part.graph.output(results[0] if len(results) == 1 and not return_tuple else results)
    part.gm, paths = lift_subgraph_as_module(gm, part.graph, comp_name=part.name)
    return paths

