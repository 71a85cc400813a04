"""Random programs in which things go wrong: operations, hooks and functions that raise, memory that there is not,
interrupts at any moment, forks, in one thread or in several.

    python -m tests.eager.runtime.failing_programs --seeds 0:500 --kind oracle|interrupts|threads|forks

- ``oracle``: the same program in PyTorch; after each statement both have the same state, and raised the same exceptions.
- ``interrupts``: an exception comes at random moments (by a signal); each tensor, gradient, optimizer's state and
  generator is then as before the statement or as after it, and modes are as they were.
- ``threads``: several programs at once, each interrupted by `PyThreadState_SetAsyncExc`.
- ``forks``: children go on with the rest of the program.

Run as a command, a program that hangs ends the process and shows its stacks.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import os
import random
import signal
import sys
import threading
import time
import traceback

import numpy as np

SIZE = 6
LONG = 60  # s that a program or a child may take, of some 25 statements of milliseconds


class Interrupted(BaseException):
    """What comes from outside."""


class Fault(ValueError):
    """What hooks and functions raise."""


class State:
    """What a program works on, in one of the two libraries."""

    def __init__(self, torch, seed):
        self.torch = torch
        numbers = np.random.default_rng(seed)

        def some(*shape):
            return torch.tensor(numbers.normal(size=shape).astype(np.float32))

        self.tensors = [some(SIZE, SIZE) for _ in range(4)]
        self.views = [self.tensors[0][1:4], self.tensors[1].t()]
        self.weights = [torch.nn.Parameter(some(SIZE, SIZE)), torch.nn.Parameter(some(SIZE))]
        self.optimizer = torch.optim.Adam(self.weights, lr=0.05)
        self.generator = torch.Generator()
        self.generator.manual_seed(seed)
        self.batch_norm = torch.nn.BatchNorm1d(SIZE)
        self.compiled = torch.compile(lambda x, w: (x @ w).tanh() * 2) if torch.__name__ == "ftorch" else (
            lambda x, w: (x @ w).tanh() * 2
        )
        self.changing = torch.compile(self._change) if torch.__name__ == "ftorch" else self._change

        class Raising(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                raise Fault("of a function")

        self.raising = Raising

    @staticmethod
    def _change(x):
        x.mul_(1.25)
        return x.sum()

    def values(self):
        """Everything as NumPy arrays (None where there is nothing), by name."""
        found = {f"tensor {i}": t for i, t in enumerate(self.tensors)}
        found |= {f"view {i}": t for i, t in enumerate(self.views)}
        for i, w in enumerate(self.weights):
            found[f"weight {i}"], found[f"gradient {i}"] = w, w.grad
            for key, value in self.optimizer.state.get(w, {}).items():
                found[f"{key} {i}"] = value
        found |= {f"norm {key}": value for key, value in self.batch_norm.named_buffers()}
        found["generator"] = self.generator.get_state()
        return {key: None if t is None else t.detach().numpy().copy() for key, t in found.items()}

    def take(self, values):
        """Goes on from values that another state had."""
        torch = self.torch
        self.batch_norm._forward_hooks.clear()
        with torch.no_grad():
            for i, t in enumerate(self.tensors):
                t.copy_(torch.tensor(values[f"tensor {i}"]))
            for i, t in enumerate(self.views):
                t.copy_(torch.tensor(values[f"view {i}"]))
            for i, w in enumerate(self.weights):
                w.copy_(torch.tensor(values[f"weight {i}"]))
                g = values[f"gradient {i}"]
                w.grad = None if g is None else torch.tensor(g)
                state = {k.rsplit(" ", 1)[0]: torch.tensor(v) for k, v in values.items()
                         if k.endswith(f" {i}") and k.split()[0] in ("step", "exp_avg", "exp_avg_sq")}
                own = getattr(w, "_ftorch_meta", None)  # whose `_backward_hooks` is a copy
                # Those of an interrupted statement, which had registered one and not got the handle yet.
                for hooks in (w._backward_hooks if own is None else own.hooks, w._post_accumulate_grad_hooks):
                    if hooks:
                        hooks.clear()
                self.optimizer.state.pop(w, None)
                if state:
                    self.optimizer.state[w] = state
            for key, b in self.batch_norm.named_buffers():
                b.copy_(torch.tensor(values[f"norm {key}"]))
        self.generator.set_state(torch.tensor(values["generator"]))


def _raise(*_):
    raise Fault("of a hook")


def _loss(s, i):
    return ((s.tensors[i] @ s.weights[0]).relu() + s.weights[1]).pow(2).mean()


def _step(s, i):
    s.optimizer.zero_grad()
    _loss(s, i).backward()
    s.optimizer.step()


def _hook_of_a_tensor(s, i):
    u = _loss(s, i)
    v = u * 2
    u.register_hook(_raise)
    v.backward()


def _hook_of_a_weight(s, i):
    handle = s.weights[i % 2].register_hook(_raise)
    try:
        _loss(s, i).backward()
    finally:
        handle.remove()


def _hook_after(s, i):
    handle = s.weights[i % 2].register_post_accumulate_grad_hook(_raise)
    try:
        _loss(s, i).backward()
    finally:
        handle.remove()


def _hook_of_a_module(s, i):
    handle = s.batch_norm.register_forward_hook(_raise)
    try:
        s.batch_norm(s.tensors[i])
    finally:
        handle.remove()


def _hook_of_saved(s, i):
    with s.torch.autograd.graph.saved_tensors_hooks(lambda x: x, _raise):
        u = _loss(s, i)
    u.backward()


def _closure(s, i):
    def closure():
        _loss(s, i).backward()
        raise Fault("of a closure")

    s.optimizer.zero_grad()
    s.optimizer.step(closure)


def _fails_late(s, i):
    """The operation that fails is recorded between others."""
    s.tensors[i].mul_(0.5)
    s.views[0].add_(1)
    try:
        s.torch.nn.functional.embedding(s.torch.tensor([1, SIZE + 1]), s.tensors[i]).sum().item()
    finally:
        s.tensors[(i + 1) % 4].add_(0.25)


def _bad_target(s, i):
    loss = s.torch.nn.functional.cross_entropy(s.tensors[i] @ s.weights[0], s.torch.tensor([0, 1, 2, 3, 4, SIZE]))
    loss.backward()
    loss.item()


def _in_blocks(s, i):
    with s.torch.no_grad(), s.torch.autocast("cpu", dtype=s.torch.bfloat16, enabled=False):
        s.weights[1].add_(s.tensors[i][0] * 0.1)
        with s.torch.enable_grad():
            s.torch.ones(2) + s.torch.ones(3)


def _vmap(s, i):
    def f(x):
        if x.ndim == 1 and i % 2:
            raise Fault("inside of a transform")
        return (x * 2).sum()

    s.tensors[i].add_(s.torch.func.vmap(f)(s.tensors[i])[:, None])


def _functional_gradient(s, i):
    s.tensors[i].sub_(s.torch.func.grad(lambda x: (x.sin() * x).sum())(s.tensors[i]) * 0.1)


def _compiled_that_raises(s, i):
    function = s.torch.compile(lambda x: _raise() if x.shape[0] == SIZE else x) if s.torch.__name__ == "ftorch" else _raise
    s.tensors[i].add_(1)
    function(s.tensors[i])


def _set(s, i, value):
    s.tensors[i] = value


_STATEMENTS = {
    "write": lambda s, i: s.tensors[i].mul_(0.9).add_(s.tensors[i - 1], alpha=0.1),
    "write a view": lambda s, i: s.views[i % 2].mul_(0.75),
    "write by index": lambda s, i: s.tensors[i].__setitem__(s.torch.tensor([0, 3]), s.tensors[i - 1][1:3]),
    "write by mask": lambda s, i: s.tensors[i].masked_fill_(s.tensors[i] > 1, 0.5),
    "product": lambda s, i: s.tensors[i].copy_((s.tensors[i - 1] @ s.tensors[i]).tanh()),
    "softmax": lambda s, i: s.tensors[i].copy_(s.tensors[i - 1].softmax(1)),
    "sort": lambda s, i: s.tensors[i].copy_(s.tensors[i - 1].sort(1)[0]),
    "look": lambda s, i: s.tensors[i].sum().item(),
    "random": lambda s, i: s.tensors[i].add_(s.torch.rand(SIZE, generator=s.generator)),
    "random in place": lambda s, i: s.tensors[i].normal_(generator=s.generator),
    "backward": lambda s, i: _loss(s, i).backward(),
    "step": lambda s, i: s.optimizer.step(),
    "zero_grad": lambda s, i: s.optimizer.zero_grad(set_to_none=bool(i % 2)),
    "training step": _step,
    "batch norm": lambda s, i: s.tensors[i].copy_(s.batch_norm(s.tensors[i - 1]).detach()),
    "compiled": lambda s, i: s.tensors[i].copy_(s.compiled(s.tensors[i - 1], s.weights[0]).detach()),
    "compiled with gradients": lambda s, i: s.compiled(s.tensors[i], s.weights[0]).sum().backward(),
    "compiled that writes": lambda s, i: s.changing(s.tensors[i]).item(),
    "vmap": _vmap,
    "func.grad": _functional_gradient,
    "shapes": lambda s, i: s.tensors[i].add_(s.torch.ones(SIZE + 1)),
    "shapes of a product": lambda s, i: s.tensors[i].mul_(2) @ s.torch.ones(SIZE + 1),
    "index": lambda s, i: s.tensors[i][s.torch.tensor([SIZE + 2])].sum().item(),
    "number as index": lambda s, i: s.tensors[i][SIZE],
    "fails late": _fails_late,
    "bad target": _bad_target,
    "memory": lambda s, i: s.tensors[i].add_(s.torch.zeros(10**13).sum()),
    "memory of a result": lambda s, i: (s.tensors[i].sum() + s.torch.zeros(1).expand(10**14)).sum().item(),
    "singular": lambda s, i: s.tensors[i].copy_(s.torch.linalg.inv(s.torch.zeros(SIZE, SIZE))),
    "a leaf written": lambda s, i: s.weights[0].mul_(2),
    "backward twice": lambda s, i: [u := _loss(s, i), u.backward(), u.backward()],
    "backward of a vector": lambda s, i: (s.tensors[i] @ s.weights[0]).backward(),
    "saved and written": lambda s, i: [w := s.weights[1] * 2, u := (w * w).sum(), w.add_(1), u.backward()],
    "hook of a tensor": _hook_of_a_tensor,
    "hook of a weight": _hook_of_a_weight,
    "hook after accumulation": _hook_after,
    "hook of a module": _hook_of_a_module,
    "hook of saved tensors": _hook_of_saved,
    "function": lambda s, i: (s.raising.apply(s.weights[1] * 2).sum() + _loss(s, i)).backward(),
    "closure": _closure,
    "blocks": _in_blocks,
    "compiled that raises": _compiled_that_raises,
    "item of many": lambda s, i: s.tensors[i].add_(1).item(),
    "new tensor": lambda s, i: _set(s, 2 + i % 2, s.tensors[i] * 0.5 + s.tensors[i - 1].mean()),
}
_SLOW = {"compiled that raises"}


def program(seed, length=25):
    """A program: (name, number) of each statement."""
    rng = random.Random(seed)
    names = sorted(_STATEMENTS)
    made = [(rng.choice(names), rng.randrange(4)) for _ in range(length)]
    slow = [item for item in made if item[0] in _SLOW]
    return [item for item in made if item[0] not in _SLOW or item is slow[0]]


def _do(state, name, number):
    """Runs a statement; gives the class of what it raised."""
    try:
        _STATEMENTS[name](state, number)
    except Exception as error:
        return type(error)
    return None


def _close(a, b):
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, rtol=2e-4, atol=2e-5, equal_nan=True)


def _is_number(value):
    return value is None or value.dtype.kind != "f" or np.isfinite(value).all()


def _differences(found, *allowed):
    """Names of what is like none of these states. An optimizer's state that was only made, of zeros, is as if it was not."""
    return [
        name for name, value in found.items()
        if not any(_close(value, state[name]) if name in state else not value.any() for state in allowed)
    ]


