"""Strategies of operators: what users register, and what they are made of (``torch.distributed.tensor._ops.utils``)."""

from __future__ import annotations

import itertools
import math

from .._choices import placement_cost
from .._dispatch import REGISTERED
from .._dtensor_spec import DTensorSpec
from .._op_schema import (
    OpSchema,
    OpSpec,
    OpStrategy,
    OutputSharding,
    RuntimeSchemaInfo,
    StrategyType,
)
from .._strategies import Strategy, name_of
from ..placement_types import Partial, Placement, Replicate, Shard, _StridedShard, divides

__all__ = [
    "expand_to_full_mesh_op_strategy",
    "generate_redistribute_costs",
    "is_tensor_dim_sharded",
    "is_tensor_evenly_shardable",
    "is_tensor_partial",
    "is_tensor_shardable",
    "map_placements_after_broadcast",
    "normalize_dim",
    "normalize_dims",
    "prod",
    "register_op_strategy",
    "register_prop_rule",
    "replicate_op_strategy",
]


def register_op_strategy(op, schema_info: RuntimeSchemaInfo | None = None):
    """A decorator: ``f(op_schema) -> OpStrategy`` says in which ways an operator's `DTensor`s may lie. The one is taken that
    costs least.

    Args:
        op: an overload of ``torch.ops``, or a list of them.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor._ops.utils import register_op_strategy, replicate_op_strategy
    >>> f = register_op_strategy(torch.ops.aten.i0.default)(replicate_op_strategy)
    """

    def register(function):
        for overload in op if isinstance(op, list) else [op]:
            REGISTERED[name_of(overload)] = Strategy(overload, function, schema_info)
        return function

    return register


def register_prop_rule(op, schema_info: RuntimeSchemaInfo | None = None):
    """A decorator: ``f(op_schema) -> OutputSharding`` says how an operator's results lie, or gives in ``redistribute_schema``
    how the arguments have to.
    """

    def register(function):
        for overload in op if isinstance(op, list) else [op]:
            REGISTERED[name_of(overload)] = Strategy(overload, _of_rule(function), schema_info)
        return function

    return register


def _of_rule(function):
    def strategy(schema: OpSchema) -> OpStrategy:
        def plain(value):
            return value.strategies[0].output_spec if isinstance(value, OpStrategy) else value

        args = tuple(map(plain, schema.args_schema))
        given = OpSchema(
            schema.op,
            args,
            {k: plain(v) for k, v in schema.kwargs_schema.items()},
            schema.schema_info,
        )
        found: OutputSharding = function(given)
        wanted = given
        if found.output_spec is None and found.redistribute_schema is not None:
            wanted = found.redistribute_schema
            found = function(wanted)
        return OpStrategy([OpSpec(found.output_spec, list(wanted.args_spec))])

    return strategy


def replicate_op_strategy(op_schema: OpSchema) -> StrategyType:
    """The strategy of an operator that is computed on whole tensors."""
    inputs = (*op_schema.args_strategy, *op_schema.kwargs_strategy)
    count = sum(str(r.type) == "Tensor" for r in op_schema.op._schema.returns)
    whole: list = [Replicate()] * (count + len(inputs))
    return expand_to_full_mesh_op_strategy(inputs[0].mesh, op_schema, [whole], input_index=count)


def normalize_dim(dim: int, ndim: int) -> int:
    """A dimension counted from the front."""
    return dim if dim >= 0 else dim + ndim


def normalize_dims(dims, ndim: int):
    """One or several dimensions, counted from the front."""
    if isinstance(dims, int):
        return (normalize_dim(dims, ndim),)
    return type(dims)(normalize_dim(d, ndim) for d in dims)


prod = math.prod


def _counts(shape, spec):
    """Into how many pieces each dimension is divided."""
    counts = [1] * len(shape)
    for m, p in enumerate(spec.placements):
        if divides(p):
            counts[p.dim] *= spec.mesh.size(m) * getattr(p, "split_factor", 1)
    return counts


def is_tensor_shardable(shape, spec: DTensorSpec, allow_unbacked_sharding=None) -> bool:
    """Whether each process gets a part that is not empty."""
    if any(divides(p) and p.dim >= len(shape) for p in spec.placements):
        return False
    return all(size >= count for size, count in zip(shape, _counts(shape, spec)))


def is_tensor_evenly_shardable(shape, spec: DTensorSpec) -> bool:
    """Whether all processes get parts of one size."""
    return all(size % count == 0 for size, count in zip(shape, _counts(shape, spec)))


def is_tensor_evenly_shardable_on_dim(shape, spec: DTensorSpec, dim: int) -> bool:
    """Whether one dimension is divided into parts of one size."""
    dim = normalize_dim(dim, len(shape))
    return shape[dim] % _counts(shape, spec)[dim] == 0


