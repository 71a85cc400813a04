"""Tensors in pieces (`torch.distributed._shard`) over two processes, against PyTorch's."""

import importlib
import io
import tempfile

import pytest


def _modules(t):
    names = ("_shard", "_shard.sharded_tensor", "_shard.sharding_spec")
    return [importlib.import_module(f"{t.__name__}.distributed.{n}") for n in names]


def _piece(t, sharded, sizes, offsets, rank):
    return sharded.Shard.from_tensor_and_offsets(t.ones(*sizes) * rank, offsets, rank)


PLACES = ("rank:0/cpu", "rank:1/cpu")


def made(t, d, rank):
    _, sharded, specs = _modules(t)
    spec = specs.ChunkShardingSpec(0, [*PLACES])
    found = []
    for x in (
        sharded.ones(spec, 5, 2),
        sharded.full(spec, (3, 2), 2.5, dtype=t.float64),
        sharded.zeros(specs.ChunkShardingSpec(1, [*PLACES]), 2, 3, requires_grad=True),
        sharded.init_from_local_shards([_piece(t, sharded, (2, 3), [2 * rank, 0], rank)], 4, 3),
        sharded.init_from_local_shards([_piece(t, sharded, (1 + rank, 3), [rank, 0], rank)], 3, 3),
    ):
        found += [repr(x), repr(x.sharding_spec()), x.local_tensor(), x.size(), x.requires_grad]
    return found


def moved(t, d, rank):
    shard, sharded, specs = _modules(t)
    rows, columns = (specs.ChunkShardingSpec(i, [*PLACES]) for i in (0, 1))
    found = []
    for sizes in ((5, 4), (7, 6), (6, 2)):
        x = shard._shard_tensor(
            t.arange(float(sizes[0] * sizes[1])).reshape(sizes), rows, src_rank=1
        )
        found += [x.local_tensor().clone()]
        whole = t.zeros(sizes) if rank == 0 else None
        x.gather(0, whole)
        x.reshard(columns)
        found += [whole, x.local_tensor().clone(), repr(x)]
        found += [x.clone().local_tensor(), t.zeros_like(x).local_tensor(), x.to(t.float64).dtype]
        found += [t.nn.init.constant_(x, 3.0).local_tensor()]
    return found


def kept(t, d, rank):
    shard, sharded, specs = _modules(t)
    rows, columns = (specs.ChunkShardingSpec(i, [*PLACES]) for i in (0, 1))
    buffer, folder = io.BytesIO(), [tempfile.mkdtemp() if rank == 0 else None]
    x = shard._shard_tensor(t.arange(10.0).reshape(5, 2), rows)
    t.save(x, buffer)
    buffer.seek(0)
    again = t.load(buffer, weights_only=False)
    d.broadcast_object_list(folder, 0)
    checkpoint = importlib.import_module(f"{t.__name__}.distributed.checkpoint")
    checkpoint.save({"x": x}, checkpoint_id=folder[0])
    loaded = sharded.zeros(columns, 5, 2)
    checkpoint.load({"x": loaded}, checkpoint_id=folder[0])
    layer = t.nn.Linear(2, 5, bias=False)
    t.nn.init.ones_(layer.weight)
    shard.shard_parameter(layer, "weight", rows)
    names = [n for n, _ in layer.named_parameters()]
    return [
        type(again).__name__,
        again.local_tensor(),
        loaded.local_tensor(),
        layer.weight.local_tensor(),
        names,
    ]


def overlapping(t, d, rank):
    _, sharded, _ = _modules(t)
    return sharded.init_from_local_shards([_piece(t, sharded, (2, 3), [rank, 0], rank)], 4, 3)


def incomplete(t, d, rank):
    _, sharded, _ = _modules(t)
    return sharded.init_from_local_shards([_piece(t, sharded, (1, 3), [2 * rank, 0], rank)], 4, 3)


def unknown_rank(t, d, rank):
    _, sharded, specs = _modules(t)
    return sharded.ones(specs.ChunkShardingSpec(0, ["rank:0/cpu", "rank:7/cpu"]), 4, 2)


def unknown_call(t, d, rank):
    _, sharded, specs = _modules(t)
    try:
        return sharded.ones(specs.ChunkShardingSpec(0, [*PLACES]), 4, 2) + 1
    except RuntimeError as error:
        return str(error).partition("(")[0]


def wrong_dimension(t, d, rank):
    _, sharded, specs = _modules(t)
    return sharded.ones(specs.ChunkShardingSpec(3, [*PLACES]), 4, 2)


def no_pieces(t, d, rank):
    return _modules(t)[2].EnumerableShardingSpec([])


def unknown_parameter(t, d, rank):
    shard, _, specs = _modules(t)
    return shard.shard_parameter(t.nn.Linear(2, 2), "x", specs.ChunkShardingSpec(0, [*PLACES]))


@pytest.mark.parametrize(
    "program",
    (
        made, moved, kept, overlapping, incomplete, unknown_rank, unknown_call, wrong_dimension, no_pieces,
        unknown_parameter,
    ),
)  # fmt: skip
def test_as_pytorch(two, program):
    two.run(program)
