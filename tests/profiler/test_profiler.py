"""``torch.profiler``: what is collected, its tables and traces; nothing is left behind."""

import gzip
import json

import pytest
import torch as pt

import ftorch as ft
from ftorch.eager import op, program


def work(torch):
    linear = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(linear.parameters(), 0.1)
    x = torch.ones(2, 4)
    with torch.profiler.record_function("forward"):
        loss = linear(x).relu().sum()
    loss.backward()
    optimizer.step()
    return loss.item()


def profiled(torch, **options):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as p:
        work(torch)
    return p


def test_calls_are_events_of_the_same_names():
    mine, theirs = profiled(ft), profiled(pt)
    for p in (mine, theirs):
        counts = {e.key: e.count for e in p.key_averages()}
        for name in ("forward", "aten::linear", "aten::relu", "Optimizer.step#SGD.step"):
            assert counts[name] == 1, name
        forward = next(e for e in p.events() if e.name == "forward")
        assert {"aten::linear", "aten::relu"} <= {c.name for c in forward.cpu_children}
    inside = [e for e in mine.events() if e.cpu_parent is not None]
    assert all(e.cpu_parent.start <= e.start and e.end <= e.cpu_parent.end + 1e3 for e in inside
               if e.category != "compile")  # fmt: skip


def test_programs_and_compilations_are_events():
    with ft.profiler.profile() as p:
        y = (ft.ones(3, 7) * 1.25).cos().sum(1).tan()
        y.tolist()
    programs = [e for e in p.events() if e.name == "ftorch::program"]
    assert programs and any({"cos", "tan"} <= set(e.args["ops"]) for e in programs)
    assert all(e.cpu_time_total > 0 for e in programs)
    assert [e.category for e in p.compilations()] == ["compile"] * len(p.compilations())


def test_shapes_memory_and_stacks():
    mine = profiled(ft, record_shapes=True, profile_memory=True, with_stack=True)
    theirs = profiled(pt, record_shapes=True, profile_memory=True)
    shapes = [next(e for e in p.events() if e.name == "aten::linear").input_shapes for p in (mine, theirs)]
    assert shapes[0] == shapes[1]
    memory = [
        next(e for e in p.key_averages() if e.key == "aten::linear").cpu_memory_usage
        for p in (mine, theirs)
    ]
    assert memory[0] == memory[1] == 2 * 3 * 4
    stack = next(e for e in mine.events() if e.name == "aten::relu").stack
    assert "test_profiler.py" in stack[0] and "work" in stack[0]
    grouped = mine.key_averages(group_by_input_shape=True)
    assert str([[2, 4], [3, 4], [3]]) in {str(e.input_shapes) for e in grouped}


def test_table_has_the_form_of_pytorch():
    mine, theirs = (
        profiled(torch, profile_memory=True).key_averages().table(
            sort_by="self_cpu_time_total", row_limit=3, header="A run"
        )
        for torch in (ft, pt)
    )  # fmt: skip
    mine, theirs = mine.splitlines(), theirs.splitlines()
    assert len(mine) == len(theirs)
    assert mine[1] == theirs[1] == "A run"
    assert mine[3].split() == theirs[3].split()
    assert mine[-1].startswith("Self CPU time total: ") and theirs[-1].startswith(mine[-1][:20])
    rows = [line.split() for line in mine[5:8]]
    percents = [float(r[1].rstrip("%")) for r in rows]
    assert percents == sorted(percents, reverse=True)


def actions(torch, **options):
    action = torch.profiler.schedule(**options)
    return [action(i).name for i in range(14)]


@pytest.mark.parametrize("options", [
    {"wait": 1, "warmup": 1, "active": 2}, {"wait": 1, "warmup": 1, "active": 2, "repeat": 2},
    {"wait": 0, "warmup": 2, "active": 1, "repeat": 1, "skip_first": 3},
    {"wait": 2, "warmup": 1, "active": 1, "skip_first": 1, "skip_first_wait": 1},
])  # fmt: skip
def test_schedules(options):
    assert actions(ft, **options) == actions(pt, **options)


