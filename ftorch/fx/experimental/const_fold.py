"""Constant folding: what depends on attributes alone is computed once."""

from __future__ import annotations

import operator
from collections.abc import Callable

from ...eager.tensor import TensorBase
from ...nn import Module, Parameter, ParameterList
from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg


class FoldedGraphModule(GraphModule):
    """A module whose constants are computed at its first call (or by `run_folding`).

    Attributes:
        const_subgraph_module: computes them; None if there are none.
        fx_const_folded_attrs_name: the name of the attribute that keeps them: a parameter, or a list of such.
    """

    def __init__(self, root: Module, graph: Graph, const_subgraph: Graph | None = None,
                 fx_const_folded_attrs_name: str | None = None):
        super().__init__(root, graph)
        self.const_subgraph_module = (
            None if const_subgraph is None else GraphModule(root, const_subgraph)
        )
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name

    def __call__(self, *args, **kwargs):
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Computes the constants.

        Raises:
            AssertionError: they have been computed.
        """
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        found = self.const_subgraph_module()
        kept = ParameterList(map(_kept, found)) if isinstance(found, tuple) else _kept(found)
        setattr(self, self.fx_const_folded_attrs_name, kept)


def _kept(value):
    if not isinstance(value, TensorBase):
        from ...eager.core import api

        return Parameter(api.tensor([float(value)]), requires_grad=False)
    return Parameter(value.detach().clone(), requires_grad=value.requires_grad)


def split_const_subgraphs(
    module: Module | GraphModule, skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """A module without the computations that depend on no argument.

    Args:
        skip_folding_node_fn: says which nodes to leave where they are.
        device_for_folded_attrs: has no effect: the constants are where they are computed.

    >>> import ftorch as torch
    >>> from ftorch.fx.experimental.const_fold import split_const_subgraphs
    >>> class M(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.register_buffer("w", torch.ones(2))
    ...     def forward(self, x):
    ...         return x + self.w * 2
    >>> folded = split_const_subgraphs(M())
    >>> folded(torch.ones(2))
    tensor([3., 3.])
    >>> [node.op for node in folded.graph.nodes]
    ['placeholder', 'get_attr', 'call_function', 'output']
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant: dict[Node, None] = {}
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        if node.op == "get_attr":
            constant.setdefault(node)
            continue
        if node.is_impure() or (skip_folding_node_fn is not None and skip_folding_node_fn(node)):
            continue
        if not node.all_input_nodes:
            continue  # creations are cheap
        if all(n in constant for n in node.all_input_nodes):
            constant.setdefault(node)
    computed = [n for n in constant if n.op != "get_attr"]
    kept = [n for n in computed if any(u not in constant for u in n.users)]
    if not kept:
        return FoldedGraphModule(traced, traced.graph)
    folding, env = Graph(), {}
    for node in constant:
        given = map_arg(node.args, env.__getitem__), map_arg(node.kwargs, env.__getitem__)
        name = f"{node.name}_1" if node.op == "get_attr" else None
        env[node] = folding.create_node(node.op, node.target, *given, name)
        env[node].meta = dict(node.meta)
    is_one = len(kept) == 1
    folding.output(env[kept[0]] if is_one else tuple(env[n] for n in kept))
    name = "_FX_CONST_FOLDED_ATTRS"
    setattr(traced, name, Parameter(_nothing(), requires_grad=False) if is_one else ParameterList())
    first = next(n for n in traced.graph.nodes if n.op != "placeholder")
    with traced.graph.inserting_before(first):
        read = traced.graph.get_attr(name)
        reads = [read] if is_one else [traced.graph.call_function(operator.getitem, (read, i)) for i in range(len(kept))]
    for node, part in zip(kept, reads):
        part.meta = dict(node.meta)
        node.replace_all_uses_with(part, lambda u: u not in constant)
    for node in reversed(computed):
        traced.graph.erase_node(node)
    for node in reversed(list(constant)):
        if node.op == "get_attr" and not node.users:
            traced.graph.erase_node(node)
    traced.graph.lint()
    return FoldedGraphModule(traced, traced.graph, folding, name)


def _nothing():
    from ...eager.core import api

    return api.empty(0)


__all__ = ["FoldedGraphModule", "split_const_subgraphs"]
