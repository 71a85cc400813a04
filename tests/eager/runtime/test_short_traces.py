"""Short traces that come again run on the host tier, with the values of any other way."""

from __future__ import annotations

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from ftorch.eager import native
from ftorch.eager.runtime import executor, host_tier, short_traces
from ftorch.eager.runtime.trace import threads

PROGRAMS = {
    "comparison": lambda lib, x: (x.sum() * 1.1 < 50).item(),
    "numbers": lambda lib, x: (((x[0] * 1.5 + 2) * 3 - 1) / 2).sum().item(),
    "index": lambda lib, x: sum(x[i, i].item() for i in range(3)),
    "argmax": lambda lib, x: x.argmax(1).tolist(),
    "extrema": lambda lib, x: [v.tolist() for v in x.max(0)],
    "policy": lambda lib, x: (x @ x.T).tanh().softmax(-1).tolist(),
    "gather": lambda lib, x: x[lib.tensor([2, 0, 0])].tolist(),
    "gradient": lambda lib, x: lib.autograd.grad((x.requires_grad_() ** 3).sum(), x)[0].tolist(),
    "writes": lambda lib, x: (x.clone().mul_(2).add_(1)[1:] + 1).tolist(),
    "integers": lambda lib, x: (lib.arange(6) // 4 + 1).tolist(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    array = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    expected = PROGRAMS[name](reference, reference.tensor(array))
    for _ in range(short_traces._TRIALS + 4):
        np.testing.assert_allclose(PROGRAMS[name](torch, torch.tensor(array)), expected, rtol=2e-5)


@pytest.mark.skipif(not host_tier.ENABLED or not executor.DEFERRED, reason="there is no host tier")
def test_nothing_is_compiled():
    def run(n):
        x = torch.tensor(float(n))
        while x < 50:
            x = x * 1.1
        return x.item()

    for n in range(3):
        run(n + 1)
    before = executor.stats.compilations
    for n in range(40):
        run(n + 1)
    assert executor.stats.compilations == before


def test_a_step_that_fails_on_the_host_runs_otherwise():
    x = torch.ones(3)
    short_traces.known.clear()
    for _ in range(4):
        (x + 1).sum().item()
    (short,) = [s for key, s in short_traces.known.items() if s.run and key[0].name == "add"]

    def broken(*_):
        raise MemoryError

    short.run = broken
    found = (x + 1).sum().item()  # not in an assert: pytest would hold what is between, which makes another trace
    assert found == 6
    assert short.run is False


in_c = pytest.mark.skipif(not native.available, reason="the kernels in C++ are not built")


def _known_often(x, factor):
    """The short trace of a program that ran so often that C runs it."""
    short_traces.known.clear()
    for _ in range(40):
        (x * factor + 3).sum().item()
    (short,) = [s for key, s in short_traces.known.items() if s.run and key[0].name == "mul"]
    return short


@in_c
def test_what_came_often_runs_in_c():
    x = torch.arange(5.0)
    _known_often(x, 2)
    y = (x * 7 + 3).sum()
    assert native.module.run_short(threads.cpu)
    assert y._ftorch_storage.trace is None
    assert threads.cpu.steps == 0 and threads.cpu.running == ()
    assert y.item() == 85
    z, w = x * 7, (x * 7 + 3).sum()  # another trace
    assert not native.module.run_short(threads.cpu)
    assert w.item() == 85 and z[1].item() == 7


@in_c
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_errors_in_c_leave_the_trace_as_python_does(error):
    x = torch.arange(5.0)
    short = _known_often(x, 2)
    works, calls = short.run, []

    def broken(*_):
        calls.append(threads.cpu.running)
        raise error

    short.run = broken
    y = (x * 7 + 3).sum()
    if error is MemoryError:
        assert y.item() == 85
        assert short.run is False
    else:
        with pytest.raises(KeyboardInterrupt):
            y.item()
        short.run = works
        assert y.item() == 85
    assert len(calls) == 1 and len(calls[0]) == 1
    assert threads.cpu.running == ()


@in_c
def test_what_computes_inside_of_a_run_in_c_has_its_values():
    x = torch.arange(5.0)
    short = _known_often(x, 2)
    works, seen = short.run, []

    def interrupted(*arguments):
        short.run = works
        seen.append((y.item(), (x * 5 + 3).sum().item()))  # as a signal's handler may
        return works(*arguments)

    short.run = interrupted
    y = (x * 7 + 3).sum()
    assert y.item() == 85
    assert seen == [(85, 65)]
    assert threads.cpu.running == ()


def test_traces_that_come_once_keep_nothing(monkeypatch):
    """Most of new sizes never come again: neither they nor their plans are kept, and marks of them are bounded."""
    monkeypatch.setattr(short_traces, "known", {})
    monkeypatch.setattr(short_traces, "_once", {})
    monkeypatch.setattr(short_traces, "_MOST", 16)
    for n in range(2000, 2040):
        assert (torch.ones(n) * 2).sum().item() == 2 * n
    assert not short_traces.known and 0 < len(short_traces._once) <= 16
    for _ in range(2):
        assert (torch.ones(2039) * 2).sum().item() == 2 * 2039
    assert len(short_traces.known) == 1


def test_traces_of_a_class_wait_for_a_function(monkeypatch):
    """To make one costs as much as it saves in some twenty runs, and the class has one for all sizes."""
    made, prepare = [], short_traces._prepare
    monkeypatch.setattr(short_traces, "_prepare", lambda *given: (made.append(1), prepare(*given))[1])
    sizes = [*range(1003, 1010)]
    for _ in range(6):
        for n in sizes:
            assert ((torch.ones(n) * 3 - 1).exp().sum() * 0 + n).item() == n
    assert not made
    for _ in range(2 * short_traces._WAITS):
        assert ((torch.ones(1009) * 3 - 1).exp().sum() * 0 + 1009).item() == 1009
    assert made
