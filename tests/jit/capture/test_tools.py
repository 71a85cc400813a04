"""Around ``torch.compile``: recompilations, graph breaks, backends, `explain`, stances, settings."""

import cProfile
import gc
import logging
import os
import pstats
import subprocess
import sys

import pytest

import ftorch as torch
from ftorch import _dynamo
from ftorch._dynamo.testing import CompileCounter, CompileCounterWithBackend


def test_sizes_do_not_count_for_the_limit_but_values_do(caplog):
    calls = []
    with _dynamo.config.patch(recompile_limit=3):
        compiled = torch.compile(lambda x, text: x * len(text))
        for size in range(1, 7):
            assert compiled(torch.ones(size), "ab").tolist() == [2.0] * size
        assert len(compiled.programs) == 6
        with caplog.at_level(logging.WARNING, "torch._dynamo"):
            for n in range(3, 9):
                calls.append(compiled(torch.ones(2), "x" * n).tolist())
        assert calls == [[float(n)] * 2 for n in range(3, 9)]
        assert len(compiled.programs) == 8
        messages = [r.getMessage() for r in caplog.records]
        assert len(messages) == 1
        assert "torch._dynamo hit config.recompile_limit (3)" in messages[0]
        assert "test_tools.py" in messages[0] and "last reason: text == '" in messages[0]
        strict = torch.compile(lambda x, n: x * n, fullgraph=True, dynamic=False)
        with pytest.raises(_dynamo.exc.FailOnRecompileLimitHit):
            for size in range(1, 9):
                strict(torch.ones(size), 1)


def test_a_reason_is_logged_for_each_recompilation(caplog):
    from ftorch.jit.graphs import logs

    logs.set_logs(recompiles=True)
    try:
        compiled = torch.compile(torch.sin)
        with caplog.at_level(logging.WARNING, "torch._dynamo"):
            compiled(torch.ones(2))
            compiled(torch.ones(3))
            compiled(torch.ones(3, dtype=torch.float64))
            with torch.no_grad():
                compiled(torch.ones(3))
        text = "\n".join(r.getMessage() for r in caplog.records)
        assert "size mismatch at index 0. expected 2, actual 3" in text
        assert "dtype mismatch" in text and "GLOBAL_STATE" in text
    finally:
        logs.set_logs()
    with _dynamo.config.patch(error_on_recompile=True), pytest.raises(_dynamo.exc.RecompileError):
        compiled(torch.ones(5))


def _looks(x):
    y = x * 2
    if y.sum() > 0:
        return y
    return -y


def test_fullgraph_names_the_users_line():
    compiled = torch.compile(_looks, fullgraph=True)
    with pytest.raises(_dynamo.exc.Unsupported, match=r"(?s)from user code.*y\.sum\(\) > 0"):
        compiled(torch.ones(2))
    for function, what in [
        (lambda x: x + 1 if x.sum() else x, "looks at the value"),
        (lambda x: (print(), x)[1] + 1, "print was called"),
        (lambda x: (_dynamo.graph_break("why"), x + 1)[1], "graph_break"),
        (lambda x: torch.compiler.disable(torch.sin, reason="mine")(x) + 1, "mine"),
    ]:
        with pytest.raises(_dynamo.exc.Unsupported, match=what):
            torch.compile(function, fullgraph=True)(torch.ones(2))
    assert issubclass(_dynamo.exc.Unsupported, RuntimeError)


def test_a_captured_step_can_be_read_and_run():
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)

    @torch.compile
    def step(x):
        loss = (x * w).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    x = torch.arange(3.0)
    step(x)
    graph = step.graph
    for text in ("def forward(self, arg0, w, numbers):", "torch.ops.aten.mul.Tensor(arg0, w)"):
        assert text in graph.code
    names = [n.target for n in graph.graph.nodes if n.op == "placeholder"]
    assert names == ["arg0", "w", "numbers"]
    graph.graph.lint()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "xla"])
def test_backends_by_name(backend):
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Dropout(0.5))
    compiled = torch.compile(net, backend=backend)
    x = torch.randn(2, 3)
    for i in range(3):
        torch.manual_seed(i)
        expected = net(x)
        gradient = torch.autograd.grad(expected.sum(), net[0].weight)[0]
        torch.manual_seed(i)
        found = compiled(x)
        assert torch.allclose(found, expected, 1e-5, 1e-6)
        assert torch.allclose(torch.autograd.grad(found.sum(), net[0].weight)[0], gradient, 1e-5)
    assert len(compiled._compiled.programs) == 1


