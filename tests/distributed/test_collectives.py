"""Collectives, objects and messages of two processes, against PyTorch's gloo in the same processes."""

from __future__ import annotations

import os
import time
import warnings
from datetime import timedelta

import pytest

DTYPES = "uint8 int8 int32 int64 float16 bfloat16 float32 float64 complex64 bool".split()


def reductions(t, d, rank):
    out = []
    for name in DTYPES:
        for op in ("SUM", "MAX", "MIN", "PRODUCT"):
            x = (t.arange(1, 5) * (rank + 1)).to(getattr(t, name))
            if name == "complex64" and op != "SUM":
                continue
            d.all_reduce(x, op=getattr(d.ReduceOp, op))
            out.append(x)
    for op in ("BAND", "BOR", "BXOR"):
        x = t.tensor([3, 5, 6]) + rank
        d.all_reduce(x, getattr(d.ReduceOp, op))
        out.append(x)
    x = t.arange(3.0) * (rank + 1)
    d.all_reduce(x, d.ReduceOp.AVG)
    return out, x


def strangers(t, d, rank):
    """What those do who are not in a group: most calls do nothing and warn, others are refused."""
    group, x, found = d.new_group([0]), t.ones(2), []
    if rank == 0:
        return found
    for call in (
        lambda: d.send(x, 0, group=group), lambda: d.isend(x, 0, group=group), lambda: d.recv(x, 0, group=group),
        lambda: d.all_reduce(x, group=group), lambda: d.broadcast(x, 0, group=group), lambda: d.barrier(group=group),
        lambda: d.send_object_list([1], 0, group=group), lambda: d.recv_object_list([None], 0, group=group),
        lambda: d.all_gather_object([None], 1, group=group), lambda: d.get_backend(group),
        lambda: d.get_backend_config(group), lambda: (d.get_rank(group), d.get_world_size(group)),
    ):
        try:
            found.append(repr(call()))
        except ValueError as error:
            found.append(str(error))
    return found


def sizes(t, d, rank):
    out = []
    for n in (0, 1, 7, 10_000, 300_001):
        t.manual_seed(rank)
        x = t.randn(n)
        d.all_reduce(x)
        out.append(x)
    return out


def layouts(t, d, rank):
    x = (t.arange(6.0) + rank).view(2, 3).t()
    d.all_reduce(x)
    y = t.zeros(4, 4)
    y[1] += rank + 1
    d.all_reduce(y[1])
    z = t.ones(2, requires_grad=True)
    d.all_reduce(z)
    return x, x.stride(), y, z.detach(), z.is_leaf


def sparse(t, d, rank):
    x = t.eye(3).to_sparse() * (rank + 1)
    d.all_reduce(x)
    return x.to_dense()


def broadcasts(t, d, rank):
    x, y = t.arange(4.0) + 10 * rank, t.tensor([rank], dtype=t.bfloat16)
    d.broadcast(x, 1)
    d.broadcast(y, group_src=0)
    z = t.tensor([rank == 1])
    d.broadcast(z, 1)
    return x, y, z


def gathers(t, d, rank):
    x = t.arange(4).view(2, 2) + 10 * rank
    parts = [t.zeros(2, 2, dtype=t.int64) for _ in range(2)]
    d.all_gather(parts, x)
    joined = t.zeros(4, 2, dtype=t.int64)
    d.all_gather_into_tensor(joined, x)
    at_one = [t.zeros(2, 2, dtype=t.int64) for _ in range(2)] if rank == 1 else None
    d.gather(x, at_one, 1)
    coalesced = [[t.zeros(2), t.zeros(3)] for _ in range(2)]
    d.all_gather_coalesced(coalesced, [t.ones(2) * rank, t.ones(3) * rank])
    return parts, joined, at_one or [], coalesced


def reduce_and_scatter(t, d, rank):
    x = t.arange(3.0) + rank
    d.reduce(x, 1)
    own = t.zeros(2)
    d.scatter(own, [t.ones(2), t.ones(2) * 2] if rank == 0 else None, 0)
    part, parts = t.zeros(2), t.zeros(2)
    d.reduce_scatter_tensor(part, t.arange(4.0) * (rank + 1))
    d.reduce_scatter(parts, [t.ones(2) * rank, t.ones(2) * 5])
    return x if rank == 1 else None, own, part, parts


