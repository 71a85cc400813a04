"""``torch.profiler``: what is collected, its tables and traces; nothing is left behind."""

import gzip
import json

import pytest
import torch as pt

import ftorch as ft
from ftorch.eager.call import op
from ftorch.eager.runtime import program
from tests.oracle import assert_shows_same, unchanged


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
               if e.category != "compile")


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
    )
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
])
def test_schedules(options):
    assert actions(ft, **options) == actions(pt, **options)


def test_errors_of_schedules():
    errors = []
    for torch in (ft, pt):
        with pytest.raises(AssertionError) as caught:
            torch.profiler.schedule(wait=-1, warmup=1, active=0)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
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

    ft.profiler.tensorboard_trace_handler(str(tmp_path / "logs"), "worker", use_gzip=True)(profiled(ft))
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
    assert y._ftorch_storage.array is not None
    assert not [e for e in p.events() if e.name == "ftorch::program" and e.args["count"] > 1]


def test_nothing_is_left_behind():
    before = {name: getattr(op.hooks, name) for name in op.hooks.__slots__}, op.special[0], program.execute
    with pytest.raises(ZeroDivisionError):
        with ft.profiler.profile():
            ft.ones(2).exp()
            raise ZeroDivisionError
    assert ({name: getattr(op.hooks, name) for name in op.hooks.__slots__}, op.special[0], program.execute) == before
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


def cpu(torch, **options):
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options)


def test_functions_of_several_ops_nodes_and_values_are_events():
    found = []
    for torch in (ft, pt):
        w = torch.ones(2, 3, requires_grad=True)
        optimizer = torch.optim.SGD([w], 0.1)
        with cpu(torch) as p:
            optimizer.zero_grad()
            x = torch.nn.functional.dropout(torch.rand(2, 3)).flatten()[1:]
            (torch.nn.functional.relu(w * 2).exp().sum() + x.sum() + torch.full((), 2.0)).backward()
            w.sum().item()
        names = ("rand", "dropout", "flatten", "slice", "relu", "exp", "full", "item", "_local_scalar_dense")
        counts = {e.key: e.count for e in p.key_averages()}
        nodes = sorted(k for k in counts if "Backward0" in k and "Relu" in k or k.endswith("ExpBackward0"))
        found.append(([counts.get(f"aten::{n}") for n in names], nodes, counts["Optimizer.zero_grad#SGD.zero_grad"]))
    assert found[0] == found[1]


def test_attributes_of_events():
    found = []
    for torch in (ft, pt):
        with cpu(torch, record_shapes=True) as p:
            with torch.profiler.record_function("named"):
                torch.ones(2, 3) + torch.ones(3)
        e = next(e for e in p.events() if e.name == "aten::add")
        mean = next(e for e in p.key_averages(group_by_input_shape=True) if e.key == "aten::add")
        named = next(e for e in p.events() if e.name == "named")
        found.append((
            e.input_shapes[:2], e.count, e.is_async, e.is_remote, e.is_legacy, e.node_id, e.use_device,
            e.flops, e.scope, named.scope, str(e.device_type), e.overload_name, e.device_memory_usage,
            e.device_time_total, e.cpu_parent.name, [c.name for c in named.cpu_children][-1],
            e.time_range.elapsed_us() == e.cpu_time_total, e.cpu_time_total_str[-1], mean.count,
            mean.input_shapes[:2], str(mean.device_type), mean.is_async, mean.node_id, mean.flops,
            p.events().supported_export_stacks_metrics(),
        ))
        missing = {n for n in dir(pt.autograd.profiler_util.FunctionEventAvg()) if n[0] != "_"} - set(dir(mean))
        assert not missing
    assert found[0] == found[1]


def test_floating_point_operations():
    found = []
    for torch in (ft, pt):
        with cpu(torch, with_flops=True) as p:
            torch.ones(2, 3) @ torch.ones(3, 4), torch.ones(5) * 2
            torch.nn.functional.conv2d(torch.ones(1, 3, 8, 8), torch.ones(4, 3, 3, 3))
        found.append(sorted(e.flops for e in p.key_averages() if e.flops))
        assert "Total FLOPs" in p.key_averages().table(sort_by="flops")
    assert found[0] == found[1]