def test_custom_backends():
    seen = []

    @_dynamo.register_backend
    def mine(gm, example_inputs):
        seen.append((gm.code, [tuple(t.shape) for t in example_inputs]))
        return gm.forward

    assert "mine" in _dynamo.list_backends() and "inductor" in torch.compiler.list_backends()
    assert "eager" not in _dynamo.list_backends() and "eager" in _dynamo.list_backends(())
    buffer = torch.zeros(2)

    def function(x, y):
        buffer.add_(x)
        return x * y + buffer

    compiled = torch.compile(function, backend="mine")
    for i in range(1, 4):
        assert compiled(torch.ones(2), torch.ones(2)).tolist() == [1.0 + i] * 2
        assert buffer.tolist() == [float(i)] * 2
    (code, shapes), = seen
    assert shapes == [(2,)] * 3 and "l_x_ * l_y_" in code
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(lambda x: (x + 1).relu(), backend=counter)
    compiled(torch.ones(2)), compiled(torch.ones(2)), compiled(torch.ones(4))
    assert counter.frame_count == 2 and counter.op_count == 4 and len(counter.graphs) == 2
    counter = CompileCounter()
    optimized = _dynamo.optimize(counter)(torch.cos)
    assert optimized(torch.zeros(1)).item() == 1 and counter.frame_count == 1
    with pytest.raises(_dynamo.exc.InvalidBackend, match="Invalid backend: 'none such'"):
        torch.compile(torch.sin, backend="none such")

    def broken(gm, example_inputs):
        raise ValueError("mine")

    with pytest.raises(_dynamo.exc.BackendCompilerFailed, match="broken.*raised"):
        torch.compile(torch.sin, backend=broken)(torch.ones(1))


def test_stances():
    compiled = torch.compile(lambda x: x + (2 if torch.compiler.is_compiling() else 1))
    x = torch.zeros(2)
    with torch.compiler.set_stance("force_eager"):
        assert compiled(x).tolist() == [1, 1]
    assert compiled(x).tolist() == [2, 2]
    with torch.compiler.set_stance("eager_on_recompile"):
        assert compiled(x).tolist() == [2, 2]
        assert compiled(torch.zeros(3)).tolist() == [1] * 3
    with torch.compiler.set_stance("fail_on_recompile"):
        assert compiled(x).tolist() == [2, 2]
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(torch.zeros(3))

    @torch.compiler.set_stance("force_eager")
    def eagerly():
        return compiled(x).tolist()

    assert eagerly() == [1, 1] and compiled(x).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="invalid torch.compile stance"):
        torch.compiler.set_stance("other")


def test_names_and_settings():
    assert not torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
    compiled = torch.compile(torch.sin)
    compiled(torch.ones(1))
    torch._dynamo.reset()
    assert not compiled.programs
    assert torch.compile(torch.sin, disable=True) is torch.sin
    torch._dynamo.config.suppress_errors = False
    import ftorch._inductor.config as inductor

    with inductor.patch({"triton.cudagraphs": True}):
        assert inductor.triton.cudagraphs
    assert not inductor.triton.cudagraphs
    with pytest.raises(RuntimeError, match="Unrecognized mode=fast"):
        torch.compile(torch.sin, mode="fast")
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(torch.sin, mode="default", options={})
    with pytest.raises(AssertionError, match="A callable function is expected"):
        torch.compile(3)
    x = torch.ones(2, 3)
    _dynamo.mark_dynamic(x, 0)
    with pytest.raises(AssertionError):
        _dynamo.mark_dynamic(x, "2")
    assert torch.compiler.allow_in_graph(torch.sin) is torch.sin

    @torch.compiler.assume_constant_result
    def scale():
        return torch.tensor([3.0]).max().item()

    fixed = torch.compile(lambda x: x * scale(), fullgraph=True)
    assert fixed(torch.ones(1)).item() == 3 and fixed(torch.ones(1)).item() == 3


