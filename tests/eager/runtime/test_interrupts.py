"""A training step that is interrupted, at each place where Python can be: everything is as before a call or as after it.

``FTORCH_INTERRUPTS=1`` takes every place instead of a sample, ``FTORCH_INTERRUPTS=anywhere`` every instruction.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import ctypes
import functools
import gc
import os
import random
import signal
import sys
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest

import ftorch as torch
from ftorch.autograd import grad_mode
from ftorch.eager import native
from ftorch.eager.autograd import backward
from ftorch.eager.call import op as _op
from ftorch.eager.runtime import executor
from ftorch.eager.tensor import modes
from ftorch.jit.capture import state_watch
from tests.eager.runtime.interrupted_calls import CALLS, thread_state
from tests.interrupting import count, interrupt

_HOW = os.environ.get("FTORCH_INTERRUPTS", "")


class _Training:
    """A step of a small network with Adam, batch normalization's buffers and in-place operations."""

    def __init__(self, compiled, dtype):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(8, 16, bias=False),
            torch.nn.BatchNorm1d(16),
            torch.nn.ReLU(inplace=True),
            torch.nn.Linear(16, 4),
        ).to(dtype)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.x, self.y = torch.randn(6, 8, dtype=dtype), torch.randint(0, 4, (6,))
        self.seen = torch.zeros(())
        self._step = torch.compile(self._whole) if compiled else self._whole

    def _whole(self):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.seen += 1
        return loss.detach()

    def step(self):
        return self._step().item()

    def restore(self, found, gradients):
        """Sets what `state` gave."""
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                value.copy_(torch.from_numpy(found[name]))
            self.seen.copy_(torch.from_numpy(found["seen"]))
            for name, p in self.model.named_parameters():
                for key, value in self.optimizer.state[p].items():
                    value.copy_(torch.from_numpy(found[f"{name}.{key}"]))
                p.grad = None if gradients[name] is None else torch.from_numpy(gradients[name].copy())

    def state(self):
        """({name: value}, {name: gradient or None})."""
        found = {name: value.numpy().copy() for name, value in self.model.state_dict().items()}
        found["seen"] = self.seen.numpy().copy()
        gradients = {}
        for name, p in self.model.named_parameters():
            gradients[name] = None if p.grad is None else p.grad.numpy().copy()
            for key, value in self.optimizer.state[p].items():
                found[f"{name}.{key}"] = value.numpy().copy()
        return found, gradients


def _close(a, b):
    return np.allclose(a, b, rtol=1e-4, atol=1e-6)


def _fresh(compiled, dtype=torch.float32):
    training = _Training(compiled, dtype)
    training.step()
    return training


def _check(training, states, where):
    """That each value is as before the step or as after it, and that the next step is whole."""
    assert modes.grad, where
    assert not _op.special[0], where
    (before, _), (after, gradients) = states[0], states[1]
    now, grads = training.state()
    moved = set()
    for name, value in now.items():
        is_old, is_new = _close(value, before[name]), _close(value, after[name])
        assert is_old or is_new, (where, name)
        if name.endswith("exp_avg") or name in grads:
            moved.add((is_old, is_new))
    assert len(moved - {(True, True)}) <= 1, (where, "an optimizer's step is one")
    unclipped = states[2]
    for name, value in grads.items():
        known = (states[0][1][name], gradients[name], unclipped[name])
        assert value is None or any(_close(value, g) for g in known), (where, name)
    training.step()
    for name, value in training.state()[0].items():
        assert np.isfinite(value).all(), (where, name)


def _unclipped(compiled):
    training = _fresh(compiled)
    training.optimizer.zero_grad()
    torch.nn.functional.cross_entropy(training.model(training.x), training.y).backward()
    return {name: p.grad.numpy().copy() for name, p in training.model.named_parameters()}


def _some(total, most):
    """Places that are tried: a sample, or with ``FTORCH_INTERRUPTS`` all."""
    places = range(1, total + 1)
    return places if _HOW or total <= most else sorted(random.Random(total).sample(places, most))