def is_tensor_dim_sharded(spec: DTensorSpec, dim: int) -> bool:
    """Whether a dimension is divided."""
    return any(divides(p, dim) for p in spec.placements)


def is_tensor_partial(spec: DTensorSpec) -> bool:
    """Whether the tensor is a sum, or something like it, of terms."""
    return any(p.is_partial() for p in spec.placements)


def infer_broadcast_dims_map(common_shape, input_shape) -> list[int]:
    """For each dimension of a common shape that of an input which becomes it; -1 where the input is repeated."""
    missing = len(common_shape) - len(input_shape)
    return [
        d - missing if d >= missing and input_shape[d - missing] == size else -1
        for d, size in enumerate(common_shape)
    ]


def map_placements_after_broadcast(
    placements, shape, broadcast_dims_map, partial_to_replicate=False
) -> tuple[Placement, ...]:
    """Placements where dimensions have other numbers, by `infer_broadcast_dims_map`; a repeated one is whole."""
    found: list[Placement] = []
    for p in placements:
        if not divides(p):
            found.append(Replicate() if partial_to_replicate and isinstance(p, Partial) else p)
            continue
        dim = broadcast_dims_map[normalize_dim(p.dim, len(shape))]
        if dim < 0:
            found.append(Replicate())
        elif isinstance(p, _StridedShard):
            found.append(_StridedShard(dim, split_factor=p.split_factor))
        else:
            found.append(Shard(dim))
    return tuple(found)


def generate_redistribute_costs(src_strategy: OpStrategy, dst_spec: DTensorSpec) -> list[float]:
    """What it costs to come from each of a tensor's strategies to a spec."""
    costs = []
    for way in src_strategy.strategies:
        now = way.output_spec
        size = (
            1 if now.tensor_meta is None else math.prod(now.shape) * now.tensor_meta.dtype.itemsize
        )
        costs.append(
            placement_cost(
                list(now.placements), list(dst_spec.placements), tuple(now.mesh.shape), size
            )
        )
    return costs


def expand_to_full_mesh_op_strategy(
    mesh,
    op_schema: OpSchema,
    single_mesh_dim_strategies,
    output_tensor_meta=None,
    *,
    input_index: int = 1,
    inplace_op: bool = False,
    is_valid_strategy_cb=None,
    allow_unbacked_sharding=None,
    allow_uneven_sharding=False,
) -> OpStrategy:
    """All combinations of ways for one dimension of a mesh, one for each of its dimensions.

    Args:
        single_mesh_dim_strategies: lists of placements: of ``input_index`` results, then of the tensors.
        inplace_op: whether the first tensor is written: it stays as it lies.
        is_valid_strategy_cb: ``f(input specs, output specs)``: whether one is possible.
    """
    inputs = [*op_schema.args_strategy, *op_schema.kwargs_strategy]
    own, found = inputs[0].strategies[0].output_spec, []
    for ways in itertools.product(single_mesh_dim_strategies, repeat=mesh.ndim):
        specs = [None if p[0] is None else DTensorSpec(mesh, p) for p in zip(*ways)]
        given: list[DTensorSpec] = [
            DTensorSpec(mesh, spec.placements, x.tensor_meta)
            for spec, x in zip(specs[input_index:], inputs)
            if spec
        ]
        if inplace_op and given[0].placements != own.placements:
            continue
        if not all(
            is_tensor_shardable(x.shape, spec)
            or allow_uneven_sharding
            and x.strategies[0].output_spec.placements == spec.placements
            for x, spec in zip(inputs, given)
        ):
            continue
        outputs = (
            specs[0] if input_index == 1 else tuple(specs[:input_index]) if input_index else None
        )
        if (
            is_valid_strategy_cb is not None
            and outputs is not None
            and not is_valid_strategy_cb(given, outputs)
        ):
            continue
        costs = [generate_redistribute_costs(x, spec) for x, spec in zip(inputs, given)]
        found.append(OpSpec(outputs, given, costs))
    return OpStrategy(found)


def _moved(placements, dim, by):
    found = []
    for p in placements:
        if divides(p) and p.dim >= dim + (by < 0):
            p = (
                _StridedShard(p.dim + by, split_factor=p.split_factor)
                if isinstance(p, _StridedShard)
                else Shard(p.dim + by)
            )
        found.append(p)
    return found


def shift_shard_dims_after_insert(placements, insert_dim: int = 0):
    """Placements of a tensor that gets another dimension."""
    return _moved(placements, insert_dim, 1)


def shift_shard_dims_after_remove(placements, remove_dim: int = 0):
    """Placements of a tensor that loses one, which is not divided."""
    return _moved(placements, remove_dim, -1)
