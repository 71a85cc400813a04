"""Joining the layers of a graph (``torch.ao.quantization.fx.fuse``)."""

from __future__ import annotations

import warnings

from ftorch.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from ftorch.ao.quantization.backend_config.utils import (
    get_fuser_method_mapping,
    get_fusion_pattern_to_extra_inputs_getter,
    get_fusion_pattern_to_root_node_getter,
)
from ftorch.ao.quantization.utils import MatchAllNode
from ftorch.fx import Graph, GraphModule
from ftorch.fx.node import Node, map_arg

from .custom_config import FuseCustomConfig
from .fuse_handler import _get_fusion_pattern_to_fuse_handler_cls
from .match_utils import _is_match
from .pattern_utils import _sorted_patterns_dict

__all__ = ["fuse"]


def as_config(given, kind, argument, function):
    """A config, or the one of a dict, with PyTorch's warning.

    Args:
        argument, function: whose argument it is.
    """
    if not isinstance(given, dict):
        return kind() if given is None else given
    warnings.warn(
        f"Passing a {argument}_dict to {function} is deprecated and will not be supported "
        f"in a future version. Please pass in a {kind.__name__} instead.",
        FutureWarning,
        stacklevel=4,
    )
    return kind.from_dict(given)


def backend_of(given):
    """A backend's config, the one of a dict, or the default."""
    if given is None:
        return get_native_backend_config()
    return as_config(given, BackendConfig, "backend_config", "prepare")


def _default_root_node_getter(node_pattern):
    while not isinstance(node_pattern[-1], Node):
        node_pattern = node_pattern[-1]
    return node_pattern[-1]


def fuse(model: GraphModule, is_qat: bool, fuse_custom_config=None, backend_config=None) -> GraphModule:
    """A graph module whose layers are joined where the backend's config says so.

    Args:
        is_qat: whether the joined layers are for training.
    """
    custom = as_config(fuse_custom_config, FuseCustomConfig, "fuse_custom_config", "fuse")
    backend = backend_of(backend_config)
    modules = dict(model.named_modules())
    methods = get_fuser_method_mapping(backend)
    roots = get_fusion_pattern_to_root_node_getter(backend)
    others = get_fusion_pattern_to_extra_inputs_getter(backend)
    patterns = _sorted_patterns_dict(_get_fusion_pattern_to_fuse_handler_cls(backend))
    last_of, matches = _find_matches(model, patterns)
    graph, copies = Graph(), {}

    def load_arg(a):
        return map_arg(a, lambda node: copies[node.name])

    for node in model.graph.nodes:
        last = last_of.get(node.name)
        if last is None:
            copies[node.name] = graph.node_copy(node, load_arg)
        elif last is node:
            pattern, matched, handler = matches[node.name]
            root = roots.get(pattern, _default_root_node_getter)(matched)
            extra = others[pattern](matched) if pattern in others else []
            copies[node.name] = handler.fuse(load_arg, modules, graph, root, extra, matched, custom, methods, is_qat)
    return GraphModule(model, graph)


def _find_matches(model, patterns):
    """({node's name: its pattern's last node}, {last node's name: (pattern, nodes, handler)})."""
    modules = dict(model.named_modules())
    last_of, matches = {}, {}

    def collect(pattern, node, last):
        if isinstance(pattern, tuple):
            own, *arguments = pattern
            return (collect(own, node, last), *(collect(p, a, last) for p, a in zip(arguments, node.args)))
        if pattern is not MatchAllNode:
            last_of.setdefault(node.name, last)
        return node

    for node in reversed(list(model.graph.nodes)):
        if node.name in last_of:
            continue
        for pattern, make in patterns.items():
            if _is_match(modules, node, pattern):
                matches[node.name] = (pattern, collect(pattern, node, node), make(node))
                break
    return last_of, matches
