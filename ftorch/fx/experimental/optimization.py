"""Graphs that are faster for inference: normalizations in the convolutions before them, no dropout."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ... import nn
from ...nn import Module
from ...nn.utils.fusion import fuse_conv_bn_eval
from .._symbolic_trace import symbolic_trace
from ..graph_module import GraphModule
from ..interpreter import Transformer
from ..node import Argument, Node, Target

__all__ = ["extract_subgraph", "fuse", "matches_module_pattern", "remove_dropout", "replace_node_module"]


def _parent_name(target: str) -> tuple[str, str]:
    """("a.b", "c") of "a.b.c"."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node calls a module of the last class with the result of one of the first.

    Args:
        pattern: two classes; modules: {path: module}.
    """
    if not node.args:
        return False
    for expected, current in zip(pattern, (node.args[0], node)):
        if not isinstance(current, Node) or current.op != "call_module":
            return False
        if not isinstance(current.target, str) or current.target not in modules:
            return False
        if type(modules[current.target]) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Module) -> None:
    """Lets a node call another module, which takes the old one's place."""
    assert isinstance(node.target, str)
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Module, inplace: bool = False, no_trace: bool = False) -> Module:
    """A module with normalizations as part of the convolutions and linear layers before them.

    Args:
        model: in eval mode.
        inplace: changes the model's own submodules.
        no_trace: the model is a `GraphModule` already.

    >>> import ftorch as torch
    >>> from ftorch.fx.experimental.optimization import fuse
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), torch.nn.BatchNorm2d(2)).eval()
    >>> [n.name for n in fuse(model).graph.nodes]
    ['input_1', '_0', 'output']
    """
    patterns = [(nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d)]
    if not inplace:
        model = copy.deepcopy(model)
    if not no_trace or not isinstance(model, GraphModule):
        fx_model = symbolic_trace(model)
    else:
        fx_model = model
    modules = dict(fx_model.named_modules())
    graph = copy.deepcopy(fx_model.graph)
    for pattern in patterns:
        for node in graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            convolution, normalization = modules[node.args[0].target], modules[node.target]
            if not normalization.track_running_stats:
                continue
            replace_node_module(
                node.args[0], modules, fuse_conv_bn_eval(convolution, normalization)
            )
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    return GraphModule(fx_model, graph)


def remove_dropout(model: Module) -> Module:
    """A module without its dropout modules."""
    traced = symbolic_trace(model)

    class WithoutDropout(Transformer):
        def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]):
            if isinstance(self.submodules[target], nn.Dropout):
                assert len(args) == 1
                return args[0]
            return super().call_module(target, args, kwargs)

    return WithoutDropout(traced).transform()


def extract_subgraph(orig_module: Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]):
    """A module of some nodes of a graph, from some nodes to others."""
    from ..graph import Graph

    graph = Graph()
    env: dict[Node, Node] = {}
    for used in inputs:
        env[used] = graph.placeholder(used.name)
    for node in nodes:
        env[node] = graph.node_copy(node, lambda n: env[n])
    graph.output([env[n] for n in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)