def exchanges(t, d, rank):
    out, swapped = t.zeros(4), [t.zeros(2), t.zeros(2)]
    d.all_to_all_single(out, t.arange(4.0) + 10 * rank)
    d.all_to_all(swapped, [t.ones(2) * rank, t.ones(2) * (rank + 5)])
    uneven = t.zeros(2 if rank == 0 else 4, 2)
    splits = ([1, 1], [1, 2]) if rank == 0 else ([2, 2], [1, 2])
    d.all_to_all_single(uneven, t.arange(6.0).view(3, 2) + 10 * rank, *splits)
    return out, swapped, uneven


def handles(t, d, rank):
    x, y = t.ones(3), t.ones(5)
    first = d.all_reduce(x, async_op=True)
    second = d.all_reduce(y, async_op=True)
    done = second.wait(), first.wait(), first.is_completed(), first.is_success()
    future = d.all_reduce(z := t.ones(2), async_op=True).get_future()
    doubled = future.then(lambda f: f.value()[0] * 2)
    w = d.barrier(async_op=True)
    return done, x, y, future.wait(), doubled.wait(), z, w.wait(), type(w).__mro__[-2].__name__ != ""


def objects(t, d, rank):
    got, listed, own = [None, None], [{"rank": rank}, "x" * (rank + 1)], [None]
    d.all_gather_object(got, {"a": rank, "b": [1] * rank})
    d.broadcast_object_list(listed, 1)
    d.scatter_object_list(own, ["zero", ("one", 1)] if rank == 0 else None, 0)
    gathered = [None, None] if rank == 1 else None
    d.gather_object(rank, gathered, 1)
    received = [None, None]
    if rank == 0:
        d.send_object_list([1, "two"], 1)
    else:
        d.recv_object_list(received, 0)
    return str(got), str(listed), str(own), str(gathered), str(received)


def messages(t, d, rank):
    other = 1 - rank
    if rank == 0:
        sent = [d.isend(t.tensor([1.0]), 1, tag=1), d.isend(t.tensor([2.0]), 1, tag=2)]
        got = [t.zeros(1)]
        source = d.recv(got[0])
        for work in sent:
            work.wait()
    else:
        got = [t.zeros(1), t.zeros(1)]
        d.recv(got[1], 0, tag=2)  # tags, not the order of sending, find a message
        source = d.recv(got[0], 0, tag=1)
        d.send(t.tensor([3.0]), 0)
    x = t.zeros(2)
    ops = [d.P2POp(d.isend, t.ones(2) * rank, other), d.P2POp(d.irecv, x, other)]
    for work in d.batch_isend_irecv(ops):
        work.wait()
    big = t.zeros(500_000)
    sending, receiving = d.isend(t.ones(500_000), other), d.irecv(big, other)
    receiving.wait()
    sending.wait()
    return got, source, x, big.sum()


def groups(t, d, rank):
    first, second = d.new_group([0]), d.new_group([1])
    both = d.new_group([1, 0], timeout=None)
    mine, other = (first, second) if rank == 0 else (second, first)
    x, y, z = t.ones(1), t.ones(1), t.ones(1)
    d.all_reduce(x, group=mine)
    d.all_reduce(y, group=both)
    ignored = d.all_reduce(z, group=other)
    current, made = d.new_subgroups(1)
    facts = (
        d.get_rank(mine), d.get_world_size(both), d.get_rank(other), d.get_world_size(other), ignored,
        d.get_process_group_ranks(both), d.get_global_rank(mine, 0), d.get_group_rank(both, 1),
        len(made), d.get_rank(current), d.get_backend(both), d.get_backend_config(), other,
    )
    d.destroy_process_group(both)
    return x, y, z, facts


def coalesced(t, d, rank):
    x, y = [t.ones(2) * rank, t.ones(3)], t.ones(4) * rank
    came = d.all_reduce_coalesced(x, async_op=True).wait()
    with d._coalescing_manager():
        d.all_reduce(y)
    shown = repr(d.P2POp(d.isend, t.ones(2), 1 - rank)).replace("ftorch", "torch")
    return x, came, y, shown, isinstance(d.ReduceOp.SUM, d.ReduceOp)


def waiting(t, d, rank):
    d.monitored_barrier()
    d.barrier()
    d.barrier(timeout=timedelta(seconds=30))
    return d.get_rank(), d.get_world_size(), d.is_initialized(), d.get_pg_count() >= 1