@pytest.mark.parametrize("compiled", [False, True])
def test_each_place_of_a_training_step(compiled):
    training = _fresh(compiled)
    start = training.state()
    for _ in range(4):  # what is new runs by steps, and is compiled when it comes again
        training.step()
        training.restore(*start)
    training.step()
    states = [start, training.state(), _unclipped(compiled)]
    anywhere = _HOW == "anywhere"
    training.restore(*start)
    for place in _some(count(training.step, anywhere), 60):
        training.restore(*start)
        if place % 2:  # what the user has seen as NumPy's memory is updated in another way
            training.state()
        where = interrupt(training.step, place, anywhere)
        if where is not None:
            _check(training, states, (place, where))


@pytest.mark.parametrize("function", ["run", "decorated"])  # not `move`: a lock would stay, as Python's `with` leaves it
def test_each_instruction_of_what_belongs_together(function):
    """What a trace function raises comes there, too: where Python itself never looks for signals."""
    def chosen(code):
        return code.co_name == function and code.co_filename in files

    files = (executor.__file__, backward.__file__, grad_mode.__file__)
    training = _fresh(False)
    start = training.state()
    for _ in range(4):
        training.step()
        training.restore(*start)
    training.step()
    states = [start, training.state(), _unclipped(False)]
    training.restore(*start)
    total = count(training.step, True, chosen)
    assert total > 20
    for place in _some(total, 80):
        training.restore(*start)
        if place % 2:
            training.state()
        where = interrupt(training.step, place, True, chosen)
        if where is not None:
            _check(training, states, (place, where))


@pytest.mark.skipif(native.module is None, reason="what the collector calls is in Python without the kernels")
def test_an_interrupt_before_a_collection_is_not_dropped(monkeypatch):
    """Python reports and drops what is raised in what its collector calls. A signal is seen at the next function of Python's;
    here everything up to the collector is in C."""
    dropped: list = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: dropped.append(report.object))
    calls = functools.partial(ctypes.pythonapi.PyErr_SetInterruptEx, signal.SIGINT), functools.partial(gc.collect)
    callbacks = [c for c in gc.callbacks if isinstance(c, types.BuiltinFunctionType)]
    assert len(callbacks) >= 2  # JAX's, and that of captures
    others = [c for c in gc.callbacks if c not in callbacks]
    gc.collect()  # finalizers in Python of what other tests left would see the signal, too
    gc.callbacks[:] = callbacks  # not pytest's or Hypothesis's
    outer = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            collections.deque(map(functools.partial.__call__, calls), maxlen=0)
    finally:
        signal.signal(signal.SIGINT, outer)
        gc.callbacks[:] = callbacks + others
    assert not dropped and not native.module.collects()


@pytest.mark.skipif(native.module is not None, reason="in C with the kernels")
def test_an_interrupt_as_a_collection_ends(monkeypatch):
    """Else the thread would be taken to collect until the next one ends, and captures would not see what it does."""
    def tracer(frame, event, _):
        if frame.f_code is state_watch._Collection.note.__code__ and frame.f_locals["phase"] == "stop" and not dropped:
            raise KeyboardInterrupt

    dropped: list = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: dropped.append(report.exc_type))
    outer = sys.gettrace()
    sys.settrace(tracer)
    try:
        gc.collect()
    finally:
        sys.settrace(outer)
    assert dropped == [KeyboardInterrupt] and state_watch._collection.thread is None


def test_each_place_of_a_first_call():
    """Plans, kinds of nodes and programs are made there."""
    def call(size):
        x = torch.ones(size, 3, requires_grad=True)
        y = torch.ones(size, 3)
        y[1:] *= 2
        z = (x.expand(2, size, 3) * y).sum(0)
        z.backward(torch.ones(size, 3))
        return x.grad.sum().item(), torch.vmap(torch.func.grad(lambda v: (v ** 2).sum()))(y).sum().item()

    sizes = iter(range(3, 10**6))
    total = count(lambda: call(next(sizes)))
    for place in _some(total, 8):
        size = next(sizes)
        where = interrupt(lambda size=size: call(size), place)
        modes_now = (modes.grad, list(modes.levels), _op.special[0])
        assert modes_now == (True, [], 0), (place, where, modes_now)
        total = 3 + 6 * (size - 1)
        assert call(size) == (2 * total, 2 * total), (place, where)


