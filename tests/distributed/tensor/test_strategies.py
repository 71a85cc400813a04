"""Operators whose placements users say as PyTorch's tables do, against PyTorch's."""

import importlib

import pytest


def registered(t, d, rank):
    tensor = importlib.import_module(f"{t.__name__}.distributed.tensor")
    utils = importlib.import_module(f"{t.__name__}.distributed.tensor._ops.utils")
    schema = importlib.import_module(f"{t.__name__}.distributed.tensor._op_schema")
    mesh = d.init_device_mesh("cpu", (2,))

    if not hasattr(t.ops, "strategies") or not hasattr(t.ops.strategies, "halved"):

        @t.library.custom_op("strategies::halved", mutates_args=())
        def halved(x: t.Tensor, y: t.Tensor) -> t.Tensor:
            return x / 2 + y

        @halved.register_fake
        def _(x, y):
            return t.empty_like(x)

        @t.library.custom_op("strategies::kept", mutates_args=())
        def kept(x: t.Tensor) -> t.Tensor:
            return x - 1

        @kept.register_fake
        def _(x):
            return t.empty_like(x)

        @utils.register_op_strategy(t.ops.strategies.halved.default)
        def halved_strategy(op_schema):
            assert isinstance(op_schema, schema.OpSchema) and len(op_schema.args_strategy) == 2
            x = op_schema.args_strategy[0]
            ways = [[tensor.Replicate()] * 3, *([tensor.Shard(i)] * 3 for i in range(x.ndim))]
            return utils.expand_to_full_mesh_op_strategy(x.mesh, op_schema, ways)

        utils.register_op_strategy(t.ops.strategies.kept.default)(utils.replicate_op_strategy)
    found = []
    for first, second in (
        (tensor.Shard(0), tensor.Shard(0)),
        (tensor.Shard(1), tensor.Replicate()),
        (tensor.Replicate(), tensor.Replicate()),
    ):
        x = tensor.distribute_tensor(t.arange(8.0).reshape(4, 2), mesh, [first])
        y = tensor.distribute_tensor(t.ones(4, 2), mesh, [second])
        for made in (t.ops.strategies.halved(x, y), t.ops.strategies.kept(x)):
            found += [str(made.placements), made.to_local().clone(), made.full_tensor()]
    return found


def measured(t, d, rank):
    tensor = importlib.import_module(f"{t.__name__}.distributed.tensor")
    utils = importlib.import_module(f"{t.__name__}.distributed.tensor._ops.utils")
    spec = importlib.import_module(f"{t.__name__}.distributed.tensor._dtensor_spec").DTensorSpec
    mesh, found = d.init_device_mesh("cpu", (2,)), []
    for placement in (tensor.Shard(0), tensor.Shard(1), tensor.Replicate(), tensor.Partial()):
        made = spec(mesh, (placement,))
        for shape in ((4, 2), (3, 1), (1, 5)):
            found += [
                utils.is_tensor_shardable(shape, made),
                utils.is_tensor_evenly_shardable(shape, made),
            ]
        found += [utils.is_tensor_dim_sharded(made, 0), utils.is_tensor_partial(made)]
        where = utils.infer_broadcast_dims_map((5, 4, 2), (4, 1))
        found += [where, str(utils.map_placements_after_broadcast((placement,), (5, 4, 2), where))]
        found += [str(tuple(utils.shift_shard_dims_after_insert([placement], 1)))]
        found += (
            [str(tuple(utils.shift_shard_dims_after_remove([placement], 0)))]
            if placement != tensor.Shard(0)
            else []
        )
    return [
        *found,
        utils.normalize_dims([-1, 0], 3),
        utils.normalize_dim(-2, 3),
        utils.prod([2, 3]),
    ]


@pytest.mark.parametrize("program", (registered, measured))
def test_as_pytorch(two, program):
    two.run(program)
