"""Joining a pattern's modules (``torch.ao.quantization.fx.fuse_handler``)."""

from __future__ import annotations

from abc import ABC, abstractmethod

import ftorch as torch
from ftorch.ao.quantization.fuser_method_mappings import get_fuser_method_new
from ftorch.ao.quantization.utils import MatchAllNode
from ftorch.fx.node import Node
from ftorch.nn.utils.parametrize import type_before_parametrizations

from .utils import _parent_name

__all__ = ["DefaultFuseHandler", "FuseHandler"]


class FuseHandler(ABC):
    """Joins the modules of a pattern that ends at a node."""

    @abstractmethod
    def __init__(self, node: Node):
        pass

    @abstractmethod
    def fuse(self, load_arg, named_modules, fused_graph, root_node, extra_inputs, matched_node_pattern,
             fuse_custom_config, fuser_method_mapping, is_qat) -> Node:
        """Puts the joined module in the place of the first one, and gives its call in the new graph."""


class DefaultFuseHandler(FuseHandler):
    """Joins by the function that the backend's config has for the pattern."""

    def __init__(self, node: Node):
        super().__init__(node)

    def fuse(self, load_arg, named_modules, fused_graph, root_node, extra_inputs, matched_node_pattern,
             fuse_custom_config, fuser_method_mapping, is_qat) -> Node:
        if root_node.op != "call_module":
            raise AssertionError("Expecting module node to be a call_module Node")
        root_module = named_modules[str(root_node.target)]

        def modules_of(pattern):
            if isinstance(pattern, (tuple, list)):
                return tuple(map(modules_of, pattern))
            if pattern.op == "call_module":
                return named_modules[pattern.target]
            if pattern.op == "call_function" and pattern.target is torch.nn.functional.relu:
                relu = torch.nn.ReLU()
                relu.training = root_module.training
                return relu
            return pattern.target if pattern.op in ("call_function", "call_method") else MatchAllNode

        def types_of(part):
            if isinstance(part, tuple):
                return tuple(map(types_of, part))
            return type_before_parametrizations(part) if isinstance(part, torch.nn.Module) else part

        matched = modules_of(matched_node_pattern)
        fused = get_fuser_method_new(types_of(matched), fuser_method_mapping)(is_qat, *matched)
        parent, name = _parent_name(root_node.target)
        setattr(named_modules[parent], name, fused)
        node = fused_graph.node_copy(root_node, load_arg)
        node.args = (*node.args, *(load_arg(i) for i in extra_inputs))
        return node


def _get_fusion_pattern_to_fuse_handler_cls(backend_config) -> dict:
    """{pattern: class of its handlers}, of the patterns that are joined."""
    return {
        pattern: DefaultFuseHandler for pattern, config in backend_config._pattern_complex_format_to_config.items()
        if config.fuser_method is not None
    }
