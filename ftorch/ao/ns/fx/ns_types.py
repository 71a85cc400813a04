"""Types of the numeric suite for graph modules (``torch.ao.ns.fx.ns_types``)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from ftorch.fx.graph import Node


class NSSingleResultValuesType(str, enum.Enum):  # noqa: UP042  (its text is PyTorch's)
    """What a result's values are."""

    WEIGHT = "weight"
    NODE_OUTPUT = "node_output"
    NODE_INPUT = "node_input"


class NSSubgraph(NamedTuple):
    """A chain of nodes that is compared as one, and the node of it that says what it is."""

    start_node: Node
    end_node: Node
    base_op_node: Node


#: {"type", "values", "prev_node_name", "prev_node_target_type", "ref_node_name", "ref_node_target_type",
#: "index_within_arg", "index_of_arg", "fqn", "qconfig_str"} and, of shadows, the comparisons.
NSSingleResultType = dict[str, Any]
#: {layer: {type: {model: results}}}
NSResultsType = dict[str, dict[str, dict[str, list[NSSingleResultType]]]]
NSNodeTargetType = Callable | str
