"""Strategies of operators that users register: of all ways in which a call's tensors may lie the cheapest."""

from __future__ import annotations

from typing import Any, NamedTuple

from ._choices import placement_cost
from ._dtensor_spec import DTensorSpec
from ._op_schema import OpSchema, OpSpec, OpStrategy
from ._rules import Decision
from .placement_types import divides


def name_of(overload) -> str:
    """The name under which calls of an operator come: ``softmax`` for ``aten._softmax.default``."""
    packet = getattr(overload, "overloadpacket", overload)
    return str(getattr(packet, "__name__", packet)).rpartition(".")[2].lstrip("_")


class Strategy(NamedTuple):
    """What was registered: ``function(op_schema) -> OpStrategy``."""

    op: Any
    function: Any
    schema_info: Any


def decided(strategy: Strategy, mesh, tensors, args, kwargs) -> list[Decision]:
    """How a call's tensors are moved and its result lies, for each dimension of the mesh.

    Raises:
        RuntimeError: the strategy has no way.
    """
    known = iter(tensors)

    def shown(value):
        if isinstance(value, (list, tuple)):
            return type(value)(map(shown, value))
        return (
            OpStrategy([OpSpec(next(known)._spec)]) if hasattr(value, "_ftorch_geometry") else value
        )

    schema = OpSchema(
        strategy.op,
        tuple(map(shown, args)),
        {k: shown(v) for k, v in kwargs.items()},
        strategy.schema_info,
    )
    ways = strategy.function(schema).strategies
    sizes = tuple(mesh.shape)

    def wanted(way):
        return way.input_specs or [way.output_spec] * len(tensors)

    def cost(way):
        return sum(
            placement_cost(
                list(x.placements), list(spec.placements), sizes, x.numel() * x.dtype.itemsize
            )
            for x, spec in zip(tensors, wanted(way))
        )

    if not ways:
        raise RuntimeError(f"{strategy.op}: the registered strategy allows no placements")
    way = min(ways, key=cost)
    output = way.output_specs[0] if isinstance(way.output_specs, tuple) else way.output_specs
    found = []
    for m in range(mesh.ndim):
        inputs = [spec.placements[m] for spec in wanted(way)]
        out = output.placements[m] if isinstance(output, DTensorSpec) else inputs[0]
        size = None
        if divides(out):
            meta = output.tensor_meta if isinstance(output, DTensorSpec) else None
            alike = next((x for x, p in zip(tensors, inputs) if p == out), None)
            shape = meta.shape if meta is not None else alike.shape if alike is not None else None
            size = (out.dim, shape[out.dim]) if shape is not None and out.dim < len(shape) else None
        found.append(Decision(inputs, out, sizes=size))
    return found