def of_members(t, d, rank):
    """A group that only its member makes does not count for those that all make behind it."""
    before = d.get_pg_count()
    own = d.new_group([0], use_local_synchronization=True) if rank == 0 else None
    both = d.new_group([0, 1])
    x = t.ones(1)
    d.all_reduce(x, group=both)
    d.new_group([1])
    counted = d.get_pg_count() - before
    names = [d.distributed_c10d._get_process_group_name(g) for g in (None, own) if rank == 0]
    d.destroy_process_group(both)
    return x, counted, names[:1], d.distributed_c10d._get_process_group_name(both)


def shorter(t, d, rank):
    """A message that is shorter than the tensor fills its beginning."""
    x = t.arange(6.0).view(2, 3)
    if rank == 0:
        d.send(t.ones(2), 1)
    else:
        d.recv(x, 0)
    d.barrier()
    return x


def past_versions(t, d, rank):
    """Collectives write past autograd: what it has saved counts as unchanged."""
    x = t.ones(3, requires_grad=True)
    y, z = x.exp(), x.detach().clone()
    d.all_reduce(y)
    d.broadcast(z, 0)
    d.all_gather([z[:1], z[1:2]], t.ones(1))
    versions = y._version, z._version
    y.sum().backward()
    return versions, x.grad


