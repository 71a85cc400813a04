"""Names below ``torch.distributed`` that are private and that published libraries import, against PyTorch's."""

from __future__ import annotations

import copy
import datetime
import importlib
import pickle
import shutil
import subprocess
import sys
import tempfile

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import assert_same, both, outcome

BOTH = pytest.mark.parametrize("t", [ft, pt], ids=["ftorch", "torch"])


def _part(t, name):
    return importlib.import_module(f"{t.__name__}.distributed.{name}")


def _raised(call):
    """What a call gives, or the type and text of what it raises."""
    value, error = outcome(call)
    return value if error is None else (type(error).__name__, str(error))


def steps_together(t, d, rank):
    """A checkpoint's steps: what one process raises, all raise."""
    utils, found = _part(t, "checkpoint.utils"), []
    wrap = utils._DistWrapper(None, True, 0)
    found += [wrap.rank, wrap.is_coordinator, wrap.get_world_size(), wrap.broadcast_object(f"of {rank}")]
    found += [wrap.gather_object(rank), wrap.all_gather_object([rank]), wrap.scatter_object(["a", "b"] if not rank else None)]
    found += [wrap.all_reduce("sum", lambda: rank + 1, sum), wrap.broadcast("one", lambda: rank)]
    found += [wrap.reduce_scatter("share", lambda: rank, lambda values: [v * 2 for v in values])]
    found += [wrap.all_gather("all", lambda: rank)]

    def raises(at):
        def step(*args):
            if rank == at:
                raise KeyError("here")
            return rank

        return step

    calls = (
        lambda: wrap.all_reduce("a", raises(1), sum), lambda: wrap.all_gather("b", raises(0)),
        lambda: wrap.reduce_scatter("c", raises(1), list), lambda: wrap.broadcast("d", raises(0)),
        lambda: wrap.all_reduce("e", lambda: rank, raises(0)),
    )
    for call in calls:
        with pytest.raises(utils.CheckpointException) as raised:
            call()
        failures = raised.value.failures
        found += [raised.value.args[0], {r: (type(e).__name__, str(e), lines[-1].name) for r, (e, lines) in failures.items()}]
        assert "Traceback (most recent call last): (RANK" in str(raised.value) and "KeyError: 'here'" in str(raised.value)
    wrap.barrier()
    return found


def loaded_by_names(t, d, rank):
    """Values of a checkpoint whose state dict is not known."""
    checkpoint, box = _part(t, "checkpoint"), [tempfile.mkdtemp() if rank == 0 else None]
    d.broadcast_object_list(box, 0)
    state = {"a": {"b": t.arange(3), "c": 5}, "d": t.ones(2) * 2}
    checkpoint.save(state, checkpoint_id=box[0])
    load = _part(t, "checkpoint.state_dict_loader")._load_state_dict_from_keys
    found = [load(keys, checkpoint_id=box[0]) for keys in (None, "a", {"a.c", "d"})]
    with pytest.raises(checkpoint.CheckpointException) as raised:
        checkpoint.load({"missing": t.zeros(1)}, checkpoint_id=box[0])
    found.append({r: type(e).__name__ for r, (e, _) in raised.value.failures.items()})
    d.barrier()
    if rank == 0:
        shutil.rmtree(box[0])
    return found


def names_of_groups(t, d, rank):
    functional, group = _part(t, "_functional_collectives"), d.new_group([0, 1])
    c10d = _part(t, "distributed_c10d")
    c10d._set_pg_timeout(datetime.timedelta(seconds=31), group)
    x = t.ones(2) * (rank + 1)
    d.all_reduce(x, group=group)
    name = functional._resolve_group_name(group)
    return [
        x, functional._resolve_group_name("own"), name == d._get_process_group_name(group), c10d._get_global_rank(group, 1),
        functional._resolve_group_name(d.init_device_mesh("cpu", (2,))) == d.group.WORLD.group_name,
    ]


@pytest.mark.parametrize("program", [steps_together, loaded_by_names, names_of_groups])
def test_two_processes(two, program):
    two.run(program)


STATES = (
    {"a": {"b": 1, "c": {}}, "d": [1, 2], "e": [1, {"f": 2}], "g": [[1], [2, [3]]], "h": (1, {"i": 2}), 5: {6: "x"}},
    {"t": ["one", "t"], "u": [["t"], []], "v": {"w": ["t", 2]}, "x": [("t",)]},
)


