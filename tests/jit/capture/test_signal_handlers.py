"""Handlers of signals that compute while a function is captured: neither they nor the program notice each other."""

from __future__ import annotations

import os
import random
import signal
import threading
import traceback

import pytest

import ftorch as torch
from ftorch.eager.core import jax_internals
from ftorch.eager.native import waiting
from tests.interrupting import count, interrupt


class _Step:
    """A new compiled step of a small network."""

    def __init__(self, **settings):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)).double()
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        x, y = torch.randn(5, 4).double(), torch.randint(0, 2, (5,))

        def step():
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        self.step = torch.compile(step, **settings)

    def rest(self, first):
        """What it gives, the first call included."""
        losses = [first, self.step().item(), self.step().item()]
        return losses + [p.detach().sum().item() for p in self.model.parameters()]


@torch.enable_grad()
def _compute(_):
    x = torch.ones(3, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def _look(step):
    assert all(torch.isfinite(p).all() for p in step.model.parameters())


_total = torch.zeros(())


def _record(_):
    _total.add_(1)  # nobody looks yet


@pytest.mark.parametrize("handle", [_compute, _look, _record], ids=lambda f: f.__name__)
@pytest.mark.parametrize("settings", [{}, {"backend": "eager"}], ids=["program", "graph"])
def test_handlers_at_places_of_a_capture(handle, settings):
    step = _Step(**settings)
    want = step.rest(step.step().item())
    step = _Step(**settings)
    total = count(lambda: step.step().item())
    calls, failures = 0, []

    def on_signal(*_):
        nonlocal calls
        calls += 1
        try:
            handle(step)
        except Exception:  # noqa: BLE001
            failures.append("".join(traceback.format_stack(limit=60)) + traceback.format_exc())
        signal.signal(signal.SIGINT, on_signal)  # as old programs do

    _total.zero_()
    outer = signal.signal(signal.SIGINT, on_signal)
    try:
        for place in random.Random(0).sample(range(1, total + 1), 24):
            step, found = _Step(**settings), []
            where = interrupt(lambda step=step, found=found: found.append(step.step().item()), place)
            assert signal.getsignal(signal.SIGINT) is on_signal, place
            if where is None:  # else it came where a function is entered, where the tracer raises itself
                assert step.rest(*found) == pytest.approx(want, rel=1e-9), place
    finally:
        signal.signal(signal.SIGINT, outer)
    assert not failures, "\n".join(failures)
    assert calls >= 6, total
    if handle is _record:
        assert _total.item() == calls


class _LongCompilation:
    """Makes the next work beside the main thread last until a signal's handler has run, which comes meanwhile."""

    def __init__(self, monkeypatch):
        self.ended, self.came_in_time, self.begun = threading.Event(), [], 0
        run = waiting._Work.run

        def slow(work):
            self.begun += 1
            if self.begun == 1:
                os.kill(os.getpid(), signal.SIGALRM)
                self.came_in_time.append(self.ended.wait(30))
            run(work)

        monkeypatch.setattr(waiting._Work, "run", slow)


@pytest.fixture
def at_alarm():
    outer = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    yield lambda handler: signal.signal(signal.SIGALRM, handler)
    signal.signal(signal.SIGALRM, outer)


def _write(step):
    with torch.no_grad():
        step.model[2].bias += 0


@pytest.mark.parametrize("handle", [_compute, _look, _record, _write], ids=lambda f: f.__name__)
def test_handlers_run_while_a_capture_is_compiled(handle, at_alarm, monkeypatch):
    with jax_internals.without_cache():
        step = _Step()
        want = step.rest(step.step().item())
        _total.zero_()
        step, failures = _Step(), []
        compilation = _LongCompilation(monkeypatch)

        def on_signal(*_):
            try:
                handle(step)
            except Exception as error:  # noqa: BLE001
                failures.append(repr(error))
            finally:
                compilation.ended.set()

        at_alarm(on_signal)
        assert step.rest(step.step().item()) == pytest.approx(want, rel=1e-9)
    assert compilation.came_in_time == [True] and not failures
    if handle is _record:
        assert _total.item() == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
def test_handlers_end_the_compilation_of_a_capture(error, at_alarm, monkeypatch):
    with jax_internals.without_cache():
        step = _Step()
        want = step.rest(step.step().item())
        step = _Step()
        compilation = _LongCompilation(monkeypatch)

        def on_signal(*_):
            compilation.ended.set()
            raise error

        at_alarm(on_signal)
        with pytest.raises(error):
            step.step()
        # What had been recorded is computed without the program.
        assert step.rest(want[0]) == pytest.approx(want, rel=1e-9)
    assert compilation.came_in_time == [True]