def test_each_place_of_a_forward_derivative():
    x = torch.arange(3.0)

    def call():
        return torch.func.jvp(torch.sin, (x,), (x,))[1]

    call(), call()
    for place in range(1, count(call) + 1):
        where = interrupt(call, place)
        assert (modes.transforming, list(modes.levels), _op.special[0]) == (0, [], 0), (place, where)


@pytest.mark.parametrize("make", CALLS, ids=lambda make: make.__name__)
def test_each_place_of_other_calls(make):
    """Backward, transforms, checkpoints, loaders, collectives, contexts, files: nothing of the thread's state stays changed,
    and the next call is right."""
    call, check, close = make()
    try:
        call(), call()
        want = thread_state()
        total = count(call)
        for place in _some(total, 24):
            where = interrupt(call, place)
            assert thread_state() == want, (place, where)
            check()
            call()
    finally:
        close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_real_signals_at_random_times():
    """A timer's signals, while a model is trained: each step is whole or as if it had not begun.

    In float64: hundreds of Adam's steps would make float32's last bits, which differ by program, visible numbers.
    """
    assert threading.current_thread() is threading.main_thread()

    def on_alarm(*_):
        raise KeyboardInterrupt

    reference, expected = _fresh(False, torch.float64), {}
    for n in range(400):
        expected[n] = reference.state()[0]["0.weight"]
        reference.step()
    training, rng = _fresh(False, torch.float64), random.Random(0)
    steps, wanted, seen = 0, (1000 if _HOW else 40), 0
    outer = signal.signal(signal.SIGALRM, on_alarm)
    deadline = time.time() + (600 if _HOW else 8)
    try:
        while seen < wanted and time.time() < deadline:
            if steps > 300:
                training, steps = _fresh(False, torch.float64), 0
            try:
                # Again if it is lost: Python drops what comes in a weak reference's callback.
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-4, 6e-3), 0.5)
                while True:
                    training.step()
            except KeyboardInterrupt:
                seen += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert modes.grad
            state = training.state()[0]
            steps = int(next(iter(v for k, v in state.items() if k.endswith(".step"))).item()) - 1
            if steps < 390:
                np.testing.assert_allclose(
                    state["0.weight"], expected[steps], rtol=1e-6, atol=1e-6, err_msg=f"after {steps} steps"
                )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer)
    assert seen >= 10


def test_handlers_of_signals_compute():
    """A handler reads what is being trained, computes and writes tensors of its own, wherever it comes, also where JAX
    compiles; training goes on as if it had not come."""
    reference = _fresh(False, torch.float64)
    for _ in range(60):
        reference.step()
    expected = reference.state()[0]
    training, calls, failures = None, 0, []
    w = torch.arange(6.0).reshape(2, 3)

    def look(model):
        return [float(p.detach().sum()) for p in model.parameters()]

    def copy(model):
        return {name: value.clone() for name, value in model.state_dict().items()}

    def compute(model):
        assert (w @ w.t() + 1).sum().item() == 87

    @torch.enable_grad()
    def differentiate(model):
        x = torch.ones(3, requires_grad=True)
        (x * x).sum().backward()
        assert x.grad.tolist() == [2, 2, 2]

    def write(model):
        x = torch.zeros(4)
        x[1] = 5
        assert x.add_(1).tolist() == [1, 6, 1, 1]

    works = [look, copy, compute, differentiate, write]

    def on_alarm(*_):
        nonlocal calls
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # where the machine is slow it would never end
        try:
            works[calls % len(works)](training.model)
        except Exception as error:  # noqa: BLE001
            failures.append(error)
        finally:
            calls += 1
            signal.signal(signal.SIGALRM, on_alarm)

    outer, start = signal.signal(signal.SIGALRM, signal.SIG_IGN), time.time()
    try:
        while calls < 60 and time.time() - start < 30 or calls < 5:
            training = _fresh(False, torch.float64)
            signal.signal(signal.SIGALRM, on_alarm)
            signal.setitimer(signal.ITIMER_REAL, 2e-3, 4e-3)
            for _ in range(60):
                training.step()
            signal.setitimer(signal.ITIMER_REAL, 0)
            for name, value in training.state()[0].items():
                np.testing.assert_allclose(value, expected[name], rtol=1e-6, atol=1e-8, err_msg=name)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer)
    assert not failures, failures


