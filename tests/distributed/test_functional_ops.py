"""``torch.ops._c10d_functional``, ``c10d_functional`` and ``c10d``: the operators of collectives, in a group of one process."""

import pytest
import torch as reference

import ftorch


@pytest.fixture
def group(tmp_path):
    found = ftorch.distributed
    found.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield found.group.WORLD
    found.destroy_process_group()


def _schema(library, namespace, name):
    return str(getattr(getattr(library.ops, namespace), name).default._schema).replace(
        "Any group_name", "str group_name"
    )


@pytest.mark.parametrize(
    "name",
    (
        "all_reduce",
        "all_gather_into_tensor",
        "reduce_scatter_tensor",
        "all_to_all_single",
        "broadcast",
        "wait_tensor",
        "all_reduce_coalesced",
        "all_gather_into_tensor_coalesced",
        "all_reduce_",
        "all_gather_into_tensor_out",
    ),
)
def test_schemas_are_those_of_pytorch(name):
    assert _schema(ftorch, "_c10d_functional", name) == _schema(reference, "_c10d_functional", name)


def test_functional_operators(group):
    ops, x, name = ftorch.ops._c10d_functional, ftorch.arange(4.0), group.group_name
    for made in (
        ops.all_reduce(x, "sum", name), ops.all_gather_into_tensor.default(x, 1, name), ops.broadcast(x, 0, name),
        ops.reduce_scatter_tensor(x, "sum", 1, name), ops.all_to_all_single(x, [4], [4], name),
        ops.all_gather_into_tensor_out(x, 1, name, out=ftorch.zeros(4)), *ops.all_reduce_coalesced([x, x], "sum", name),
        ftorch.ops.c10d_functional.all_reduce(x, "sum", "", [0], 1),
    ):
        assert ftorch.equal(ops.wait_tensor(made), x) and made is not x
    assert ops.all_reduce_(x, "sum", name) is x
    assert ops.all_gather_into_tensor(ftorch.ones(2, 3, device="meta"), 4, name).shape == (8, 3)


def test_operators_of_groups(group):
    ops, x, total = ftorch.ops.c10d, ftorch.arange(3.0), ftorch.distributed.ReduceOp.SUM

    def zeros():
        return ftorch.zeros(3)

    for made in (
        ops.broadcast_([x.clone()], group, 0, 0)[0][0],
        ops.allreduce_([x.clone()], group, total, None, False)[0][0],
        ops.allgather_([[zeros()]], [x], group, async_op=False)[0][0][0],
        ops._allgather_base_(zeros(), x, group, False)[0],
        ops.scatter_([zeros()], [[x]], group, 0, False)[0][0],
        ops.reduce_scatter_([zeros()], [[x]], group, total, False)[0][0],
        ops._reduce_scatter_base_(zeros(), x, group, total, False)[0],
        ops.alltoall_([zeros()], [x], group, False, 1000)[0][0],
    ):
        assert ftorch.equal(made, x)
    ops.barrier(x, group, []).wait()
    assert str(ops.send) == "c10d.send" and str(ops.send.default) == str(reference.ops.c10d.send.default)
    with pytest.raises(RuntimeError, match="missing"):
        ops.broadcast_([x], group)