def test_errors_of_schedules():
    errors = []
    for torch in (ft, pt):
        with pytest.raises(AssertionError) as caught:
            torch.profiler.schedule(wait=-1, warmup=1, active=0)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_steps():
    def run(torch):
        ready = []

        def handler(p):
            names = sorted({e.name for e in p.events() if e.name.startswith("ProfilerStep")})
            ready.append((p.step_num, names))

        action = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
        with torch.profiler.profile(schedule=action, on_trace_ready=handler) as p:
            for _ in range(10):
                torch.ones(3).exp()
                p.step()
        return ready

    assert run(ft) == run(pt)


def test_traces(tmp_path):
    p = profiled(ft, record_shapes=True)
    p.add_metadata("run", "seven")
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    data = json.loads((tmp_path / "trace.json").read_text())
    assert data["run"] == "seven"
    events = {e["name"]: e for e in data["traceEvents"] if e["ph"] == "X"}
    assert events["forward"]["cat"] == "user_annotation"
    assert events["aten::linear"]["cat"] == "cpu_op"
    assert events["aten::linear"]["args"]["Input Dims"] == [[2, 4], [3, 4], [3]]
    inner, outer = events["aten::linear"], events["forward"]
    assert outer["ts"] <= inner["ts"] and inner["dur"] <= outer["dur"]

    ft.profiler.tensorboard_trace_handler(str(tmp_path / "logs"), "worker", use_gzip=True)(p)
    (file,) = (tmp_path / "logs").iterdir()
    assert file.name.startswith("worker.") and file.name.endswith(".pt.trace.json.gz")
    with gzip.open(file, "rt") as opened:
        assert json.load(opened)["traceEvents"]

    stacks = profiled(ft, with_stack=True)
    stacks.export_stacks(str(tmp_path / "stacks.txt"))
    assert "aten::linear" in (tmp_path / "stacks.txt").read_text()


def test_synchronous_runs_each_op():
    with ft.profiler.profile(synchronous=True) as p:
        y = ft.ones(4, 4).exp().sin()
    assert y._storage.array is not None
    assert not [e for e in p.events() if e.name == "ftorch::program" and e.args["count"] > 1]


def test_nothing_is_left_behind():
    before = dict(op.hooks), op.special[0], program.execute
    with pytest.raises(ZeroDivisionError):
        with ft.profiler.profile():
            ft.ones(2).exp()
            raise ZeroDivisionError
    assert (dict(op.hooks), op.special[0], program.execute) == before
    assert ft.ones(2).exp().tolist() == pytest.approx([2.718281828] * 2)


def test_older_profiler():
    def run(torch):
        with torch.autograd.profiler.profile() as p:
            with torch.autograd.profiler.record_function("part"):
                torch.ones(2).exp()
        return p

    for torch in (ft, pt):
        p = run(torch)
        assert {"part", "aten::exp"} <= {e.key for e in p.key_averages()}
        assert "aten::exp" in p.table() and p.self_cpu_time_total > 0
    with ft.autograd.profiler.profile(enabled=False) as p:
        ft.ones(1)
    assert p.self_cpu_time_total == 0


def test_decorated_functions():
    @ft.profiler.record_function("named")
    def f(x):
        return x + 1

    with ft.profiler.profile() as p:
        assert f(ft.ones(1)).item() == 2
    assert "named" in {e.key for e in p.key_averages()}


def test_bottleneck(tmp_path, capsys):
    from ftorch.utils.bottleneck import main

    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport ftorch as torch\n"
        "print((torch.ones(int(sys.argv[1]), 5) * 3.5).sinh().sum().item() > 0)\n"
    )
    main([str(script), "11"])
    out = capsys.readouterr().out
    assert out.startswith("True\n")
    assert "Environment Summary" in out and "programs run: 1" in out and "aten::sinh" in out