@pytest.mark.parametrize("state", STATES)
def test_walks_over_state_dicts(state):
    found = []
    for t in (ft, pt):
        traverse = _part(t, "checkpoint._traverse")

        def made(value, t=t):
            if isinstance(value, dict):
                return {k: made(v) for k, v in value.items()}
            if isinstance(value, (list, tuple)):
                return type(value)(made(v) for v in value)
            return t.ones(2) if value == "t" else value

        seen, printed, again = [], [], {}
        for keep in ((), (lambda value: not hasattr(value, "shape") and value == 2,)):
            traverse.traverse_state_dict(made(state), lambda path, value: seen.append((path, value)), *keep)
        for path, value in seen:
            traverse.set_element(again, path, value)
        values = [traverse.get_element(again, path, "none") for path, _ in seen]
        values += [traverse.get_element(again, path, "none") for path in (("a", "z"), ("nope",), ("a", "b", "c"))]
        for value in (5, t.ones(2, 3)):
            traverse.print_tensor(("a",), value, printed.append)
        found.append((seen, again, values, printed))
    assert_same(found[0], found[1])


@BOTH
def test_names_without_wrappers(t):
    clean = _part(t, "fsdp._common_utils").clean_tensor_name
    assert clean("_fsdp_wrapped_module.a._checkpoint_wrapped_module._fsdp_wrapped_module.b") == "a.b"


def test_modules_that_policies_wrap():
    found = []
    for t in (ft, pt):
        wrap, nn = _part(t, "fsdp.wrap"), t.nn

        class Wrapped(nn.Module):
            def __init__(self, module, name="w"):
                super().__init__()
                self.module, self.name = module, name

        for policy in (
            wrap.ModuleWrapPolicy({nn.Linear}), wrap.always_wrap_policy,
            lambda module, recurse, nonwrapped_numel: recurse or nonwrapped_numel > 12,
        ):
            for only in (False, True):
                net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 3), nn.ReLU()), nn.Linear(3, 1))
                ignored = {net[2]}
                made, count = wrap._recursive_wrap(net, policy, Wrapped, ignored, set(), only_wrap_children=only, name="x")
                found.append((t.__name__, [(n, type(m).__name__) for n, m in made.named_modules()], count))
        with pytest.raises(AssertionError, match="is already wrapped by"):
            wrap._recursive_wrap(nn.Sequential(Wrapped(nn.Linear(1, 1))), wrap.always_wrap_policy, Wrapped, set(), set())
    half = len(found) // 2
    assert [f[1:] for f in found[:half]] == [f[1:] for f in found[half:]]


def test_memory_that_processes_share():
    """What asks for it is told what PyTorch says where no device has it."""
    found = []
    for t in (ft, pt):
        memory = _part(t, "_symmetric_memory")
        calls = (
            memory.is_nvshmem_available, lambda: memory.get_backend("cuda"), lambda: memory.set_backend("NCCL"),
            lambda: memory.empty(4, device="cpu"), lambda: memory.empty(4), lambda: memory.get_mem_pool("cpu"),
            lambda: memory.is_symm_mem_tensor(t.ones(2)), memory.get_signal_pad_size,
            lambda: memory.make_contiguous_for_perm(t.arange(6).view(1, 2, 3), [2, 0, 1]).stride(),
            lambda: memory.restride_A_shard_for_fused_all_gather_matmul(t.ones(2, 3, 4), 1).stride(),
            lambda: memory.restride_A_for_fused_matmul_reduce_scatter(t.ones(2, 3, 4), 1).stride(),
        )
        found.append([_raised(call) for call in calls])
    assert found[0] == found[1]


@BOTH
def test_other_names(t):
    schedules, placements = _part(t, "pipelining.schedules"), _part(t, "_tensor.placement_types")
    assert [str(getattr(schedules, n).value) for n in ("FORWARD", "FULL_BACKWARD", "UNSHARD", "REDUCE_GRAD")] == [
        "F", "B", "UNSHARD", "REDUCE_GRAD",
    ]
    assert placements.DTensorSpec.__name__ == "DTensorSpec"
    assert _part(t, "_tensor.device_mesh").DeviceMesh is t.distributed.DeviceMesh
    assert t.distributed._remote_device("rank:1/cpu").rank() == 1
    assert _part(t, "checkpoint.filesystem").DEFAULT_SUFFIX == ".distcp"
    assert t.distributed.fsdp.FlatParameter.__name__ == "FlatParameter"
    assert _part(t, "pipelining.stage")._normalize_model_output_as_tuple([1, 2]) == (1, 2)


