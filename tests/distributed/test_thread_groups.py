"""Groups whose ranks are threads of one process: a backend of one's own, and a state of all groups for each thread."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
import torch

import ftorch


class World(threading.local):
    """What `distributed_c10d._world` is replaced with: each thread has its own."""

    def __init__(self):
        self.default_pg, self.group_count = None, 0
        self.pg_map, self.pg_names, self.pg_group_ranks, self.pg_backend_config = {}, {}, {}, {}
        self.tags_to_pg, self.pg_to_tag, self.pg_coalesce_state, self.comms = {}, {}, {}, []


def group_class(lib):
    """A group whose ranks meet at a barrier, and copy what the others have."""
    dist, core = lib.distributed, lib._C._distributed_c10d

    class Threads(dist.ProcessGroup):
        rooms: dict = {}
        lock = threading.Lock()

        def __init__(self, rank, size):
            super().__init__(rank, size)
            self.own, self.count, self.calls = rank, size, 0
            self.world = dist.distributed_c10d._world

        def size(self):
            return self.count

        @property
        def pg_name(self):
            return self.world.pg_names[self]

        @property
        def group_name(self):
            return self.pg_name

        def getBackendName(self):
            return "threads"

        def all(self, value):
            """Everybody's value, when everybody is there."""
            self.calls += 1
            with self.lock:
                key = self.pg_name, self.calls
                room = self.rooms.setdefault(key, SimpleNamespace(barrier=threading.Barrier(self.count), values={}))
            room.values[self.own] = value.clone()
            room.barrier.wait(30)
            return [room.values[r] for r in range(self.count)]

        def work(self, result):
            future = lib.futures.Future()
            future.set_result(result)
            return core._create_work_from_future(future)

        def allreduce(self, tensors, opts=None):
            for t in tensors:
                t.detach().copy_(sum(self.all(t)))
            return self.work(tensors)

        def barrier(self, opts=None):
            return self.allreduce([lib.ones(1)])

        def allgather(self, outputs, inputs, opts=None):
            for out, t in zip(outputs[0], self.all(inputs[0])):
                out.copy_(t)
            return self.work(outputs)

        def all_gather_single(self, output, input, opts=None):
            output.copy_(lib.cat(self.all(input)))
            return self.work(output)

    return Threads


