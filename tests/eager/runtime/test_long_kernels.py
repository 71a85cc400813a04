"""Signals that come while a kernel computes for long: their handlers run at once, and what they raise ends it."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import ftorch as torch
from ftorch.eager import native
from ftorch.eager.core import forking
from ftorch.eager.runtime import host_tier

pytestmark = [
    pytest.mark.skipif(native.module is None, reason="without kernels NumPy computes"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # what comes in a collection is dropped
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
]

_SIZE = 4000  # of a product that takes some half second on two cores: kernels look for signals every 50 ms


@pytest.fixture
def at_alarm():
    """Sets the handler of a timer's signal."""
    outer = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    yield lambda handler: signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, outer)


def _interrupt(*_):
    raise KeyboardInterrupt


def _early(make, look, attempts=6):
    """Whether a signal's handler that raises ends what takes long before half of it is computed, by the processors' time of
    the process: others may keep the machine busy. Gives the results that were interrupted."""
    ended, shares = [], []
    for _ in range(attempts):
        start, used = time.perf_counter(), time.process_time()
        look(make())
        whole, cost = time.perf_counter() - start, time.process_time() - used
        result = make()
        used = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, whole / 8)
        try:
            look(result)
        except KeyboardInterrupt:
            ended.append(result)
            shares.append((time.process_time() - used) / cost)
            if shares[-1] < 0.6:
                return ended
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    raise AssertionError(f"it was never interrupted before it had ended: it had computed {shares} of the whole")


def _matrix(seed=0):
    x = torch.rand(_SIZE, _SIZE, generator=torch.Generator().manual_seed(seed)) / _SIZE
    x[0, 0].item()
    return x


def _first(x):
    return x.flatten()[0].item()


def _chain(x):
    """Elementwise steps that take three times the 200 ms after which who waits for a program looks for signals."""
    y = x.sin() + x.exp()
    for _ in range(16):
        y = y.cos().tanh().exp()
    return y


def _batches(x):
    """Batches of products that take as long."""
    y = torch.bmm(x.view(4, -1, _SIZE), x.view(4, -1, _SIZE).mT.contiguous())
    for _ in range(4):
        y = y @ x[:1000] @ x[:, :1000]
    return y


def _makers():
    x = _matrix()
    few = torch.rand(64, 64, 120, 120)
    weight = torch.rand(64, 64, 3, 3)
    many = torch.rand(60_000_000)
    return {
        "product": lambda: x @ x,
        "batches": lambda: _batches(x),
        "convolution": lambda: torch.nn.functional.conv2d(few, weight),
        "elementwise": lambda: _chain(many),
        "sum": lambda: _chain(many).sum(),
    }


@pytest.mark.parametrize("which", ["product", "batches", "convolution", "elementwise", "sum"])
def test_a_kernel_is_given_up(which, at_alarm):
    """And what it was to give is computed when it is wanted again."""
    make = _makers()[which]
    expected = _first(make())
    at_alarm(_interrupt)
    for result in _early(make, _first):
        assert _first(result) == expected


def test_a_handler_that_returns_lets_it_go_on(at_alarm):
    x, seen, w = _matrix(), [], torch.arange(6.0).reshape(2, 3)
    expected = (x @ x).numpy()

    def compute(*_):
        seen.append((time.perf_counter(), (w @ w.t() + 1).sum().item(), _first(y)))

    at_alarm(compute)
    for _ in range(6):
        start = time.perf_counter()
        _first(x @ x)
        whole, y = time.perf_counter() - start, x @ x
        signal.setitimer(signal.ITIMER_REAL, whole / 8)
        start = time.perf_counter()
        np.testing.assert_array_equal(y.numpy(), expected)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if seen and seen[-1][0] - start < 1.6 * whole:  # it computes the product, too
            break
    else:
        raise AssertionError("the handler ran only when the product was there")
    assert {values[1:] for values in seen} == {(87.0, expected.flat[0])}


