"""Handlers of signals that compute while a function is captured: neither they nor the program notice each other."""

from __future__ import annotations

import random
import signal

import pytest

import ftorch as torch
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
        except Exception as error:  # noqa: BLE001
            failures.append(repr(error))
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
    assert not failures and calls >= 6, (calls, total)
    if handle is _record:
        assert _total.item() == calls
