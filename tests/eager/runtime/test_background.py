"""Programs compiled on a thread of their own while the thread that computes goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import jax
import numpy as np
import pytest

import ftorch as torch
from ftorch.eager.core import jax_internals, lock_sharing
from ftorch.eager.core.device import CPU
from ftorch.eager.core.jax_scope import scope
from ftorch.eager.core.suppressed_warnings import quiet
from ftorch.eager.runtime import background, compilation, program
from ftorch.eager.runtime.counters import stats

SIZES = 700, 900, 1100  # the class is known from the second on


@pytest.fixture
def eager_compiler(monkeypatch):
    """What ran once is worth compiling, beside."""
    monkeypatch.setattr(background, "ENABLED", True)
    monkeypatch.setattr(program, "_COMPILE_PROGRAM", 0.0)
    monkeypatch.setattr(program, "_COMPILE_PROGRAM_STEP", 0.0)
    yield
    background.wait()


@pytest.fixture
def gate(monkeypatch):
    """An event that the compiling thread waits for before each job."""
    event, run = threading.Event(), background.Job.run

    def waiting(self):
        assert event.wait(60)
        run(self)

    monkeypatch.setattr(background.Job, "run", waiting)
    yield event
    event.set()


def _step(weight, size):
    x = torch.linspace(-1, 1, 48 * size).view(size, 48)
    h = (x @ weight).tanh()
    loss = ((h * h).mean(1) - h.exp().sum(1).sqrt()).sum()
    loss.backward()
    weight.data -= 1e-3 * weight.grad
    weight.grad = None
    return loss.item()


def _weight():
    return (torch.arange(48 * 64).view(48, 64).float() / 5000).requires_grad_()


def _expected(sizes):
    weight = _weight()
    return [_step(weight, size) for size in sizes], weight.detach().numpy()


def test_the_host_goes_on_until_the_program_is_there(eager_compiler, gate):
    sizes = [*SIZES, *[SIZES[-1]] * 12]
    weight, found = _weight(), []
    compiled, entered = stats.compilations, threading.get_ident()
    for size in sizes[:-4]:
        found.append(_step(weight, size))
    hits = stats.hits
    assert stats.compilations > compiled and background._is_working()
    gate.set()
    background.wait()
    for size in sizes[-4:]:
        found.append(_step(weight, size))
    assert stats.hits > hits and threading.get_ident() == entered
    expected, last = _expected(sizes)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(weight.detach().numpy(), last, rtol=1e-4, atol=1e-6)


def test_calling_what_was_compiled_beside_compiles_nothing(eager_compiler):
    function = compilation.jitted(
        lambda kept, given, ints, floats: [kept[0] * 2 + given[0]], donates=True, device=CPU, steps=1
    )
    kept, given = np.ones(50, np.float32), np.ones(50, np.float32)
    with scope():
        job = background.compile_beside(function, [background.structure_of(kept)], [background.structure_of(given)], None, None)
    background.wait()
    assert job.is_over
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: compiled.append(name))
    try:
        for array in (given, jax.device_put(given), given * 1):
            with scope():
                (result,) = function([kept], [array], None, None)
            np.testing.assert_array_equal(result, np.full(50, 3, np.float32))
    finally:
        jax.monitoring.clear_event_listeners()
    assert not [name for name in compiled if "backend_compile" in name]


def test_what_cannot_be_compiled_raises_where_it_is_called(eager_compiler):
    def failing(x):
        raise ValueError("no such program")

    function = jax.jit(failing)
    job = background.compile_beside(function, jax.ShapeDtypeStruct((3,), np.float32))
    background.wait()
    assert job.poll()
    with pytest.raises(ValueError, match="no such program"):
        function(np.zeros(3, np.float32))
    assert jax_internals.is_top_level()


def test_the_queue_is_bounded(eager_compiler, gate):
    function = jax.jit(lambda x: x + 1)
    operand = jax.ShapeDtypeStruct((3,), np.float32)
    jobs = [background.compile_beside(function, operand) for _ in range(background._MOST + 5)]
    assert jobs[0] is not None and jobs[-1] is None
    gate.set()
    background.wait()
    assert all(job.is_over for job in jobs if job is not None) and background._worker is None


def test_other_settings_of_jax_are_not_compiled_for(eager_compiler, monkeypatch):
    traced = []

    def function(x):
        traced.append(threading.current_thread().name)
        return x + 1

    function = jax.jit(function)
    with jax.default_matmul_precision("float32"):
        job = background.compile_beside(function, jax.ShapeDtypeStruct((3,), np.float32))
        background.wait()
        assert job.is_over and traced == []


def test_a_job_whose_thread_never_started_runs_when_it_is_asked_for(eager_compiler, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", lambda self: None)  # as an interrupt in the middle of it
        job = background.compile_beside(jax.jit(lambda x: x * 3), jax.ShapeDtypeStruct((3,), np.float32))
    assert not job.poll()
    background.wait()
    assert job.poll()


def test_no_thread_means_whoever_calls_compiles(eager_compiler, monkeypatch):
    def start(self):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        job = background.compile_beside(jax.jit(lambda x: x * 3), jax.ShapeDtypeStruct((3,), np.float32))
    assert job.poll()


def test_quiet_is_one_threads():
    inside, over = threading.Event(), threading.Event()

    def trace():
        with quiet():
            warnings.warn("of a kernel", stacklevel=1)
            inside.set()
            over.wait(60)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        thread = threading.Thread(target=trace)
        thread.start()
        assert inside.wait(60)
        warnings.warn("of the user", stacklevel=1)
        with warnings.catch_warnings(record=True) as others:  # a copy of the filters
            over.set()
            thread.join()
            warnings.warn("later", stacklevel=1)
        with quiet():
            warnings.warn("of a kernel", stacklevel=1)
        filters = list(warnings.filters)
    assert [str(w.message) for w in seen] == ["of the user"] and [str(w.message) for w in others] == ["later"]
    assert not any(entry[2].__name__ == "_InQuietThreads" for entry in filters)


def test_a_thread_rests_only_where_it_works_beside_others(monkeypatch):
    slept = []
    monkeypatch.setattr(lock_sharing.time, "sleep", slept.append)
    lock_sharing._own.since = 0.0
    lock_sharing.rest()
    assert not slept
    with lock_sharing.resting():
        lock_sharing.rest()
        end = time.perf_counter() + 5e-3
        while time.perf_counter() < end:
            pass
        lock_sharing.rest()
    lock_sharing.rest()
    assert len(slept) == 1 and slept[0] > 5e-3


_PROGRAM = """
import os, signal, sys, threading, time
import ftorch as torch
from ftorch.eager.runtime import background, program
program._COMPILE_PROGRAM = program._COMPILE_PROGRAM_STEP = 0.0

