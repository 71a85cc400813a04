"""Subgraphs as modules, and whether two graphs are alike."""

from __future__ import annotations

from ....nn import Module
from ..._compatibility import compatibility
from ...graph import Graph
from ...graph_module import GraphModule, _assign_attr
from .matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


@compatibility(is_backward_compatible=False)
class HolderModule(Module):
    """A module of some submodules by name."""

    def __init__(self, d):
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def attribute(module, path: str):
    """What a path leads to: ``attribute(m, "layer.weight")``."""
    for part in path.split("."):
        module = getattr(module, part)
    return module


@compatibility(is_backward_compatible=False)
def lift_subgraph_as_module(gm: GraphModule, subgraph: Graph, comp_name: str = "",
                            class_name: str = "GraphModule"):
    """A module of a graph over a part of another module's nodes.

    Args:
        gm: has the modules and attributes that the graph names.
        comp_name: what the new module will be called there.

    Returns:
        (the module, {path of what the graph uses in ``gm``: its path in the new one}).
    """
    holder, paths = HolderModule({}), {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        assert isinstance(node.target, str)
        if "." in node.target:
            _make_way(holder, node.target.split(".")[:-1])
        _assign_attr(attribute(gm, node.target), holder, node.target)
        paths[node.target] = f"{comp_name}.{node.target}"
    return GraphModule(holder, subgraph, class_name), paths


def _make_way(module, names):
    for name in names:
        if not hasattr(module, name):
            module.add_module(name, HolderModule({}))
        module = getattr(module, name)


@compatibility(is_backward_compatible=False)
def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether one graph matches the whole of another one."""
    matches = SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right)
    return len(matches) > 0

