"""What an operator's arguments are and how they may lie (``torch.distributed.tensor._op_schema``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...utils._pytree import tree_leaves
from ._dtensor_spec import DTensorSpec, TensorMeta

__all__ = [
    "OpInfo", "OpSchema", "OpSpec", "OpStrategy", "OutputSharding", "PlacementList", "RuntimeSchemaInfo",
    "StrategyType", "TupleStrategy",
]
PlacementList = list
OutputSpecType = Any


def _shown(spec) -> str:
    if spec is None:
        return "None"
    if isinstance(spec, DTensorSpec):
        return "".join(map(str, spec.placements))
    if isinstance(spec, (list, tuple)):
        return f"({', '.join(map(_shown, spec))})"
    raise RuntimeError(f"Unknown spec type to print: spec={spec}")


@dataclass
class OpSpec:
    """One way in which an operator's results and arguments may lie.

    Args:
        output_specs: the results' `DTensorSpec`, a tuple of them, or None.
        input_specs: those that its tensors are moved to.
        redistribute_cost: for each argument, what it costs to move it there from each of its strategies.
    """

    output_specs: DTensorSpec | tuple[DTensorSpec | None, ...] | None
    input_specs: Sequence[DTensorSpec] | None = None
    redistribute_cost: list[list[float]] | None = None

    @property
    def output_spec(self) -> DTensorSpec:
        """The spec of the only result.

        Raises:
            ValueError: there are several, or none.
        """
        if isinstance(self.output_specs, DTensorSpec):
            return self.output_specs
        raise ValueError(f"function output_spec expects a single DTensorSpec but got: {self.output_specs}")

    @property
    def mesh(self):
        """The mesh of all."""
        outputs = self.output_specs if isinstance(self.output_specs, tuple) else (self.output_specs,)
        for spec in (*outputs, *(self.input_specs or ())):
            if spec is not None:
                return spec.mesh
        raise AssertionError("Cannot determine mesh: no non-None DTensorSpec in output_specs or input_specs")

    def input_spec(self, index: int = 0) -> DTensorSpec:
        """The spec of an argument.

        Raises:
            AssertionError: there is none.
        """
        if self.input_specs is None:
            raise AssertionError("input_specs of OpSpec is None!")
        if len(self.input_specs) <= index:
            raise AssertionError(
                f"Invalid index {index} for input_specs of length {len(self.input_specs)}: {self.input_specs}"
            )
        return self.input_specs[index]

    def __str__(self):
        given = "" if self.input_specs is None else f"{_shown(tuple(self.input_specs))} -> "
        return given + _shown(self.output_specs)

    def __eq__(self, other):
        return isinstance(other, OpSpec) and (self.output_specs, self.input_specs) == (
            other.output_specs, other.input_specs,
        )

    def __hash__(self):
        return hash((self.output_specs, tuple(self.input_specs or ())))


class StrategyType:
    """The base of `OpStrategy` and `TupleStrategy`."""


class OpStrategy(StrategyType):
    """The ways in which an operator's results and arguments may lie.

    Args:
        strategies: an `OpSpec` for each.
    """

    def __init__(self, strategies: list[OpSpec]):
        self.strategies = strategies

    def __str__(self):
        return f"OpStrategy[{', '.join(map(str, self.strategies))}] @ mesh: {self.mesh_shape}"

    def __eq__(self, other):
        return isinstance(other, OpStrategy) and self.strategies == other.strategies

    def __hash__(self):
        return hash(tuple(self.strategies))

    def max_num_shards(self) -> int:
        """The most parts in which a strategy divides the result."""
        return max(s.output_spec.num_shards for s in self.strategies)

    @property
    def mesh(self):
        """The mesh of all."""
        return self.strategies[0].mesh

    @property
    def mesh_shape(self):
        """Its shape."""
        return self.mesh.shape

    @property
    def ndim(self) -> int:
        """How many dimensions the result has."""
        return self.strategies[0].output_spec.ndim

    @property
    def shape(self):
        """The result's shape."""
        return self.strategies[0].output_spec.shape

    @property
    def tensor_meta(self) -> TensorMeta:
        """Shape, strides and dtype of the result."""
        found = self.strategies[0].output_spec.tensor_meta
        if found is None:
            raise AssertionError("the result's shape is not known")
        return found


