"""What a step that fails takes with it: its own results and what depends on them, nothing else."""

from __future__ import annotations

import gc
import linecache
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import ftorch as torch
from ftorch.eager.runtime import background, host_tier, program, short_traces, trace_programs
from ftorch.eager.runtime.plan import Plan
from ftorch.eager.runtime.trace import UNITS
from ftorch.eager.runtime.trace import threads as trace_of_thread
from ftorch.jit.capture import lowering


class _Failing:
    """While active, the n-th step of a trace fails, in the whole program and by itself."""

    def __init__(self, monkeypatch, kind):
        self.kind, self.names = kind, set()
        run, compile_code = Plan.run, program.compile_code

        make_trace = trace_programs.TraceProgram.__init__

        def failing_run(plan, *operands):
            if plan.name in self.names:
                raise kind(f"{plan.name} does not work today")
            return run(plan, *operands)

        def failing_trace(trace, *of):
            make_trace(trace, *of)
            run_trace = trace.function  # which C calls, too

            def function(inputs, plans, numbers):
                if any(plan.name in self.names for plan in plans):
                    raise kind("the trace does not work today")
                return run_trace(inputs, plans, numbers)

            trace.function = function

        def failing_compile(code, *rest):
            if any(getattr(item, "name", None) in self.names for item in code):
                raise kind("the program does not work today")
            return compile_code(code, *rest)

        monkeypatch.setattr(Plan, "run", failing_run)
        monkeypatch.setattr(program, "compile_code", failing_compile)
        monkeypatch.setattr(trace_programs.TraceProgram, "__init__", failing_trace)
        monkeypatch.setattr(short_traces, "_MOST_STEPS", 0)

    def __call__(self, *names):
        program._programs.clear()
        trace_programs.known.clear()
        self.names = set(names)


@pytest.fixture(params=[RuntimeError, MemoryError])
def failing(monkeypatch, request):
    yield _Failing(monkeypatch, request.param)
    program._programs.clear()
    trace_programs.known.clear()


def test_only_dependents_carry_the_error(failing):
    x = torch.arange(4.0)
    failing("sinh")
    a = x + 1
    b = torch.sinh(a)
    c = b * 2
    d = a * 3
    with pytest.raises(RuntimeError, match="sinh"):
        d.sum().item()
    np.testing.assert_array_equal(a.numpy(), [1, 2, 3, 4])
    np.testing.assert_array_equal(d.numpy(), [3, 6, 9, 12])
    for t in (b, c):
        with pytest.raises(RuntimeError, match="sinh"):
            t.numpy()
    failing()
    np.testing.assert_allclose(torch.sinh(a).numpy(), np.sinh([1, 2, 3, 4]), rtol=1e-6)


def test_what_was_to_be_written_to_stays_as_it_was(failing):
    x, y = torch.ones(3), torch.zeros(3)
    x.numpy  # noqa: B018
    x.sum().item()
    failing("sinh")
    y += 1
    x.mul_(2)
    y.copy_(torch.sinh(x))
    x.add_(torch.sinh(x))
    with pytest.raises(RuntimeError, match="sinh"):
        x.sum().item()
    np.testing.assert_array_equal(x.numpy(), [2, 2, 2])
    np.testing.assert_array_equal(y.numpy(), [1, 1, 1])


def test_overwritten_unread(failing):
    y = torch.full((3,), 7.0)
    y.sum().item()
    failing("sinh")
    y.copy_(torch.sinh(torch.ones(3)))
    with pytest.raises(RuntimeError, match="sinh"):
        y.sum().item()
    np.testing.assert_array_equal(y.numpy(), [7, 7, 7])


def test_a_program_that_fails_as_a_whole_runs_by_steps(monkeypatch):
    def compile_code(*arguments):
        raise MemoryError

    x = torch.ones(40, 40)
    (x + 1).sum().item()
    program._programs.clear()
    for _ in range(2):  # the second time it is compiled
        with monkeypatch.context() as patch:
            patch.setattr(program, "compile_code", compile_code)
            y = x
            for _ in range(3):
                y = torch.tanh(y) + 1
            assert abs(y.sum().item() - 3135.58) < 1
    program._programs.clear()


def _training(seed=0, reads=True):
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, y = torch.randn(16, 64), torch.randint(0, 4, (16,))

    def step(x=x, y=y):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item() if reads else loss

    def state():
        found = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
        for name, p in model.named_parameters():
            for key, value in optimizer.state[p].items():
                found[f"{name}.{key}"] = value.numpy().copy()
        return found

    return step, state


def _equal(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[k], b[k]) for k in a)