def test_long_runs_are_interrupted_soon():
    x = torch.ones(1200, 1200) / 1200

    def long():
        y = x
        for _ in range(60):
            y = y @ x
        return y

    long()[0, 0].item()
    outer = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    try:
        y = long()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        start = time.time()
        with pytest.raises(KeyboardInterrupt):
            y[0, 0].item()
        assert time.time() - start < 1.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, outer)
    assert abs(y[0, 0].item() - 1 / 1200) < 1e-6


# Why an exit that changes what others see is not called again.
_ONCE = {
    "device.device": "made repeatable where it may be imported (`eager/native/contexts.py`)",
    "suppressed_warnings.quiet": "as `device`",
    "jax_internals.without_cache": "as `device`",
    "lock_sharing.resting": "of a thread of the package's own, which no signal's handler runs in",
    "utils.LinearBlockSparsePattern": "gives a lock back, as PyTorch's",
    "__init__.context": "tells other processes that a context of distributed autograd ends",
    "_dispatch._Spread": "counts",
    "_decorator._Setting": "is loaded by workers, which do without the engine",
    "recorder.Recorder": "takes tracing apart in several steps, each repeatable",
}


def test_exits_that_change_state_of_others_are_repeatable():
    found = set()
    for path in Path(torch.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if "__exit__" not in text:
            continue
        for cls in ast.walk(ast.parse(text)):
            for exit_ in getattr(cls, "body", ()) if isinstance(cls, ast.ClassDef) else ():
                is_exit = isinstance(exit_, ast.FunctionDef) and exit_.name == "__exit__"
                if is_exit and _changes_others(exit_) and "repeatable" not in map(ast.unparse, exit_.decorator_list):
                    found.add(f"{path.stem}.{cls.name}")
    assert found == set(_ONCE)


def _changes_others(function):
    """Whether a method assigns to anything but its own names and its object's attributes."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            return True
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
        for target in targets:
            for t in target.elts if isinstance(target, ast.Tuple) else [target]:
                own = isinstance(t, ast.Name)
                while isinstance(t, (ast.Attribute, ast.Subscript)):
                    t = t.value
                if not own and not (isinstance(t, ast.Name) and t.id == "self"):
                    return True
    return False


def test_contexts_of_generators_are_left_at_once():
    """Where the interrupt comes as one is entered or left: not when its generator is collected, after the contexts around."""
    from ftorch.eager.native.contexts import contextmanager

    state: list = ["outside"]

    @contextmanager
    def inside(name):
        before, state[0] = state[0], name
        try:
            yield
        finally:
            state[0] = before

    def places(code, event):
        def tracer(frame, what, _):
            nonlocal left
            if frame.f_code is not code:
                return None
            frame.f_trace_opcodes = True
            return local if event != "call" else local(frame, "call", None)

        def local(frame, what, _):
            nonlocal left
            if what == event:
                left -= 1
                if left == 0:
                    raise KeyboardInterrupt
            return local

        return tracer

    outer, reached = sys.gettrace(), 0
    for code in (contextlib._GeneratorContextManager.__exit__.__code__, contextlib._GeneratorContextManager.__enter__.__code__):
        for event in ("call", "return"):
            for number in (1, 2):
                left = number
                try:
                    sys.settrace(places(code, event))
                    with inside("a"):
                        with inside("b"):
                            pass
                except KeyboardInterrupt as error:
                    sys.settrace(outer)
                    reached += 1
                    assert state == ["outside"], (code.co_name, event, number)
                    del error
                finally:
                    sys.settrace(outer)
                assert state == ["outside"], (code.co_name, event, number)
    assert reached >= 6