def test_what_was_recorded_before_is_not_lost(at_alarm):
    at_alarm(_interrupt)
    x, w, updated = _matrix(), torch.zeros(1000), 0

    def make():
        nonlocal updated
        w.add_(1)
        updated += 1
        return x @ x

    results = _early(make, _first)
    assert w.tolist() == [updated] * 1000
    assert len({_first(y) for y in results} | {_first(x @ x)}) == 1


def test_writes_in_place_are_whole(at_alarm):
    """What writes to memory that is there ends first."""
    at_alarm(_interrupt)
    x, other = torch.zeros(8_000_000), torch.ones(8_000_000)
    for attempt in range(12):
        try:
            signal.setitimer(signal.ITIMER_REAL, (attempt + 1) * 2e-3)
            x[2:] += other[2:]
            x[0].item()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        assert len(np.unique(x[2:].numpy())) == 1
        assert x[:2].tolist() == [0, 0]


@pytest.mark.parametrize("how", ["read", "step on the host"])
def test_waiting_for_a_compiled_program_is_interrupted(how, at_alarm):
    """XLA runs it to its end beside Python; what it was given away to is not lost."""
    at_alarm(_interrupt)
    x, state = _matrix(), torch.zeros(10)

    @torch.compile
    def step(x):
        y = x
        for _ in range(4):
            y = y @ x
        state.add_(1)
        return y

    calls = 0

    def make():
        nonlocal calls
        calls += 1
        return step(x)

    expected = [_first(make()) for _ in range(2)][1]
    results = []

    def look(_):
        results.append(make())
        if how == "read":
            _first(results[-1])
        else:
            results[-1][: 3 + len(results), :1].sum().item()  # of a new size: NumPy's

    _early(lambda: None, look)
    assert {_first(y) for y in results} == {expected}
    assert state.tolist() == [calls] * 10


def test_beside_other_threads(at_alarm):
    at_alarm(_interrupt)
    x, other, values, stop = _matrix(), _matrix(1), [], threading.Event()
    want = _first(other[:600] @ other)

    def work():
        while not stop.is_set():
            values.append(_first(other[:600] @ other))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        results = _early(lambda: x @ x, _first, 10)
    finally:
        stop.set()
        thread.join()
    assert set(values) == {want}
    assert {_first(y) for y in results} == {_first(x @ x)}


def test_in_a_child():
    """Where one thread computes."""
    x = _matrix()
    expected = _first(x @ x)

    def child():
        signal.signal(signal.SIGALRM, _interrupt)
        results = _early(lambda: x @ x, _first)
        assert {_first(y) for y in results} == {expected}

    assert _exit_code(os.fork(), child) == 0


def _exit_code(child, work=None, patience=300):
    """The exit code of a process that `os.fork` made, which does a work."""
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    deadline = time.time() + patience
    while time.time() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("it hangs")


def test_a_handler_that_forks(at_alarm):
    """The child has none of the threads that help: the kernel says so, and the next one computes."""
    x = _matrix()
    expected, parent, children = _first(x @ x), os.getpid(), []

    def fork(*_):
        child = os.fork()
        if child:
            children.append(child)

    at_alarm(fork)
    code = 1
    try:
        for _ in range(3):
            y = x @ x
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                value = _first(y)
            except RuntimeError:
                value = _first(y)
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert value == expected
            if os.getpid() != parent:
                code = 0
                break
    finally:
        if os.getpid() != parent:
            os._exit(code)
    assert children and [_exit_code(child) for child in children] == [0] * len(children)


def test_a_handler_that_forks_while_a_program_is_awaited(at_alarm, monkeypatch):
    """However long the program takes: in the child its thread would wait for what never comes."""
    monkeypatch.setattr(host_tier, "ENABLED", False)
    monkeypatch.setattr(forking, "PATIENCE", 0)
    x, parent, children = _matrix(), os.getpid(), []
    *_, expected = [_first((x @ x) @ x) for _ in range(4)]  # then it is compiled: the signal is to come while it computes

    def fork(*_):
        child = os.fork()
        if child:
            children.append(child)

    at_alarm(fork)
    y = (x @ x) @ x
    code = 1
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        code = int(_first(y) != expected)
    finally:
        if os.getpid() != parent:
            os._exit(code)
    assert not code and [_exit_code(child, patience=60) for child in children] == [0]