def test_each_step_of_a_training_step(failing):
    step, _ = _training()
    step(), step()
    names = set()
    run = program.execute

    def noting(device, code, *rest):
        names.update(item.name for item in code if item.__class__ is not int)
        return run(device, code, *rest)

    program.execute = noting
    try:
        step()
    finally:
        program.execute = run
    assert len(names) >= 8, names
    for name in sorted(names):
        failing()
        step, state = _training()
        step()
        before = state()
        failing(name)
        try:
            step()
        except RuntimeError as error:
            assert name in str(error)  # noqa: PT017
        else:
            assert name == "view"
            continue
        failing()
        want, after = _training()
        want(), want()
        assert _equal(state(), before), name  # after the loss's value, too, which its gradient does not need
        step()
        for key, value in after().items():
            np.testing.assert_allclose(state()[key], value, rtol=1e-5, atol=1e-6, err_msg=f"{name} {key}")


def test_an_interrupt_that_jax_swallows(monkeypatch):
    """It comes where JAX asks whether a length is a number, and takes everything that is raised for a no."""
    monkeypatch.setattr(program, "_prefers_steps", lambda *_: False)
    monkeypatch.setattr(program, "_comes_first", lambda *_: False)
    monkeypatch.setattr(background, "ENABLED", False)
    monkeypatch.setattr(short_traces, "_MOST_STEPS", 0)
    program._programs.clear()
    x, interrupts = torch.arange(7.0), 0

    def watch(frame, *_):
        caller = frame.f_back
        is_there = frame.f_code.co_name == "is_constant_dim" and caller.f_code.co_filename.endswith("mlir.py")
        return interrupted if is_there else None

    def interrupted(frame, event, _):
        nonlocal interrupts
        if event == "line" and "operator.index" in linecache.getline(frame.f_code.co_filename, frame.f_lineno):
            interrupts += 1
            raise KeyboardInterrupt  # ends the tracing, too
        return interrupted

    y = (x * 2 + 0.5).sin().exp()
    outer = sys.gettrace()
    sys.settrace(watch)
    try:
        with pytest.raises(KeyboardInterrupt):
            y.sum().item()
    finally:
        sys.settrace(outer)
    assert interrupts == 1
    np.testing.assert_allclose(y.numpy(), np.exp(np.sin(np.arange(7) * 2 + 0.5)), rtol=1e-5)


def test_out_of_memory_caught_and_a_smaller_batch_tried():
    step, state = _training()
    step()
    before = state()
    big = torch.zeros(1, 64).expand(10**12, 64)
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator: can't allocate memory"):
        step(big, torch.zeros(1, dtype=torch.long).expand(10**12))
    assert _equal(state(), before)
    step()
    want, after = _training()
    want(), want()
    for key, value in after().items():
        np.testing.assert_allclose(state()[key], value, rtol=1e-5, atol=1e-6)


def test_hooks_that_raise():
    w = torch.nn.Parameter(torch.ones(3))
    (w * 2).sum().backward()
    grad = w.grad.clone()

    def hook(g):
        raise ValueError("no")

    u = w * 3
    u.register_hook(hook)
    with pytest.raises(ValueError, match="no"):
        u.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), grad.numpy())
    assert torch.is_grad_enabled()
    np.testing.assert_array_equal(w.detach().numpy(), [1, 1, 1])


def test_custom_op_that_raises():
    fails = [True]

    @torch.library.custom_op("failures::shaky", mutates_args=())
    def shaky(x: torch.Tensor) -> torch.Tensor:
        if fails[0]:
            raise ValueError("shaky")
        return torch.from_numpy(np.exp(x.numpy()))

    @shaky.register_fake
    def _(x):
        return torch.empty_like(x)

    weight = torch.ones(40, 200)
    weight += 1

    def change(x):
        weight.mul_(2)
        return shaky(x) + weight

    with pytest.raises(ValueError, match="shaky"):
        change(torch.ones(40, 200))
    assert weight[0, 0].item() == 4
    compiled = torch.compile(change)
    fails[0] = False
    compiled(torch.ones(40, 200))
    compiled(torch.ones(40, 200))
    assert weight[0, 0].item() == 16
    fails[0] = True
    with pytest.raises((ValueError, RuntimeError), match="shaky"):
        compiled(torch.ones(40, 200)).sum().item()
    assert weight[0, 0].item() in (16, 32)
    fails[0] = False
    before = weight[0, 0].item()
    compiled(torch.ones(40, 200)).sum().item()
    assert weight[0, 0].item() == before * 2