class TupleStrategy(StrategyType):
    """The strategies of each tensor of a list, which have nothing to do with each other.

    Args:
        children: one for each.
    """

    def __init__(self, children: Sequence[StrategyType]):
        self.children = children

    def child_mesh(self, index: int):
        """The mesh of one of them."""
        return self.children[index].mesh  # type: ignore[attr-defined]

    def __str__(self):
        return f"TupleStrategy({', '.join(map(str, self.children))})"

    def __eq__(self, other):
        return isinstance(other, TupleStrategy) and self.children == other.children

    def __hash__(self):
        return hash(tuple(self.children))


@dataclass
class RuntimeSchemaInfo:
    """Which of an operator's arguments decide how its tensors lie.

    Args:
        static_argnum: from which one on they do.
        static_kwargkey: the names of those that do.
        needs_pytree: whether there are lists of tensors.
    """

    static_argnum: int = 100
    static_kwargkey: list[str] | None = None
    needs_pytree: bool = False


@dataclass
class OpSchema:
    """A call: an operator and its arguments, with specs or strategies in place of tensors.

    Args:
        op: the operator. args_schema, kwargs_schema: its arguments.
    """

    op: Any
    args_schema: tuple
    kwargs_schema: dict
    schema_info: RuntimeSchemaInfo | None = None

    def _given(self, values):
        nested = self.schema_info is not None and self.schema_info.needs_pytree
        return tree_leaves(values, is_leaf=lambda x: isinstance(x, TensorMeta)) if nested else values

    @property
    def args_spec(self) -> tuple[DTensorSpec, ...]:
        """The positional arguments that are specs."""
        return tuple(x for x in self._given(self.args_schema) if isinstance(x, DTensorSpec))

    @property
    def args_strategy(self) -> tuple[OpStrategy, ...]:
        """The positional arguments that are strategies."""
        return tuple(x for x in self._given(self.args_schema) if isinstance(x, OpStrategy))

    @property
    def kwargs_strategy(self) -> tuple[OpStrategy, ...]:
        """The keyword arguments that are."""
        return tuple(x for x in self._given(list(self.kwargs_schema.values())) if isinstance(x, OpStrategy))

    def get_mesh_from_args(self, validate: bool = True):
        """The mesh of the first argument.

        Raises:
            ValueError: it is no tensor. RuntimeError: others are on another mesh.
        """
        first = self.args_schema[0]
        if isinstance(first, (list, tuple)):
            first = first[0]
        mesh = first.child_mesh(0) if isinstance(first, TupleStrategy) else getattr(first, "mesh", None)
        if mesh is None:
            raise ValueError(f"Cannot find device mesh from args for op : {self.op}.")
        if validate and any(spec.mesh != mesh for spec in self.args_spec):
            raise RuntimeError(
                f"DTensor does not support cross-mesh operation on {self.op}! "
                f"Got meshes: {' '.join(str(spec.mesh) for spec in self.args_spec)}. "
                "Please make sure all the arguments have the same DeviceMesh."
            )
        return mesh

    def __hash__(self):
        given = [tuple(x) if isinstance(x, list) else x for x in self.args_schema]
        return hash((self.op, tuple(given), tuple(sorted(self.kwargs_schema))))

    def __str__(self):
        args = ", ".join(
            _shown(x) if isinstance(x, DTensorSpec) else str(x) for x in self.args_schema
        )
        return f"{self.op}({args})"

    def is_inplace_op(self) -> bool:
        """Whether the operator writes into its first argument."""
        return self.op._schema.name.endswith("_")

    def is_out_variant_op(self) -> bool:
        """Whether it writes into ``out``."""
        return "out" in self.op._schema.overload_name


@dataclass
class OutputSharding:
    """How results lie.

    Args:
        output_spec: their specs.
        redistribute_schema: the call with the specs to which arguments are moved before.
        needs_redistribute: whether they are.
    """

    output_spec: OutputSpecType
    redistribute_schema: OpSchema | None = None
    needs_redistribute: bool = False
    use_val_from_redistribute_schema: bool = False

    @property
    def mesh(self):
        """The mesh of the first result."""
        spec = self.output_spec[0] if isinstance(self.output_spec, tuple) else self.output_spec
        if not isinstance(spec, DTensorSpec):
            raise ValueError(f"Unknown output spec type: {type(self.output_spec)}")
        return spec.mesh


@dataclass
class OpInfo:
    """A call with the tensors of this process.

    Args:
        compute_mesh: where it is made. schema: the call. local_args, local_kwargs: its arguments.
    """

    compute_mesh: Any
    schema: OpSchema | None
    flat_args_schema: list
    local_args: Sequence
    local_kwargs: dict = field(default_factory=dict)
    args_tree_spec: Any = None
    output_sharding: OutputSharding | None = None