def step(size):
    x = torch.linspace(-1, 1, 48 * size).view(size, 48)
    for i in range(1, 40):
        x = (x * x + i).sin() - x.softmax(1)
    return x.sum().item()

def until_it_compiles():
    for size in (700, 900, *[1100] * 40):
        step(size)
        if background._is_working():
            return
    assert 0, "nothing was compiled"
"""


def _run(text):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FTORCH_COMPILE_THREAD": "1"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment["FTORCH_CACHE_DIR"] = "0"
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM + textwrap.dedent(text)], capture_output=True, text=True, timeout=120, env=environment
    )


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_the_interpreter_ends_while_it_compiles(delay):
    done = _run(f"until_it_compiles(); time.sleep({delay}); print('end', flush=True)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_a_forked_child_computes_and_an_interrupt_leaves_all_well():
    done = _run("""
    until_it_compiles()
    value = step(1100)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, .003)
        while True:
            step(1100)
    except KeyboardInterrupt:
        pass
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(60)
        os._exit(not (step(1100) == value and step(1000) and background._worker is None))
    assert os.waitpid(pid, 0)[1] == 0
    background.wait()
    assert abs(step(1100) / value - 1) < 1e-4 and abs(step(1100) / value - 1) < 1e-4
    print("well")
    """)
    assert done.returncode == 0 and done.stdout == "well\n", done.stdout + done.stderr


class _Taken(dict):
    """Entries that another thread takes just after they were seen: it runs the same program."""

    def __init__(self, compiled):
        super().__init__()
        self.other = compiled

    def _take(self, key):
        if super().__contains__(key) and super().__getitem__(key)[1].is_over:
            self.other[key] = super().pop(key)[0]

    def __contains__(self, key):
        found = super().__contains__(key)
        self._take(key)
        return found

    def get(self, key, default=None):
        found = super().get(key, default)
        self._take(key)
        return found


def test_threads_share_a_program_that_is_compiled_beside(eager_compiler, monkeypatch):
    made = program.Program.__init__

    def shared(self, *args):
        made(self, *args)
        self.compiling = _Taken(self.compiled)

    monkeypatch.setattr(program.Program, "__init__", shared)
    sizes = [*SIZES, *[SIZES[-1]] * 8]
    weight, found = _weight(), []
    for size in sizes:
        found.append(_step(weight, size))
        background.wait()
    monkeypatch.undo()
    np.testing.assert_allclose(found, _expected(sizes)[0], rtol=1e-5)


def test_nothing_is_made_for_a_full_queue(eager_compiler, gate, monkeypatch):
    function, operand = jax.jit(lambda x: x + 1), jax.ShapeDtypeStruct((3,), np.float32)
    while background.has_room():
        background.compile_beside(function, operand)
    made = []
    compile_code = program.compile_code
    monkeypatch.setattr(program, "compile_code", lambda *args: made.append(args) or compile_code(*args))
    weight, sizes = _weight(), [*SIZES, *[SIZES[-1]] * 6]
    compilations, found = stats.compilations, [_step(weight, size) for size in sizes]
    assert not made and stats.compilations == compilations
    gate.set()
    background.wait()
    np.testing.assert_allclose(found, _expected(sizes)[0], rtol=1e-5)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is given back by glibc's malloc_trim")
def test_what_compiling_leaves_is_given_back():
    done = _run("""
    from ftorch.eager.memory import host_memory
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(torch.randn(3, 8)), torch.randint(0, 4, (3,))).backward()
        optimizer.step()
        if background._is_working():
            break
    assert background._is_working()
    background.wait()
    before = host_memory._resident()
    host_memory.free_memory.give_back()
    print((before - host_memory._resident()) >> 20)
    """)
    assert done.returncode == 0 and int(done.stdout) < 12, done.stdout + done.stderr