def check_against_oracle(torch, oracle, seed):
    """Raises AssertionError where the two libraries differ."""
    mine, theirs = State(torch, seed), State(oracle, seed)
    for place, (name, number) in enumerate(program(seed)):
        errors = _do(mine, name, number), _do(theirs, name, number)
        where = f"seed {seed}, statement {place} ({name} {number})"
        kinds = [None if e is None else e.__name__ for e in errors]
        assert kinds[0] == kinds[1], f"{where}: {kinds}"
        a, b = mine.values(), theirs.values()
        assert a.keys() == b.keys(), f"{where}: {a.keys() ^ b.keys()}"
        wrong = _differences(a, b)
        assert not wrong, f"{where}: {wrong}"
        mine.take(b)


def _snapshots(torch, seed):
    """Values before each statement of an uninterrupted run and after the last, and the errors."""
    state = State(torch, seed)
    found, errors = [state.values()], []
    for name, number in program(seed):
        errors.append(_do(state, name, number))
        found.append(state.values())
    return found, errors


def _run(torch, seed, snapshots, errors, interruptible):
    """A run of which some statements are interrupted: each leaves what it would change as before or as after.

    Args:
        interruptible: called with a function; gives whether it was interrupted, or its result.
    """
    state = State(torch, seed)
    count = 0
    for place, (name, number) in enumerate(program(seed)):
        error = interruptible(lambda name=name, number=number: _do(state, name, number))
        where = f"seed {seed}, statement {place} ({name} {number})"
        assert torch.is_grad_enabled() and not torch.is_autocast_enabled(), where
        before, after = snapshots[place], snapshots[place + 1]
        found = state.values()
        if error is Interrupted:
            count += 1
            wrong = _differences(found, before, after)
            if name in _PARTS and wrong:  # several calls: what lies between may be seen
                wrong = [key for key in wrong if not _is_number(found[key])]
            assert not wrong, f"{where}: after an interrupt {wrong}"
            state.take(after)
            if name == "new tensor":
                state.tensors[2 + number % 2] = torch.tensor(after[f"tensor {2 + number % 2}"])
        else:
            assert error is errors[place], f"{where}: {error} instead of {errors[place]}"
            wrong = _differences(found, after)
            assert not wrong, f"{where}: {wrong}"
    return count