def test_cache_artifacts(tmp_path):
    """What one process compiled is found by another that has an empty cache."""
    code = """
import sys
import jax
import ftorch as torch
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name))
if len(sys.argv) > 2:
    info = torch.compiler.load_cache_artifacts(open(sys.argv[1], "rb").read())
    assert info.inductor_artifacts and not info.empty()
    assert torch.compiler.load_cache_artifacts(b"other") is None
assert torch.compile(lambda x: x.sin() * 3)(torch.zeros(2)).tolist() == [0, 0]
found = torch.compiler.save_cache_artifacts()
if len(sys.argv) > 2:
    assert "/jax/compilation_cache/cache_misses" not in hits, set(hits)
else:
    open(sys.argv[1], "wb").write(found[0])
"""
    path = str(tmp_path / "artifacts")
    for run in ("save", "load"):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
        environment["FTORCH_CACHE_DIR"] = str(tmp_path / run)
        arguments = [path] if run == "save" else [path, "load"]
        subprocess.run([sys.executable, "-c", code, *arguments], env=environment, check=True)


def test_pythons_profiler_runs_around_a_first_call():
    profile = cProfile.Profile()
    profile.enable()
    result = torch.compile(lambda x: torch.tanh(x) + 1)(torch.zeros(3))
    torch.ones(2).tolist()
    profile.disable()
    assert result.tolist() == [1, 1, 1]
    assert any(code[2] == "tolist" for code in pstats.Stats(profile).stats)


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_runs_again_after_a_capture(enabled):
    """Also where the function goes on in Python, or fails."""
    seen = []

    def breaks(x):
        x.sum().item()
        seen.append(gc.isenabled())
        return x + 1

    def fails(x):
        raise ValueError("no")

    gc.enable() if enabled else gc.disable()
    try:
        torch.compile(lambda x: x * 2)(torch.ones(2))
        assert gc.isenabled() is enabled
        torch.compile(breaks)(torch.ones(2))
        assert seen == [enabled] and gc.isenabled() is enabled
        with pytest.raises(ValueError, match="no"):
            torch.compile(fails)(torch.ones(2))
        assert gc.isenabled() is enabled
    finally:
        gc.enable()


KERNEL_CALLS = []


def test_what_an_operators_python_kernel_changes_is_seen():
    """Its tracing is the user's code, other kernels' is not."""

    @torch.library.custom_op("cold::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        KERNEL_CALLS.append(len(KERNEL_CALLS))
        return x * 2

    compiled = torch.compile(lambda x: counted(x) + 1)
    for n in range(1, 4):
        assert compiled(torch.ones(3)).tolist() == [3, 3, 3]
        assert len(KERNEL_CALLS) == n


def _counting(name):
    """An operator whose kernel writes to its closure, in three ways."""
    calls, by_number, count = [], {}, 0

    @torch.library.custom_op(f"closures::{name}", mutates_args=())
    def counting(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        calls.append(count)
        by_number[count] = len(calls)
        return x * 2

    return counting, lambda: (calls, by_number, count)


@pytest.mark.parametrize("fake", [False, True])
def test_what_an_operators_kernel_changes_in_its_closure_is_changed_by_each_call(fake):
    """With a fake kernel as well, where a trial says whether programs can hold the kernel."""
    op, seen = _counting(f"fake_{fake}")
    if fake:
        op.register_fake(torch.empty_like)
    compiled = torch.compile(lambda x: op(x) + 1)
    for n in range(1, 4):
        assert compiled(torch.ones(3)).tolist() == [3, 3, 3]
        assert seen() == (list(range(1, n + 1)), {i: i for i in range(1, n + 1)}, n)


class _Recorder:
    def __init__(self):
        self.count = 0

    def hook(self, _):
        self.count += 1


def test_what_hooks_change_that_only_the_library_calls():
    calls, recorder = [], _Recorder()
    p = torch.nn.Parameter(torch.ones(3))
    p.register_hook(lambda g: calls.append(1))
    p.register_hook(recorder.hook)
    optimizer = torch.optim.SGD([p], 0.1)
    optimizer.register_step_post_hook(lambda *a: calls.append(2))

    def step(x):
        (p * x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step = torch.compile(step)
    for n in range(1, 4):
        step(torch.ones(3))
        assert calls == [1, 2] * n and recorder.count == n


def test_functions_made_by_the_call_keep_nothing_from_being_a_program():
    def outer(x):
        kept = []
        y = x * 2
        y.register_hook(lambda g: kept.append(g))
        y.sum().backward()
        return kept[0]

    compiled = torch.compile(outer)
    for _ in range(2):
        assert compiled(torch.ones(3, requires_grad=True)).tolist() == [1.0] * 3
    assert [e.captured is None for e in compiled.events] == [False]