def ran(lib, body, size=2):
    """What `body(rank)` gives in each thread."""
    dist, core = lib.distributed, lib._C._distributed_c10d
    kind, store, results = group_class(lib), dist.HashStore(), {}
    dist.Backend.register_backend("threads", lambda store, rank, size, timeout: kind(rank, size), devices=["cpu"])
    before, dist.distributed_c10d._world = dist.distributed_c10d._world, World()
    core._set_thread_isolation_mode(True)

    def rank_of(rank):
        try:
            dist.init_process_group("threads", rank=rank, world_size=size, store=store)
            results[rank] = body(rank)
            dist.destroy_process_group()
        except BaseException as error:
            results[rank] = error

    try:
        threads = [threading.Thread(target=rank_of, args=(r,)) for r in range(size)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
    finally:
        core._set_thread_isolation_mode(False)
        dist.distributed_c10d._world = before
        del dist.Backend._plugins["THREADS"]
        del dist.Backend.THREADS
        dist.Backend.backend_list.remove("threads")
    for value in results.values():
        if isinstance(value, BaseException):
            raise value
    return [results[r] for r in range(size)]


@pytest.fixture
def threads_agree():
    """Runs a function of a library, its body made of it, and compares."""

    def compare(make, size=2):
        ours, theirs = ran(ftorch, make(ftorch), size), ran(torch, make(torch), size)
        assert ours == theirs
        return ours

    return compare


def test_collectives_of_threads(threads_agree):
    def make(lib):
        dist = lib.distributed

        def body(rank):
            x, out = lib.arange(3.0) + rank, [lib.zeros(3) for _ in range(2)]
            dist.all_gather(out, x)
            whole = lib.zeros(6)
            work = dist.all_gather_single(whole, x, async_op=True)
            waited = work.wait()
            dist.all_reduce(x)
            return x.tolist(), [o.tolist() for o in out], whole.tolist(), waited, work.is_completed(), dist.get_rank()

        return body

    assert threads_agree(make)[1][0] == [1.0, 3.0, 5.0]


def test_each_thread_has_groups_of_its_own(threads_agree):
    def make(lib):
        dist, core = lib.distributed, lib.distributed.distributed_c10d

        def body(rank):
            evens, odds = dist.new_group([0, 2]), dist.new_group([1, 3])
            mine = odds if rank % 2 else evens
            x = lib.tensor([float(rank)])
            dist.all_reduce(x, group=mine)
            known = core._resolve_process_group(mine.group_name) is mine
            other = evens if rank % 2 else odds
            return (
                x.item(), known, other == dist.GroupMember.NON_GROUP_MEMBER, dist.get_backend(mine), dist.get_rank(mine),
                dist.get_process_group_ranks(mine), dist.get_global_rank(mine, 1), dist.get_world_size(mine),
                dist.get_backend_config(mine), len(core._world.pg_map),
            )

        return body

    assert threads_agree(make, 4)[3][:2] == (4.0, True)


def test_modules_divided_over_threads(threads_agree):
    def make(lib):
        from importlib import import_module

        fsdp = import_module(f"{lib.__name__}.distributed.fsdp")
        mesh_of = lib.distributed.init_device_mesh

        def body(rank):
            model = lib.nn.Linear(2, 4)
            fsdp.fully_shard(model, mesh=mesh_of("cpu", (2,)))
            return tuple(model.weight.to_local().shape), fsdp.fully_shard.state(model) is not None, (
                fsdp.fully_shard.state(lib.nn.Linear(1, 1))
            )

        return body

    assert threads_agree(make)[0] == ((2, 2), True, None)


def test_a_group_without_a_store_has_but_a_rank():
    for lib in (ftorch, torch):
        made = lib.distributed.ProcessGroup(1, 3)
        assert (made.rank(), made.size()) == (1, 3)


def test_groups_have_further_names():
    seen = []
    for lib in (ftorch, torch):
        core, dist = lib._C._distributed_c10d, lib.distributed
        made = dist.ProcessGroup(0, 1)
        core._register_process_group("a name", made)
        found = core._resolve_process_group("a name") is made
        core._unregister_process_group("a name")
        with pytest.raises(RuntimeError, match="Could not resolve the process group registered under the name a name"):
            core._resolve_process_group("a name")
        seen.append(found)
    assert seen == [True, True]


def test_operators_of_collectives_are_differentiable_ones():
    for lib in (ftorch, torch):
        __import__(f"{lib.__name__}.distributed._functional_collectives")
        dist = lib.distributed
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        try:
            x = lib.ones(2, requires_grad=True)
            name = dist.group.WORLD.group_name
            done = lib.library.opcheck(
                lib.ops._c10d_functional.all_reduce.default, (x, "sum", name), test_utils="test_autograd_registration"
            )
            assert done == {"test_autograd_registration": "SUCCESS"}
        finally:
            dist.destroy_process_group()


def test_operators_asked_for_by_threads_are_there():
    import subprocess
    import sys

    code = (
        "import threading, ftorch\n"
        "seen = []\n"
        "def ask(): seen.append(ftorch.ops._c10d_functional.all_gather_into_tensor)\n"
        "threads = [threading.Thread(target=ask) for _ in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "assert len(seen) == 8 and len(set(map(id, seen))) == 1, seen\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_pretended_groups_are_made_as_the_tests_of_pytorch_make_theirs():
    seen = []
    for lib in (ftorch, torch):
        made = lib._C._distributed_c10d.FakeProcessGroup._create_internal(1, 4)
        seen.append((made.rank(), made.size()))
    assert seen == [(1, 4)] * 2
