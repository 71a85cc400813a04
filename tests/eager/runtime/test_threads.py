"""Threads that share models, record, run backward, compile, fail and are interrupted: none waits for ever."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import ftorch as torch
from ftorch.eager.core import jax_internals
from ftorch.eager.native import module
from ftorch.eager.runtime import trace as trace_module

_PATIENCE = 120  # s; a thread that takes longer hangs


def _in_threads(*functions):
    """Runs functions at the same time; gives their results, and raises what they raise."""
    results: list = [None] * len(functions)
    errors = []

    def run(i, function):
        try:
            results[i] = function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    return results


def _model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def test_values_cross_threads():
    x = torch.arange(4.0) * 2  # pending here
    (y,) = _in_threads(lambda: x + 1)  # pending there
    np.testing.assert_array_equal((y * x).numpy(), np.arange(4) * 2 * (np.arange(4) * 2 + 1.0))


def test_a_shared_model_gives_each_thread_its_results():
    model = _model()
    inputs = [torch.full((3, 8), float(i)) for i in range(6)]
    expected = [model(x).detach().numpy() for x in inputs]

    def use(x, want):
        for _ in range(30):
            np.testing.assert_allclose(model(x).detach().numpy(), want, rtol=1e-5, atol=1e-6)

    _in_threads(*[lambda x=x, want=want: use(x, want) for x, want in zip(inputs, expected)])


def test_gradients_of_threads_add_up():
    model = _model()
    x = torch.ones(3, 8)

    def work():
        for _ in range(10):
            model(x).sum().backward()

    model(x).sum().backward()
    once = [p.grad.numpy().copy() for p in model.parameters()]
    model.zero_grad()
    _in_threads(work, work, work)
    for p, g in zip(model.parameters(), once):
        np.testing.assert_allclose(p.grad.numpy(), 30 * g, rtol=1e-4)


def test_writes_to_shared_tensors():
    """Which write comes last is chance; that each is whole is not."""
    shared = torch.zeros(50)

    def write(value):
        for _ in range(200):
            shared.fill_(value)
            shared.mul_(1)
            found = shared.numpy().copy()  # others go on writing to that memory
            assert found.min() == found.max() and found[0] in (1, 2, 3), found

    shared.fill_(1)
    _in_threads(*[lambda v=v: write(v) for v in (1, 2, 3)])


def test_compiled_functions_of_threads():
    f = torch.compile(lambda x, y: torch.tanh(x @ y).sum(0))

    def work(size):
        x = torch.ones(size, 4) / 4
        for _ in range(10):
            np.testing.assert_allclose(f(x, torch.ones(4, 3)).numpy(), np.tanh([1.0] * 3) * size, rtol=1e-5)

    _in_threads(*[lambda n=n: work(n) for n in (2, 2, 3)])


def test_failures_stay_with_their_thread():
    x = torch.arange(5.0)

    def fails():
        for _ in range(30):
            try:
                torch.ones(3)[torch.arange(5) + 0].sum().item()
            except (IndexError, RuntimeError):
                continue
            raise AssertionError("this should have failed")

    def works():
        for _ in range(30):
            assert (x * 2).sum().item() == 20

    _in_threads(fails, works, works)


def _leads_to(error, kind):
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error is not None


@pytest.mark.parametrize("base", [Exception, BaseException])
def test_exceptions_sent_to_threads(base, monkeypatch):
    """``PyThreadState_SetAsyncExc``, as timeouts use it: it ends the thread, others go on, and what was shared is whole.

    Python itself drops what comes while it runs a weak reference's callback, and says so to ``sys.unraisablehook``: only
    then one is sent again.
    """
    model = _model()
    x = torch.ones(3, 8)
    want = model(x).sum().item()
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: dropped.append(report.exc_type))

    class Stop(base):
        pass

    with (
        jax_internals.without_cache()
    ):  # JAX takes an Exception that comes while it reads there for a failure of the cache
        for attempt in range(10):
            ready, ended = threading.Event(), []

            def work(ready=ready, ended=ended):
                try:
                    while True:
                        model(x).sum().backward()
                        ready.set()
                        model(x).sum().item()
                except BaseException as error:
                    ended.append(error)

            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            assert ready.wait(_PATIENCE)
            time.sleep(attempt * 7e-4)
            sent = len(dropped)
            while thread.is_alive():
                before = len(dropped)
                assert before == sent or dropped[-1] is Stop, dropped
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
                deadline = time.monotonic() + _PATIENCE
                while thread.is_alive() and len(dropped) == before and time.monotonic() < deadline:
                    thread.join(0.01)
                thread.join(0.05)
                assert not thread.is_alive() or len(dropped) > before, "an exception was lost"
            assert _leads_to(ended[0], Stop), ended
            assert model(x).sum().item() == pytest.approx(want, rel=1e-5)
            assert all(np.isfinite(p.grad.numpy()).all() for p in model.parameters())


_STARTS = """
import ctypes, os, sys, threading, time
from ftorch.eager.native.contexts import Worker

class Stop(BaseException):
    pass

def begin():
    while True:
        Worker(target=begun.append, args=(1,)).start()

def starter():
    made = threading.Thread(target=begin, daemon=True)
    made.start()
    return made

sys.unraisablehook = threading.excepthook = lambda _: None
begun = []
sys.setswitchinterval(1e-5)
thread, deadline = starter(), time.monotonic() + 60
while len(begun) < 1000 and time.monotonic() < deadline:
    if not thread.is_alive():
        thread = starter()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Stop))
    time.sleep(5e-4)
print(len(begun) >= 1000, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(module is None, reason="without the compiled kernels threads are Python's")
def test_threads_begin_whatever_comes():
    """Under Python 3.11 what is sent to a thread that starts another one may come in that one, and end it: then the first
    waits for ever."""
    done = subprocess.run(
        [sys.executable, "-c", _STARTS], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_threads_leave_nothing_behind():
    def work():
        return (torch.ones(3) + 1).sum().item()

    _in_threads(work)
    gc.collect()
    before = len(trace_module._all_traces)
    for _ in range(20):
        _in_threads(work)
    gc.collect()
    assert len(trace_module._all_traces) <= before