def warns(t, d, rank):
    """What has another name by now warns; its successors do not."""
    said = []
    for call in (
        lambda: d.all_gather_into_tensor(t.zeros(2), t.ones(1)), lambda: d.reduce_scatter_tensor(t.zeros(1), t.ones(2)),
        lambda: d._all_gather_base(t.zeros(2), t.ones(1)), lambda: d._reduce_scatter_base(t.zeros(1), t.ones(2)),
        lambda: d.all_reduce_coalesced([t.ones(1)]), lambda: d.all_gather_coalesced([[t.zeros(1)], [t.zeros(1)]], [t.ones(1)]),
        lambda: d.all_gather_single(t.zeros(2), t.ones(1)), lambda: d.reduce_scatter_single(t.zeros(1), t.ones(2)),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        said += [[(w.category.__name__, str(w.message)) for w in caught]]
    return said


def again(t, d, rank):
    """A group of the same name and ranks gets nothing of what was sent in an earlier one."""
    store = d.distributed_c10d._get_default_store()
    number = store.add(f"again {rank}", 1)

    def made(i):
        place = d.PrefixStore(f"again {number}, {i}", store)
        return d.ProcessGroup(place, rank, 2, timedelta(seconds=40), "same name")

    group = made(0)
    group.barrier().wait()
    if rank:
        group.shutdown()
    d.barrier()
    if not rank:
        group.send([t.zeros(2)], 1, 5)
        group.shutdown()
    d.barrier()
    for i in (1, 1):  # the second time in the same place of the store
        group, x = made(i), t.full((2,), 3.0)
        if rank:
            group.recv([x.zero_()], 0, 5).wait()
            assert x.tolist() == [3, 3]
        else:
            group.send([x], 1, 5)
        group.allreduce([y := t.ones(1)]).wait()
        assert y.item() == 2
        group.shutdown()


ERRORS = {
    "dtype": lambda t, d, r: d.all_gather([t.zeros(2), t.zeros(2)], t.ones(2, dtype=t.int64)),
    "count": lambda t, d, r: d.all_gather([t.zeros(2)], t.ones(2)),
    "shape": lambda t, d, r: d.all_gather([t.zeros(2), t.zeros(3)], t.ones(2)),
    "bits": lambda t, d, r: d.all_reduce(t.ones(2), d.ReduceOp.BAND),
    "complex": lambda t, d, r: d.all_reduce(t.ones(2, dtype=t.complex64), d.ReduceOp.MAX),
    "parts": lambda t, d, r: d.reduce_scatter(t.zeros(3), [t.ones(3)]),
    "exchanged": lambda t, d, r: d.all_to_all([t.zeros(1)], [t.ones(1)]),
    "splits": lambda t, d, r: d.all_to_all_single(t.zeros(4), t.ones(4), [1, 2], [1, 3]),
    "no root": lambda t, d, r: d.broadcast(t.zeros(4)),
    "root": lambda t, d, r: d.broadcast(t.zeros(4), 5),
    "two roots": lambda t, d, r: d.broadcast(t.zeros(4), 0, group_src=0),
    "no list": lambda t, d, r: d.gather(t.zeros(4), None, r),
    "list": lambda t, d, r: d.gather(t.zeros(4), [t.zeros(4)] * 2, 1 - r),
    "short list": lambda t, d, r: d.gather(t.zeros(4), [t.zeros(4)], r),
    "scattered": lambda t, d, r: d.scatter(t.zeros(4), None, r),
    "to itself": lambda t, d, r: d.send(t.zeros(4), r),
    "no tensor": lambda t, d, r: d.all_reduce([1]),
    "no tensors": lambda t, d, r: d.send([1], 1 - r),
    "far": lambda t, d, r: d.new_group([0, 5]),
    "twice": lambda t, d, r: d.new_group([0, 0]),
    "many": lambda t, d, r: d.new_group([0, 1, 2]),
    "not a message": lambda t, d, r: d.P2POp(d.all_reduce, t.ones(1), 0),
    "not messages": lambda t, d, r: d.batch_isend_irecv([1]),
    "again": lambda t, d, r: d.init_process_group("gloo"),
    "name": lambda t, d, r: d.Backend(3),
    "average of integers": lambda t, d, r: d.all_reduce(t.ones(2, dtype=t.int32), d.ReduceOp.AVG),
    "largest of sparse": lambda t, d, r: d.all_reduce(t.eye(2).to_sparse(), d.ReduceOp.MAX),
    "unknown backend": lambda t, d, r: d.new_group([0], backend="foo"),
    "no duration": lambda t, d, r: d.new_group([0], timeout=3),
    "no group": lambda t, d, r: d.all_reduce(t.ones(2), group="x"),
    "backend of no group": lambda t, d, r: d.get_backend(3),
    "end of no group": lambda t, d, r: d.destroy_process_group(3),
    "subgroups": lambda t, d, r: d.new_subgroups(),
    "level": lambda t, d, r: level(d),
    "number": lambda t, d, r: int(d.ReduceOp.RedOpType.SUM) / 0,
}


def level(d):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "much"
    try:
        d.set_debug_level_from_env()
    finally:
        del os.environ["TORCH_DISTRIBUTED_DEBUG"]


def errors(t, d, rank):
    from tests.oracle import outcome

    found = []
    for name, call in ERRORS.items():
        _, error = outcome(call, t, d, rank)
        found.append(f"{name}: {type(error).__name__} {error}")
    return found


PROGRAMS = [
    reductions, strangers, sizes, layouts, sparse, broadcasts, gathers, reduce_and_scatter, exchanges, handles,
    objects, messages, groups, coalesced, waiting, of_members, past_versions, shorter, warns, errors,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_processes(two, program):
    two.run(program)


def mismatched(t, d, rank):
    """Calls that do not belong together are an error, and so is every later one: none takes another's bytes."""
    group = d.new_group([0, 1])
    texts = []
    for call in (
        lambda: d.all_reduce(t.ones(4 + rank), group=group),
        lambda: d.barrier(group=group),
        lambda: d.all_reduce(t.ones(2), group=group),
    ):
        with pytest.raises(RuntimeError) as caught:
            call()
        texts.append(str(caught.value))
    assert "mismatch between collectives" in texts[0]
    assert all("earlier collective of the group has failed" in text for text in texts[1:])
    x = t.ones(1)
    d.all_reduce(x)
    assert x.item() == 2


def destroyed(t, d, rank):
    """Who calls a group that has ended is told so; before, it waited for the group's timeout."""
    for used in (False, True):
        group, began = d.new_group([0, 1]), time.monotonic()
        if used:
            d.all_reduce(t.ones(1), group=group)
        d.destroy_process_group(group)
        with pytest.raises(RuntimeError, match="has been destroyed"):
            d.all_reduce(t.ones(1), group=group)
        assert time.monotonic() - began < 15


def test_destroyed(two):
    two.run(destroyed, libraries=("ftorch",))


def test_again(two):
    two.run(again, libraries=("ftorch",))


def test_mismatch(two):
    two.run(mismatched, libraries=("ftorch",))


def means_of_complex(t, d, rank):
    """Means over three of four, which round, part by part."""
    group = d.new_group([0, 1, 2])
    x = t.tensor([10, 1 / 3 + 7j, 1e-3 - 5j, 1j], dtype=t.complex128) if rank == 0 else t.zeros(4, dtype=t.complex128)
    if rank < 3:
        d.all_reduce(x, d.ReduceOp.AVG, group=group)
        assert x[0] == 10 / 3, x.tolist()
    return t.view_as_real(x)


def test_means_of_complex_numbers(four):
    four.run(means_of_complex)