@BOTH
def test_what_says_that_a_module_is_wrapped(t):
    common, full = _part(t, "fsdp._common_utils"), _part(t, "fsdp.fully_sharded_data_parallel")
    assert issubclass(full.FullyShardedDataParallel, common._FSDPState)
    assert issubclass(common._FSDPState, _part(t, "_composable_state")._State)
    assert full.TrainingState is common.TrainingState
    assert [(s.name, s.value) for s in common.TrainingState] == [
        ("IDLE", 1), ("FORWARD_BACKWARD", 2), ("SUMMON_FULL_PARAMS", 3)]


@BOTH
def test_groups_are_asked_by_private_names(t):
    d = t.distributed
    d.init_process_group("gloo", store=d.HashStore(), rank=0, world_size=1)
    try:
        c10d, group = d.distributed_c10d, d.group.WORLD
        assert c10d._get_group_size(None) == c10d._get_group_size(group) == 1
        assert c10d._group_or_default_group() is group
        assert c10d._get_process_group_store(group) is c10d._get_default_store()
        operations = ("SUM", "AVG", "MAX", "MIN", "PRODUCT", "BAND", "BOR", "BXOR")
        assert [d.supports_complex(getattr(d.ReduceOp, o)) for o in operations] == [True, True, *[False] * 6]
        fsdp = _part(t, "fsdp")
        module = fsdp.fully_shard(t.nn.Linear(2, 2), mesh=d.init_device_mesh("cpu", (1,)))
        with pytest.raises(ValueError, match="FSDPLinear'> does not have a method no"):
            fsdp.register_fsdp_forward_method(module, "no")
    finally:
        d.destroy_process_group()


def test_a_group_that_meets_nobody():
    """The backend ``fake`` needs neither a store nor an address."""
    script = (
        "import sys, importlib\nt = importlib.import_module(sys.argv[1])\nd = t.distributed\n"
        "d.init_process_group('fake', rank=1, world_size=4)\n"
        "x = t.ones(2)\nd.all_reduce(x)\n"
        "print(d.get_rank(), d.get_world_size(), d.get_backend(), d.init_device_mesh('cpu', (2, 2)).get_coordinate())\n"
    )
    found = [
        subprocess.run([sys.executable, "-c", script, name], capture_output=True, text=True, timeout=60).stdout
        for name in ("ftorch", "torch")
    ]
    assert found[0] == found[1] and found[0].startswith("1 4 fake")


@pytest.mark.parametrize("case", range(6))
def test_buckets_by_size(case):
    def program(t):
        def made(*sizes, kinds=(t.float32,)):
            return [t.empty(n, dtype=kinds[i % len(kinds)]) for i, n in enumerate(sizes)]

        both_kinds, assigned = (t.float32, t.float64), t.distributed._compute_bucket_assignment_by_size
        given = (
            (made(100, 200, 100, 50), [400]), (made(50, 25, 50, 25, 50, 25, kinds=both_kinds), [200, 400]),
            (made(*[10] * 9), [40, 100]), (made(10, 1000, 1), [40, 100], [True, False, False]),
            (made(0, 1), [4]), (made(1, 2, 3), [8], [], [2, 1, 0]),
        )
        return assigned(*given[case])

    both(program)


def test_sums_with_factors_are_equal():
    def program(t):
        made = t.distributed._make_nccl_premul_sum
        op, text = made(2.0), pickle.dumps
        return copy.copy(op) == op, copy.deepcopy(op) == op, pickle.loads(text(op)) == op, op == "abc", op == made(3.0)

    both(program)


def test_groups_of_ones_own_need_no_barrier():
    """A class that says nothing but its name is enough to be initialized with."""
    text = (
        "import {0}.distributed as d\n"
        "class Own(d.ProcessGroup):\n"
        "    def getBackendName(self): return 'own'\n"
        "d.Backend.register_backend('own', lambda store, rank, size, timeout: Own(rank, size))\n"
        "d.init_process_group('own', store=d.HashStore(), rank=0, world_size=2)\n"
        "print(d.get_rank(), d.get_world_size(), d.Backend._plugins['OWN'].extended_api)\n"
    )
    found = []
    for name in ("torch", "ftorch"):
        command = [sys.executable, "-c", text.format(name)]
        found.append(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout)
    assert found[0] == found[1] == "0 2 False\n"
