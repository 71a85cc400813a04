"""Chains of nodes that are quantized as one (``torch.ao.ns.fx.pattern_utils``)."""

from __future__ import annotations

import itertools
from typing import Any

import ftorch as torch
import ftorch.nn.functional as F
from ftorch import nn
from ftorch.ao.quantization import FakeQuantizeBase, ObserverBase
from ftorch.ao.quantization.backend_config import get_native_backend_config
from ftorch.ao.quantization.fx.quantize_handler import _get_pattern_to_quantize_handlers
from ftorch.ao.quantization.utils import getattr_from_fqn
from ftorch.fx import GraphModule
from ftorch.fx.graph import Node

from .ns_types import NSNodeTargetType

NSFusionElType = Any
NSFusionType = tuple


def get_type_a_related_to_b(
    base_name_to_sets_of_related_ops: dict[str, set[NSNodeTargetType]],
) -> set[tuple[NSNodeTargetType, NSNodeTargetType]]:
    """The pairs of operators that are in one set, both ways around."""
    return {pair for related in base_name_to_sets_of_related_ops.values()
            for pair in itertools.product(related, repeat=2)}


def get_reversed_fusions() -> list[tuple[NSFusionType, int]]:
    """(chain from its last operator to its first, the place from the front of the one that says what it is)."""
    chains: list[tuple[tuple, int]] = []
    for given in _get_pattern_to_quantize_handlers(get_native_backend_config()):
        pattern: Any = given
        if isinstance(pattern, tuple) and len(pattern) == 2 and isinstance(pattern[1], tuple) and len(pattern[1]) == 2:
            pattern = (pattern[0], *pattern[1])
        if isinstance(pattern, tuple):
            chains.append((pattern, 0))
        whole = pattern if isinstance(pattern, tuple) else (pattern,)
        chains += [((observer, *whole), 0) for observer in (ObserverBase, FakeQuantizeBase)]
    others = [((("to", torch.float16), F.relu, F.linear, "dequantize"), 1)]
    pairs = [(getattr(nn, f"BatchNorm{d}d"), getattr(nn, f"Conv{d}d")) for d in (1, 2, 3)]
    others += [(pair, 0) for pair in pairs] + [((nn.ReLU, *pair), 0) for pair in pairs]
    for chain, base in others:
        chains += [(chain, base), ((ObserverBase, *chain), base), ((FakeQuantizeBase, *chain), base)]
    return chains


def _fits(node: Node, part: Any, gm: GraphModule) -> bool:
    if node.op == "call_function":
        return not isinstance(part, (str, type)) and node.target == part
    if node.op == "call_module":
        return isinstance(part, type) and isinstance(getattr_from_fqn(gm, str(node.target)), part)
    if node.op == "call_method":
        if isinstance(part, str):
            return node.target == part
        return (isinstance(part, tuple) and len(part) == 2 and node.target == part[0]
                and len(node.args) > 1 and node.args[1] == part[1])
    return False


def end_node_matches_reversed_fusion(end_node: Node, reversed_fusion: NSFusionType, gm: GraphModule,
                                     seen_nodes: set[Node]) -> bool:
    """Whether a chain ends at a node, by first arguments, without nodes that were seen."""
    node: Any = end_node
    for part in reversed_fusion:
        if node in seen_nodes or not _fits(node, part, gm) or not (node.args and isinstance(node.args[0], Node)):
            return False
        node = node.args[0]
    return True