def test_failures_hold_no_memory(failing):
    failing("sinh")
    for _ in range(3):
        t = torch.ones(50)
        with pytest.raises(RuntimeError):
            torch.sinh(t + 1).sum().item()
    gc.collect()
    count = len(gc.get_objects())
    for _ in range(50):
        t = torch.ones(50)
        with pytest.raises(RuntimeError):
            torch.sinh(t + 1).sum().item()
    gc.collect()
    assert len(gc.get_objects()) < count + 200


def test_a_compiled_call_for_which_memory_does_not_suffice(failing, monkeypatch):
    """At its first call: what was recorded is taken apart there, not where the weights are read."""
    def no_memory(*_, **__):
        def program(*_):
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1234567 bytes.")
        return program

    step, state = _training(reads=False)
    step()
    before = state()
    compiled = torch.compile(step)
    with monkeypatch.context() as patch:
        patch.setattr(lowering.Lowered, "_compiled", no_memory)
        failing("cross_entropy", "linear")
        with pytest.raises(RuntimeError, match="DefaultCPUAllocator.*: you tried to allocate 1234567 bytes"):
            compiled()
        assert _equal(state(), before)
    failing()
    compiled()
    want, after = _training()
    want(), want()
    for key, value in after().items():
        np.testing.assert_allclose(state()[key], value, rtol=1e-5, atol=1e-6)


def test_compiled_programs_know_what_they_need(monkeypatch):
    monkeypatch.setattr(program, "_LARGE", 1 << 10)
    monkeypatch.setattr(program.host_memory, "available", lambda: 1 << 10)
    f = torch.compile(lambda x: (x.exp() + 1).sum())
    f(torch.ones(100, 100))
    assert f.events[0].captured.forward.may_fail()


def test_what_raises_keeps_no_frames(failing):
    """Frames hold what lies in their variables: a step's results, of which there may be more than memory for."""
    failing("sinh")
    y = torch.sinh(torch.ones(30) + 1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="sinh"):
            y.numpy()
        error = y._ftorch_storage.error
        assert error.__traceback__ is None and error.__context__ is None


def test_kernels_on_the_host_run_out_of_memory_in_pytorchs_words():
    oracle = pytest.importorskip("torch")
    errors = []
    for library in (torch, oracle):
        with pytest.raises(RuntimeError) as raised:
            library.bincount(library.tensor([10**13]))
        errors.append((type(raised.value), str(raised.value).splitlines()[0]))
    assert errors[0] == errors[1]


_FINALIZERS = """
import gc
import jax
import jax.numpy as jnp
import ftorch as torch

calls, right = 0, 0

class Cycle:
    def __init__(self):
        self.me = self

    def __del__(self):
        global calls, right
        calls += 1
        if calls % 3 == 0:
            function = lambda x: jnp.sin(x * calls + 1).sum(0)
            right += jax.eval_shape(function, jax.ShapeDtypeStruct((2 + calls, 3), "float32")).shape == (3,)
        Cycle()

gc.set_threshold(37, 2, 2)
Cycle(), Cycle()
for n in range(40):
    jax.jit(lambda x: jax.nn.softmax((x @ x.T) + n).sum()).trace(jnp.ones((3, 4)))
gc.set_threshold(0)
print(calls > 100, right == calls // 3, flush=True)
"""


def test_jax_traces_in_collections_that_begin_while_it_traces():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)  # with a folder it takes longer until memory is overwritten
    environment["FTORCH_CACHE_DIR"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", _FINALIZERS + "import os; os._exit(0)"], capture_output=True, text=True, timeout=120,
        env=environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True\n", "")


def test_programs_that_jax_is_busy_with_are_called_again(monkeypatch):
    """The handler of a signal may come as JAX begins to trace a program, and need it for a value of another trace's."""
    compile_code, calls = program.compile_code, []

    def made(code, *args):
        compiled = compile_code(code, *args)

        def function(*operands):
            calls.append(len(calls))
            if len(calls) == 1:
                raise RecursionError("Recursively calling jit: as JAX says it")
            return compiled.function(*operands)

        return compiled._replace(function=function)

    monkeypatch.setattr(host_tier, "ENABLED", False)
    monkeypatch.setattr(program, "compile_code", made)
    x = torch.ones(3, 17, 5, dtype=torch.float64)
    assert ((x * 3) + x).sum().item() == 1020
    assert calls == [0, 1]


def test_backwards_of_which_nothing_is_recorded_leave_nothing():
    layer, x = torch.nn.Linear(4, 4, device="meta"), torch.ones(3, 4, device="meta")
    torch.ones(3).add(1).sum().item()  # so that what other tests recorded has run
    kept = []
    for _ in range(5):
        layer(x).sum().backward()
        kept.append(len(trace_of_thread.cpu.replaced.get(UNITS, ())))
    assert max(kept) <= 1
