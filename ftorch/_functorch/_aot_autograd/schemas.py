"""What the inputs and outputs of an exported graph are (``torch._functorch._aot_autograd.schemas``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...fx import Node
from ...utils import _pytree as pytree
from .graphs import Traced


@dataclass
class BackwardSignature:
    """Which outputs of a joint graph are gradients, by the names of nodes."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class GraphSignature:
    """Which inputs and outputs of a graph are what, by the names of nodes, parameters and buffers."""

    parameters: list[str]
    buffers: list[str]
    user_inputs: list[str]
    user_outputs: list[str]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]
    parameters_to_mutate: dict[str, str]
    user_inputs_to_mutate: dict[str, str]
    in_spec: Any
    out_spec: Any
    backward_signature: BackwardSignature | None = None
    input_tokens: list[str] = field(default_factory=list)
    output_tokens: list[str] = field(default_factory=list)


def signature(traced: Traced, names: list[str], parameters: int, in_spec, wanted: list[bool],
              loss: int | None) -> GraphSignature:
    """What is what in a module's graph.

    Args:
        names: of the module's parameters, the first ``parameters`` ones, and buffers.
        wanted: whether an input has a gradient, in a joint graph.
    """
    graph = traced.module.graph
    inputs = [n.name for n in graph.find_nodes(op="placeholder")]
    outputs = [n.name if isinstance(n, Node) else None for n in graph.output_node().args[0]]
    of_input = dict(zip(inputs, names))
    kinds: tuple[dict, dict, dict] = ({}, {}, {})
    for name, i in zip(outputs, traced.mutated):
        kind = 0 if i < parameters else 1 if i < len(names) else 2
        kinds[kind][name] = names[i] if i < len(names) else inputs[i]
    count = traced.num_fwd_outputs
    user = outputs[len(traced.mutated) : count]
    backward = None
    if loss is not None and wanted:
        gradients = [(i, name) for i, name in zip([i for i, w in enumerate(wanted) if w], outputs[count:])]
        backward = BackwardSignature(
            {name: names[i] for i, name in gradients if i < parameters},
            {name: inputs[i] for i, name in gradients if i >= len(names)},
            outputs[loss],
        )
    _, leaf = pytree.tree_flatten(0)
    return GraphSignature(
        names[:parameters], names[parameters:], inputs[len(names) :], user,
        dict(zip(inputs[:parameters], names)),
        {k: v for k, v in of_input.items() if v in names[parameters:]},
        kinds[1], kinds[0], kinds[2], in_spec, traced.spec or leaf, backward,
    )