ERRORS = {
    "no activities": lambda torch: torch.profiler.profile(activities=[]),
    "averages": lambda torch: cpu(torch).key_averages(), "events": lambda torch: cpu(torch).events(),
    "trace": lambda torch: cpu(torch).export_chrome_trace("x.json"),
    "step": lambda torch: torch.profiler.schedule(wait=0, warmup=1, active=1)(-1),
    "schedule": lambda torch: torch.profiler.schedule(wait=-1, warmup=1, active=1),
    "not run": lambda torch: str(torch.autograd.profiler.profile()),
    "not enabled": lambda torch: str(torch.autograd.profiler.profile(enabled=False).__enter__()),
    "stacks": lambda torch: profiled(torch).export_stacks("x", "self_cpu_time_total"),
    "sort": lambda torch: profiled(torch).key_averages().table(sort_by="nothing"),
    "formats": lambda torch: (
        torch.autograd.profiler_util._format_time(1500), torch.autograd.profiler_util._format_time_share(1, 3),
        torch.autograd.profiler_util._format_memory(2048), torch.autograd.profiler_util.Interval(1, 5).elapsed_us(),
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    assert_shows_same(ERRORS[name], show=unchanged, ignored=None)


def test_saved_once_and_entered_once(tmp_path):
    for torch in (ft, pt):
        p = profiled(torch)
        p.export_chrome_trace(str(tmp_path / "trace.json"))
        with pytest.raises(RuntimeError, match="Trace is already saved"):
            p.export_chrome_trace(str(tmp_path / "trace.json"))
        p.events().export_chrome_trace(str(tmp_path / "events.json"))
        assert isinstance(json.loads((tmp_path / "events.json").read_text()), list)
        older = torch.autograd.profiler.profile()
        with older:
            torch.ones(2)
        with pytest.raises(RuntimeError, match="not reentrant"), older:
            pass


def test_batches_are_events():
    found = []
    for torch in (ft, pt):
        loader = torch.utils.data.DataLoader(list(range(6)), batch_size=2)
        with cpu(torch) as p:
            list(loader)
        found.append({e.key: e.count for e in p.key_averages() if "DataLoader" in e.key})
    assert found[0] == found[1] and len(found[0]) == 1


def test_calls_of_compiled_functions():
    f = ft.compile(lambda x: (x * 2).sin().sum())
    x = ft.ones(3)
    f(x), f(x)
    with cpu(ft) as p:
        with ft.profiler.record_function("outer"):
            f(x), f(x)
    regions = [e for e in p.events() if e.name.startswith("Torch-Compiled Region: 0/")]
    assert [e.cpu_parent.name for e in regions] == ["outer"] * 2 and all(e.cpu_time_total > 0 for e in regions)


def test_profiles_inside_profiles_and_pauses():
    with cpu(ft) as outer:
        ft.ones(2).sin()
        with cpu(ft) as inner:
            ft.ones(2).cos()
        ft.ones(2).tan()
        outer.toggle_collection_dynamic(False, [ft.profiler.ProfilerActivity.CPU])
        ft.ones(2).exp()
        outer.toggle_collection_dynamic(True, [ft.profiler.ProfilerActivity.CPU])
        ft.ones(2).log()
    names = {e.name for e in outer.events()}
    assert {"aten::sin", "aten::tan", "aten::log"} <= names and not {"aten::cos", "aten::exp"} & names
    assert "aten::cos" in {e.name for e in inner.events()}
    assert not op.special[0]


def test_regions_by_operators():
    """Instrumented graphs (``examples/fx/profiling_tracer.py`` of PyTorch's examples) enter regions by operators."""
    found = []
    for torch in (pt, ft):
        ops = torch.ops.profiler
        with cpu(torch) as p:
            outer, inner = ops._record_function_enter_new("outer", "arguments"), ops._record_function_enter(name="inner")
            torch.ones(2).sin()
            assert ops._record_function_exit(inner) is None
            ops._record_function_exit(outer)
            ops._record_function_exit._RecordFunction(ops._record_function_enter_new.default("later"))
        regions = {e.name: getattr(e.cpu_parent, "name", None) for e in p.events() if e.is_user_annotation}
        parent = next(e.cpu_parent.name for e in p.events() if e.name == "aten::sin")
        packets = [getattr(ops, n) for n in ("_record_function_enter", "_record_function_enter_new",
                                             "_record_function_exit")]
        schemas = [str(getattr(packet, name)._schema) for packet in packets for name in packet.overloads()]
        handle = ops._record_function_enter("no profile")
        ops._record_function_exit(handle)
        assert isinstance(ops._record_function_enter_new("never left"), torch.ScriptObject)
        with pytest.raises(RuntimeError, match="_record_function_exit.. Expected a value of type 'Tensor'"):
            ops._record_function_exit(3)
        found.append((regions, parent, schemas, str(handle.dtype), handle.shape))
    assert found[0] == found[1]
