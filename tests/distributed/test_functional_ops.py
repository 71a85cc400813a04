"""``torch.ops._c10d_functional``, ``c10d_functional`` and ``c10d``: the operators of collectives."""

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
    with pytest.raises(RuntimeError) as ours:
        ops.broadcast_([x])
    with pytest.raises(RuntimeError) as theirs:
        reference.ops.c10d.broadcast_([reference.ones(1)])
    assert str(ours.value) == str(theirs.value)


def test_schemas_of_groups_operators_are_those_of_pytorch():
    names = [name for name in dir(ftorch.ops.c10d) if not name.startswith("__")]
    assert len(names) > 18
    for name in names:
        assert _schema(ftorch, "c10d", name) == _schema(reference, "c10d", name)


def groups_operators(t, d, rank):
    ops, group = t.ops.c10d, d.group.WORLD.boxed()
    x = t.arange(4.0) + 10 * rank
    parts, own, pair = [[t.zeros(4), t.zeros(4)]], t.zeros(4), [t.zeros(4), t.zeros(4)]
    joined, half, even, uneven = t.zeros(8), t.zeros(2), t.zeros(4), t.zeros(3 if rank else 5)
    first, largest = x.clone(), x.clone()
    works = [
        ops.broadcast_([first], group, 1, 0)[1],
        ops.allgather_(parts, [x], group)[1],
        ops._allgather_base_(joined, x, group)[1],
        ops.scatter_([own], [] if rank else [[x, 2 * x]], group, 0)[1],
        ops.alltoall_base_(even, x, group, [], []),
        ops.alltoall_base_(uneven, x, group, [1, 2] if rank else [3, 2], [2, 2] if rank else [3, 1]),
        ops.gather_([] if rank else [pair], [x], group, 0),
        ops.barrier(x, group, []),
    ]
    if t is reference:  # its operators take a reduction from C++ only
        works += d.all_reduce(largest, d.ReduceOp.MAX, async_op=True), d.reduce_scatter_tensor(half, x, async_op=True)
    else:
        works.append(ops.allreduce_([largest], group, d.ReduceOp.MAX, None)[1])
        works.append(ops._reduce_scatter_base_(half, x, group, d.ReduceOp.SUM)[1])
    for work in works:
        work.wait()
    received = t.zeros(4)
    (ops.recv_([received], group, 1 - rank, 3) if rank else ops.send([x], group, 1 - rank, 3)).wait()
    return first, largest, parts, joined, own, half, even, uneven, pair, received


def functional_operators(t, d, rank):
    ops, name, x = t.ops._c10d_functional, d.group.WORLD.group_name, t.arange(4.0) + 10 * rank
    made = (
        ops.all_reduce(x, "avg", name), ops.all_gather_into_tensor(x, 2, name), ops.broadcast(x, 1, name),
        ops.reduce_scatter_tensor(x, "sum", 2, name), *ops.all_reduce_coalesced([x, 2 * x], "max", name),
        ops.all_to_all_single(x, [1, 2] if rank else [3, 2], [2, 2] if rank else [3, 1], name),
    )
    return [ops.wait_tensor(y) for y in made]


@pytest.mark.parametrize("program", [groups_operators, functional_operators], ids=lambda p: p.__name__)
def test_in_two_processes(two, program):
    two.run(program)