# Statements that write to the same tensor more than once.
_PARTS = {"write", "training step", "fails late", "closure", "backward twice", "take", "batch norm"}


def check_interrupts(torch, seed):
    """Raises AssertionError where an interrupt by a signal leaves something half done; gives how many there were."""
    snapshots, errors = _snapshots(torch, seed)
    rng = random.Random(seed)

    open_ = [False]

    def on_alarm(*_):
        if open_[0]:
            raise Interrupted

    def interruptible(function):
        try:
            open_[0] = True
            if rng.random() < 0.7:
                signal.setitimer(signal.ITIMER_REAL, 10 ** rng.uniform(-5.3, -2.3))
            result = function()
            open_[0] = False
        except Interrupted:
            open_[0] = False
            result = Interrupted
        signal.setitimer(signal.ITIMER_REAL, 0)
        return result

    outer = signal.signal(signal.SIGALRM, on_alarm)
    hook, sys.unraisablehook = sys.unraisablehook, _ignore(sys.unraisablehook)
    try:
        return _run(torch, seed, snapshots, errors, interruptible)
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGALRM, outer)


def _ignore(hook):
    """A hook that says nothing of what Python drops: interrupts in callbacks of weak references and collections."""
    return lambda report: None if report.exc_type is Interrupted else hook(report)


