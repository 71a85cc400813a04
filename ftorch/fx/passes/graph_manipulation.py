"""Exchanging what nodes call, and how much memory they take."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._compatibility import compatibility
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .shape_prop import ShapeProp

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with",
           "size_bytes"]


@compatibility(is_backward_compatible=False)
def replace_target_nodes_with(fx_module: GraphModule, old_op: str, old_target, new_op: str, new_target):
    """Lets all nodes of one kind be nodes of another one, in place."""
    graph = Graph()
    env: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = (map_arg(a, lambda n: env[n]) for a in (node.args, node.kwargs))
            env[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            env[node] = graph.node_copy(node, lambda n: env[n])
    fx_module.graph = graph


@compatibility(is_backward_compatible=False)
class size_bytes(NamedTuple):  # noqa: N801  (PyTorch's)
    """Bytes of a node's result, and of that with the parameters that it uses."""

    output_size: int
    total_size: int


@compatibility(is_backward_compatible=False)
def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Notes a `size_bytes` as ``node.size_bytes``.

    Args:
        args: example inputs; without them shapes must be known.
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


@compatibility(is_backward_compatible=False)
def get_tensor_meta(node: Node) -> Any:
    """What `ShapeProp` noted of a node.

    Raises:
        RuntimeError: nothing.
    """
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(f"Node {node} has no tensor metadata associated with it! Check that shape "
                           "propagation has run.")
    return meta


@compatibility(is_backward_compatible=False)
def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The size of one node, by what `ShapeProp` noted."""
    total = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[node.target]
        total += sum(p.nelement() for _, p in module.named_parameters())
    meta = get_tensor_meta(node)
    elements = meta.shape.numel()
    total += elements
    width = meta.dtype.itemsize
    return size_bytes(width * elements, width * total)
