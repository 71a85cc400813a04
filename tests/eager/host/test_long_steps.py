"""Steps of NumPy's that take long run beside the thread that waits: it is interrupted at once, and results are the same."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time

import numpy as np
import pytest

import ftorch as torch
from ftorch.eager import native
from ftorch.eager.host import RULES, long_steps
from ftorch.eager.native import waiting

pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


class _Sent(BaseException):
    """What another thread sends."""


@pytest.fixture
def at_alarm():
    outer = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    yield lambda handler: signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, outer)


def _raise(*_):
    raise KeyboardInterrupt


class _Slow:
    """Makes a step wait until it is let go, and says when it has begun; then a signal comes, if wanted."""

    def __init__(self, monkeypatch, alarm=0.05):
        self.begun, self.ends, self.threads = threading.Event(), threading.Event(), []
        quietly = long_steps._quietly

        def slow(*args):
            self.threads.append(threading.current_thread())
            self.begun.set()
            if alarm:
                signal.setitimer(signal.ITIMER_REAL, alarm)
            assert self.ends.wait(60)
            return quietly(*args)

        monkeypatch.setattr(long_steps, "_quietly", slow)


def _long():
    x = torch.eye(600, dtype=torch.float64) * 2
    x[0, 0].item()
    return x


def _value(x):
    return (x @ x)[0, 0]


def test_a_signal_ends_the_wait(monkeypatch, at_alarm):
    """Values are computed when they are wanted again; the state that was recorded with them is not lost."""
    x, total = _long(), torch.zeros(())
    with monkeypatch.context() as patch:
        slow = _Slow(patch)
        at_alarm(_raise)
        total += 1
        y = _value(x) + total
        with pytest.raises(KeyboardInterrupt):
            y.item()
        assert slow.begun.is_set() and slow.threads[0] is not threading.current_thread()
        assert not slow.ends.is_set()  # nobody waited for it
        slow.ends.set()
        slow.threads[0].join(60)
    assert (total.item(), y.item()) == (1, 5)


def test_an_exception_of_another_thread_ends_the_wait(monkeypatch):
    x, seen = _long(), []
    with monkeypatch.context() as patch:
        slow = _Slow(patch, alarm=0)

        def work():
            try:
                seen.append(_value(x).item())
            except _Sent:
                seen.append(_Sent)

        thread = threading.Thread(target=work)
        thread.start()
        assert slow.begun.wait(60)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Sent))
        thread.join(60)
        slow.ends.set()
        assert seen == [_Sent]
    assert _value(x).item() == 4


def test_handlers_compute_meanwhile(monkeypatch, at_alarm):
    x, w, seen = _long(), torch.arange(6.0).reshape(2, 3), []
    assert w.sum().item() == 15  # else the handler would compute what was recorded with it, the long step, too
    with monkeypatch.context() as patch:
        slow = _Slow(patch)

        def compute(*_):
            seen.append((w @ w.t() + 1).sum().item())
            slow.ends.set()

        at_alarm(compute)
        y = _value(x)
        assert y.item() == 4
    assert seen == [87]


def test_a_handler_that_forks(monkeypatch, at_alarm):
    """The child has no thread that works, and multiplies itself."""
    x, parent, children = _long(), os.getpid(), []
    with monkeypatch.context() as patch:
        slow = _Slow(patch)

        def fork(*_):
            slow.ends.set()
            child = os.fork()
            if child:
                children.append(child)

        at_alarm(fork)
        y, code = _value(x), 1
        try:
            code = int(y.item() != 4)
        finally:
            if os.getpid() != parent:
                os._exit(code)
        assert code == 0 and len(children) == 1
        deadline = time.time() + 60
        while not (done := os.waitpid(children[0], os.WNOHANG))[0]:
            if time.time() > deadline:
                os.kill(children[0], signal.SIGKILL)
            time.sleep(0.01)
        assert os.waitstatus_to_exitcode(done[1]) == 0


def test_what_a_step_raises_is_raised(monkeypatch):
    def fails(*_, **__):
        raise MemoryError

    x = _long()
    with monkeypatch.context() as patch:
        patch.setattr(long_steps, "_quietly", fails)
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            _value(x).item()
    assert _value(x).item() == 4


def test_short_steps_stay_in_their_thread(monkeypatch):
    def refuse(*_):
        raise AssertionError

    monkeypatch.setattr(long_steps, "beside", refuse)
    assert torch.sort(torch.tensor([3.0, 1.0, 2.0]))[0].tolist() == [1, 2, 3]
    assert (torch.ones(3, 3).double() @ torch.ones(3, 3).double()).sum().item() == 27


def test_every_entry_is_a_rule_and_values_are_the_same(monkeypatch):
    assert set(long_steps.LEAST) <= set(RULES)
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((300, 300)))
    big = torch.tensor(rng.standard_normal(1 << 21))
    at = torch.tensor(rng.integers(0, 1 << 21, 1 << 21))

    def results():
        return [
            r.numpy() for r in (
                x @ x, torch.linalg.svd(x)[1], torch.linalg.inv(x), torch.linalg.eigvals(x).abs().sum(),
                torch.fft.fft(big).abs(), big.cumsum(0), big[at], torch.zeros_like(big).index_add(0, at, big),
                torch.sort(big)[1], torch.lgamma(big), torch.exp(torch.complex(big, big)).abs(),
            )
        ]

    calls = []
    beside = waiting.beside
    monkeypatch.setattr(long_steps, "beside", lambda *given: (calls.append(1), beside(*given))[1])
    found = results()
    assert len(calls) >= 7
    monkeypatch.setattr(long_steps, "_beside", lambda run, operands: run(*operands))
    for a, b in zip(found, results(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_gathered_counts(monkeypatch):
    """A few rows of a large table are there before a thread of its own has started."""
    table = torch.arange(float(long_steps._PASSES)).reshape(-1, 64)
    table[0, 0].item()
    calls = []
    monkeypatch.setattr(long_steps, "_beside", lambda run, operands: (calls.append(1), run(*operands))[1])
    for n in range(5, 15):
        assert table[torch.arange(n) * 2][:, 3].tolist() == [128 * i + 3 for i in range(n)]
    assert not calls


@pytest.mark.skipif(native.module is None, reason="a loop of the kernels")
@pytest.mark.parametrize("gradient", [False, True])
def test_the_loop_of_an_lstm_is_given_up(gradient, at_alarm):
    """By the thread that waits and by those that help; in the processors' time: others may keep the machine busy."""
    lstm, x = torch.nn.LSTM(32, 256), torch.randn(12000, 8, 32)  # a kernel takes several times what lies between two looks
    x[0, 0, 0].item()

    def run():
        if not gradient:
            with torch.no_grad():
                return lstm(x)[0].sum().item()
        lstm.zero_grad()
        lstm(x)[0].sum().backward()
        return lstm.weight_hh_l0.grad.sum().item()

    run()
    start, used = time.perf_counter(), time.process_time()
    want = run()
    whole, cost = time.perf_counter() - start, time.process_time() - used
    at_alarm(_raise)
    shares = []
    for _ in range(8):
        start, used = time.perf_counter(), time.process_time()
        signal.setitimer(signal.ITIMER_REAL, whole * 0.3)
        try:
            run()
            whole, cost = min(whole, time.perf_counter() - start), min(cost, time.process_time() - used)
        except KeyboardInterrupt:
            shares.append((time.process_time() - used) / cost)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if shares and shares[-1] < 0.7:
            break
    assert shares and min(shares) < 0.8, (shares, whole)
    np.testing.assert_allclose(run(), want, rtol=1e-4)


def test_an_exception_of_another_thread_ends_a_kernel():
    x, seen = torch.rand(4000, 4000), []
    _value = (x @ x)[0, 0].item()

    def work(done):
        try:
            for _ in range(40):
                (x @ x)[0, 0].item()
        except _Sent:
            done.append(time.perf_counter())

    thread = threading.Thread(target=work, args=(seen,))
    thread.start()
    time.sleep(0.3)
    start = time.perf_counter()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Sent))
    thread.join(120)
    assert seen and not thread.is_alive() and seen[0] > start
    assert (x @ x)[0, 0].item() == _value