class _Interruptible:
    """Runs functions in a thread that others interrupt."""

    def __init__(self):
        self.lock, self.open, self.pending = threading.Lock(), False, False
        self.thread = None

    def __call__(self, function):
        result = None
        try:
            self.open = True
            result = function()
            self.close()
        except Interrupted:
            self.pending = False
            result = Interrupted
            self.open = False
        return result

    def close(self):
        """No exception comes from now on; one that was sent comes first."""
        with self.lock:
            self.open = False
        deadline = time.monotonic() + 1
        while self.pending and time.monotonic() < deadline:
            time.sleep(0)
        self.pending = False  # Python has dropped it, in the callback of a weak reference

    def send(self):
        """Sends an exception if a function is running."""
        if self.lock.acquire(False):
            try:
                if self.open and not self.pending:
                    self.pending = True
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(self.thread), ctypes.py_object(Interrupted)
                    )
            finally:
                self.lock.release()


def check_threads(torch, seed, count=4):
    """`check_interrupts` in several threads at once, which also use a model that they share."""
    model = torch.nn.Sequential(torch.nn.Linear(SIZE, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    x = torch.ones(3, SIZE)
    want = model(x).detach().numpy()
    seeds = [1000 * seed + i for i in range(count)]
    expected = [_snapshots(torch, s) for s in seeds]
    failures, counts, guards = [], [], [_Interruptible() for _ in seeds]

    def work(place):
        guard = guards[place]
        guard.thread = threading.get_ident()

        def interruptible(function):
            with torch.no_grad():
                np.testing.assert_allclose(model(x).numpy(), want, rtol=1e-5, atol=1e-6)
            return guard(function)

        try:
            counts.append(_run(torch, seeds[place], *expected[place], interruptible))
        except BaseException as error:
            failures.append((seeds[place], error))

    rng = random.Random(seed)
    workers = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(count)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    hook, sys.unraisablehook = sys.unraisablehook, _ignore(sys.unraisablehook)
    try:
        for worker in workers:
            worker.start()
        while any(worker.is_alive() for worker in workers):
            time.sleep(10 ** rng.uniform(-4, -2))
            guard = rng.choice(guards)
            if guard.thread is not None:
                guard.send()
    finally:
        sys.unraisablehook = hook
        sys.setswitchinterval(interval)
    if failures:
        raise AssertionError(f"seed {failures[0][0]}") from failures[0][1]
    return sum(counts)


def check_forks(torch, seed):
    """Children that go on with the rest of a program, beside a thread that computes."""
    snapshots, errors = _snapshots(torch, seed)
    state, rng, stop = State(torch, seed), random.Random(seed), threading.Event()
    children = []

    def beside():
        x = torch.ones(SIZE, SIZE)
        while not stop.is_set():
            (x @ x).tanh().sum().item()

    thread = threading.Thread(target=beside, daemon=True)
    thread.start()
    try:
        statements = program(seed)
        for place, (name, number) in enumerate(statements):
            if rng.random() < 0.1:
                child = os.fork()
                if not child:
                    code = 1
                    try:
                        faulthandler.dump_traceback_later(LONG, exit=True)
                        for later in range(place, len(statements)):
                            error = _do(state, *statements[later])
                            wrong = _differences(state.values(), snapshots[later + 1])
                            if error is not errors[later] or wrong:
                                print(f"seed {seed}: child at {later} {statements[later]}: {error} {wrong}", flush=True)
                                os._exit(2)
                        code = 0
                    finally:
                        os._exit(code)
                children.append(child)
            error = _do(state, name, number)
            assert error is errors[place], (seed, place, name, error)
            wrong = _differences(state.values(), snapshots[place + 1])
            assert not wrong, (seed, place, name, wrong)
    finally:
        stop.set()
        thread.join(LONG)
        codes = [os.waitpid(child, 0)[1] for child in children]
    assert not any(codes), f"seed {seed}: children ended with {codes}"
    return len(codes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:50")
    parser.add_argument("--kind", choices=("oracle", "interrupts", "threads", "forks"), default="interrupts")
    options = parser.parse_args()
    import ftorch

    oracle = None
    if options.kind == "oracle":
        import torch as oracle
    first, last = map(int, options.seeds.split(":"))
    failed = done = 0
    for seed in range(first, last):
        if options.kind == "forks":
            signal.alarm(LONG)  # a child would wait for the thread that faulthandler has in its parent
        else:
            faulthandler.dump_traceback_later(LONG, exit=True)
        try:
            if options.kind == "oracle":
                check_against_oracle(ftorch, oracle, seed)
            else:
                done += {"interrupts": check_interrupts, "threads": check_threads, "forks": check_forks}[options.kind](
                    ftorch, seed
                )
        except AssertionError as error:
            failed += 1
            print(seed, error, flush=True)
            if error.__cause__ is not None:
                traceback.print_exception(error.__cause__)
    print(f"{options.kind}: {last - first} programs, {done} interrupts or children, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
