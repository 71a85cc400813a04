"""Failures at each place where a call runs something, and of each of its operations: what is left is that of before the call or
of after it, and going on works. FTORCH_FAILURES=all tries all of them in each way; else a sample is tried.
"""

from __future__ import annotations

import collections
import os
import random

import jax
import numpy as np
import pytest

import ftorch as torch
import ftorch.distributed as dist
from ftorch._higher_order_ops import associative_scan, scan, while_loop
from ftorch._higher_order_ops import map as map_
from ftorch.eager.runtime import program, short_traces, trace_programs
from ftorch.eager.runtime.plan import Plan
from ftorch.jit.capture import lowering

_ALL = os.environ.get("FTORCH_FAILURES") == "all"
_SAMPLE = 4

_KINDS = {
    "XLA": lambda: jax.errors.JaxRuntimeError("INTERNAL: injected"),
    "XLA's memory": lambda: jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1234567 bytes."),
    "memory": MemoryError,
    "operator": lambda: ValueError("injected"),
}
#: {what runs programs and steps: gives the names of the operations in its operands}
_RUNNERS = {
    (Plan, "run"): lambda plan, *_: [plan.name],
    (program, "compile_code"): lambda code, *_: [item.name for item in code if item.__class__ is not int],
    (program, "execute"): lambda device, code, *_: [item.name for item in code if item.__class__ is not int],
    (trace_programs.TraceProgram, "run"): lambda trace, inputs, plans, *_: [plan.name for plan in plans],
    (lowering.Lowered, "_run"): lambda lowered, *_: [step.plan.name for step in lowered.steps],
    (lowering.Lowered, "jitted"): lambda lowered: [],
}


class _Injection:
    """Makes calls of what runs programs and steps, and code of the user's, fail: from the n-th on, so many times; or those of
    an operation or with a name."""

    def __init__(self, monkeypatch):
        monkeypatch.setitem(_users, "visit", self._failing(lambda name: None, lambda name: [name]))
        self.seen, self.names, self.make, self.wanted, self.times, self.hits = 0, {}, None, 0, 0, 0
        for (owner, name), names_of in _RUNNERS.items():
            monkeypatch.setattr(owner, name, self._failing(getattr(owner, name), names_of))
        monkeypatch.setattr(short_traces, "_MOST_STEPS", 0)

    def _failing(self, function, names_of):
        def run(*args, **kwargs):
            self.seen += 1
            names = names_of(*args)
            self.names |= dict.fromkeys(names)
            if self.make is not None and self.hits < self.times and (
                self.wanted in names if isinstance(self.wanted, str) else self.wanted <= self.seen
            ):
                self.hits += 1
                raise self.make()
            return function(*args, **kwargs)

        return run

    def places(self, call):
        """Where a call can fail: the numbers of what it runs, and the names of its operations."""
        self.seen, self.names, self.make = 0, {}, None
        call()
        return [*range(1, 1 + self.seen)], [*self.names]

    def at(self, place, make, times, call):
        """The exception of the call, or None."""
        self.seen, self.wanted, self.make, self.times, self.hits = 0, place, make, times, 0
        try:
            call()
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            self.make = None
        return None


_users = {"visit": lambda name: None}  # what code of the user's asks where it may fail


def _visit(name, result=None):
    """What the user's hooks, functions and operators do: perhaps fail."""
    _users["visit"](name)
    return result


def _hook(name):
    """A hook that replaces nothing."""
    return lambda *_: _visit(name)


@torch.library.custom_op("injected::doubled", mutates_args=())
def _doubled(x: torch.Tensor) -> torch.Tensor:
    return _visit("operator", x * 2)


@torch.library.custom_op("injected::count_", mutates_args=("x",))
def _count_(x: torch.Tensor) -> None:
    _visit("writing operator")
    x.add_(1)


_doubled.register_fake(torch.empty_like)
_doubled.register_autograd(lambda context, g: _visit("operator's backward", g * 2), setup_context=lambda *_, **__: None)
_count_.register_fake(lambda x: None)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _visit("forward", x.square())

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return _visit("backward", 2 * x * g)


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def _network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Tanh(), torch.nn.Linear(6, 2))


def _whole(t):
    return (t.full_tensor() if hasattr(t, "full_tensor") else t).detach().numpy().copy()


def _step_of(model, wrapped, compiles):
    optimizer = torch.optim.Adam(wrapped.parameters(), lr=0.1)
    x, y = torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(1, 0, 6).reshape(3, 2)

    def step():
        optimizer.zero_grad()
        loss = ((wrapped(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def state():
        found = {name: _whole(t) for name, t in model.state_dict().items()}
        for i, p in enumerate(wrapped.parameters()):
            found |= {f"{i} {name}": _whole(t) for name, t in optimizer.state[p].items()}
        return found

    run = torch.compile(step) if compiles else step
    return lambda: run().item(), state


def _plain(compiles):
    model = _network()
    return _step_of(model, model, compiles)


def _ddp(compiles):
    model = _network()
    return _step_of(model, torch.nn.parallel.DistributedDataParallel(model), compiles)


def _fsdp(compiles):
    from ftorch.distributed.fsdp import fully_shard

    model = _network()
    fully_shard(model[0]), fully_shard(model)
    return _step_of(model, model, compiles)


def _interop(compiles):
    from ftorch.interop import on_tensors

    model = _network()
    model[2] = type("Tanh", (torch.nn.Module,), {"forward": staticmethod(on_tensors(jax.numpy.tanh))})()
    return _step_of(model, model, compiles)


def _accumulating(function, *inputs):
    """A step that adds what a function gives to a sum, and its gradients."""
    def make(compiles):
        total = torch.zeros(())
        weight = torch.nn.Parameter(torch.tensor([1.5, 0.5, -1.0]))

        def step():
            out = function(weight, *inputs)
            loss = sum((o * o).sum() for o in (out if isinstance(out, (tuple, list)) else (out,)))
            if loss.requires_grad:
                loss.backward()
            with torch.no_grad():
                total.add_(loss.detach())
            return loss.detach()

        def state():
            grad = weight.grad
            grad = weight.new_zeros(3) if grad is None else grad
            return {"total": _whole(total), "weight": _whole(weight), "grad": _whole(grad)}

        run = torch.compile(step) if compiles else step
        return lambda: run().item(), state

    return make


def _hooks(compiles):
    """A step whose every part has hooks of the user's."""
    model = _network()
    model[0].register_forward_pre_hook(_hook("forward pre-hook"))
    model[2].register_forward_hook(_hook("forward hook"))
    model[2].register_full_backward_hook(_hook("module's backward hook"))
    model[3].register_full_backward_pre_hook(_hook("module's backward pre-hook"))
    model[0].weight.register_hook(_hook("tensor hook"))
    model[0].bias.register_post_accumulate_grad_hook(_hook("hook after accumulation"))
    inner = model[2].forward

    def forward(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: _visit("pack", t), lambda t: _visit("unpack", t)):
            y = inner(x)
        y.grad_fn.register_prehook(_hook("node's pre-hook"))
        y.grad_fn.register_hook(_hook("node's hook"))
        return torch.utils.checkpoint.checkpoint(lambda y: _visit("checkpoint", y.sin()), y, use_reentrant=False)

    model[2].forward = forward
    call, state = _step_of(model, model, compiles)
    return call, state


def _operators(compiles):
    """A step with operators and a function of the user's, one of which writes."""
    model, seen = _network(), torch.zeros(2)
    model[2] = type("Doubled", (torch.nn.Module,), {"forward": lambda self, x: _Function.apply(_doubled(x.tanh()))})()

    def counted(x):
        _count_(seen)
        return model(x)

    counted.parameters = model.parameters
    call, state = _step_of(model, counted, compiles)
    return call, lambda: state() | {"seen": _whole(seen)}


_x = torch.tensor([0.5, -1.0, 2.0])


def _quantized(compiles):
    torch.manual_seed(0)
    layer = torch.ao.nn.quantized.dynamic.Linear.from_float(_with_qconfig(torch.nn.Linear(8, 3)))
    total = torch.zeros(3)

    def step():
        out = layer(torch.linspace(-1, 1, 16).reshape(2, 8)).sum(0)
        total.add_(out)
        return out.sum()

    run = torch.compile(step) if compiles else step
    return lambda: run().item(), lambda: {"total": _whole(total), "weight": layer.weight().int_repr().numpy().copy()}


def _with_qconfig(layer):
    layer.qconfig = torch.ao.quantization.default_dynamic_qconfig
    return layer


def _cache(compiles):
    """A static cache, into which each call writes a row."""
    torch.manual_seed(0)
    keys, at, project = torch.zeros(8, 4), torch.zeros(1, dtype=torch.long), torch.nn.Linear(4, 4)

    @torch.no_grad()
    def step(x):
        keys.index_copy_(0, at, project(x))
        scores = torch.softmax(keys @ x[0], 0)
        at.add_(1)
        return (scores[:, None] * keys).sum()

    run = torch.compile(step) if compiles else step
    x = torch.linspace(0, 1, 4).reshape(1, 4)
    return lambda: run(x).item(), lambda: {"keys": _whole(keys), "at": _whole(at), "weight": _whole(project.weight)}


def _exported(compiles):
    model = _network()
    program_ = torch.export.export(model, (torch.ones(3, 4),)).module()
    model = program_
    x = torch.linspace(-1, 1, 12).reshape(3, 4)
    run = torch.compile(lambda: model(x).sum()) if compiles else lambda: model(x).sum()
    return lambda: run().item(), lambda: {name: _whole(t) for name, t in model.state_dict().items()}


SCENARIOS = {
    "plain": _plain,
    "ddp": _ddp,
    "fsdp": _fsdp,
    "interop": _interop,
    "hooks": _hooks,
    "operators": _operators,
    "quantized": _quantized,
    "cache": _cache,
    "exported": _exported,
    "cond": _accumulating(lambda w: torch.cond(w.sum() > 0, lambda w: w.sin() * 2, lambda w: w.cos(), (w,))),
    "while_loop": _accumulating(
        lambda w: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2 + 1), (torch.tensor(0), w.detach()))[1]
    ),
    "scan": _accumulating(lambda w, x: scan(lambda c, x: (c * 0.5 + x, c * x), w, torch.stack([x, x + 1]))[0], _x),
    "associative_scan": _accumulating(
        lambda w, x: associative_scan(lambda a, b: a * b, w * x, 0, combine_mode="generic"), _x
    ),
    "map": _accumulating(lambda w, x: map_(lambda x, w: (x * w).sin(), torch.stack([x, x + 1]), w), _x),
}


def _same(a, b):
    return a.keys() >= b.keys() and all(np.allclose(a[k], b.get(k, 0), rtol=1e-5, atol=1e-6) for k in a)


def _problems(name, compiles, injection, calls):
    """What is wrong after failures at places of the call that comes after so many ones."""
    make = SCENARIOS[name]
    program._programs.clear()
    call, state = make(compiles)
    states, results = [], []
    for _ in range(calls + 3):
        if len(states) == calls:
            numbers, names = injection.places(lambda: results.append(call()))
        else:
            results.append(call())
        states.append(state())
    before = states[calls - 1] if calls else make(compiles)[1]()
    after = states[calls]
    tries = [(place, kind, times) for place in (*numbers, *names) for kind in _KINDS for times in (1, 10**6)]
    random.Random(name).shuffle(tries)
    found, hits = [], 0
    for place, kind, times in tries:
        if not _ALL and hits == _SAMPLE:
            break
        program._programs.clear()
        call, state = make(compiles)
        state()  # what was recorded for it is there
        for _ in range(calls):
            call()
        error = injection.at(place, _KINDS[kind], times, call)
        if not injection.hits:
            continue  # a program was there already
        hits += 1
        where = f"{name} {'compiled' if compiles else 'eager'} {kind} x{times} call {calls} at {place}: {error!r}"
        try:
            now = state()
        except Exception as again:  # noqa: BLE001
            found.append(f"{where}: the state raises {again!r}")
            continue
        for key, value in now.items():
            # An optimizer's state that was made, and no step: zeros.
            values = [before.get(key, np.zeros_like(after[key])), after[key]]
            if not any(np.allclose(value, v, rtol=1e-4, atol=1e-5) for v in values):
                found.append(f"{where}: {key} is {value.tolist()}, neither {[v.tolist() for v in values]}")
        if error is None and not _same(now, after):
            found.append(f"{where}: no error, but the call is not made")
        steps = collections.Counter()
        for at, start in ((calls, before), (calls + 1, after)):
            if _same(now, start):
                steps[at] += 1
        try:
            result = call()
        except Exception as again:  # noqa: BLE001
            found.append(f"{where}: the next call raises {again!r}")
            continue
        if len(steps) == 1 and not np.isclose(result, results[next(iter(steps))], rtol=1e-4, atol=1e-5):
            found.append(f"{where}: the next call gives {result}, not {results[next(iter(steps))]}")
    assert hits >= min(_SAMPLE, len(names))
    return found


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", SCENARIOS)
def test_failures(name, compiles, monkeypatch, group):
    injection = _Injection(monkeypatch)
    found = []
    for calls in (0, 2) if _ALL else (2,):
        found += _problems(name, compiles, injection, calls)
    program._programs.clear()
    assert not found, "\n".join(found)


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
def test_a_forward_that_fails_where_gradients_are_exchanged(compiles, monkeypatch, group):
    """Forward is recorded, and runs there: the next one begins anew."""
    injection = _Injection(monkeypatch)
    call, _ = _ddp(compiles)
    want = [call() for _ in range(3)]
    program._programs.clear()
    call, _ = _ddp(compiles)
    assert np.allclose([call(), call()], want[:2])
    program._programs.clear()
    assert isinstance(injection.at("tanh", _KINDS["operator"], 10**6, call), (ValueError, RuntimeError))
    assert injection.hits
    assert np.isclose(call(), want[2], rtol=1e-5)


def _branches(a, b, c, d):
    return (a.tanh() * b).sum() + c.exp().sum() + (d * 3).sum()


def _graph(loss):
    """The nodes of a graph by their names, without numbers."""
    found, stack = {}, [loss.grad_fn]
    while stack:
        node = stack.pop()
        found.setdefault(node.name().removesuffix("0"), node)
        stack += [n for n, _ in node.next_functions if n is not None]
    return found


@pytest.mark.parametrize("has_gradients", [False, True])
@pytest.mark.parametrize("creates", [False, True], ids=["plain", "create_graph"])
@pytest.mark.parametrize("place", ["tanh", "exp", "tanh_backward", "exp_backward"])
def test_a_backward_that_fails_is_one(place, creates, has_gradients, monkeypatch):
    """What leaves get before a step that fails they keep, and they get nothing after it: as in PyTorch, where it would have
    raised there. The forward of a micro-batch that fails gives none of them anything."""
    def leaves(library):
        made = [library.tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(4)]
        for leaf in made if has_gradients else ():
            leaf.grad = library.full((3,), 10.0)
        return made

    theirs = leaves(pytest.importorskip("torch"))
    if place.endswith("_backward"):
        loss = _branches(*theirs)

        def fails(_):
            raise MemoryError

        _graph(loss)[f"{place.split('_')[0].capitalize()}Backward"].register_prehook(fails)
        with pytest.raises(MemoryError):
            loss.backward(create_graph=creates)
    injection, ours, losses = _Injection(monkeypatch), leaves(torch), []

    def call():
        losses.append(_branches(*ours))
        losses[0].backward(create_graph=creates)
        losses[0].item()
        [leaf.grad is None or leaf.grad.tolist() for leaf in ours]

    program._programs.clear()
    assert injection.at(place, _KINDS["memory"], 10**6, call) is not None and injection.hits
    program._programs.clear()
    for own, wanted in zip(ours, theirs):
        assert (own.grad is None) == (wanted.grad is None)
        assert own.grad is None or np.allclose(own.grad.detach().numpy(), wanted.grad.detach().numpy())


def test_a_backward_from_what_has_failed_gives_nothing(monkeypatch):
    injection = _Injection(monkeypatch)
    a, b = (torch.ones(3, requires_grad=True) for _ in range(2))
    loss = a.tanh().sum() + b.sum()
    program._programs.clear()
    assert injection.at("tanh", _KINDS["memory"], 10**6, loss.item) is not None
    with pytest.raises(RuntimeError):
        loss.backward()
    assert a.grad is None and b.grad is None


@pytest.mark.parametrize("place", ["tanh", "exp_backward", "tanh_backward"])
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.Rprop])
def test_an_optimizer_makes_no_step_of_a_backward_that_fails(kind, place, monkeypatch):
    """Not even for the parameters whose gradients were there."""
    injection = _Injection(monkeypatch)
    leaves = [torch.ones(3, requires_grad=True) for _ in range(4)]
    optimizer = kind(leaves, lr=0.1)

    def call():
        loss = _branches(*leaves)
        loss.backward()
        optimizer.step()
        loss.item()

    program._programs.clear()
    assert injection.at(place, _KINDS["memory"], 10**6, call) is not None and injection.hits
    assert all(leaf.tolist() == [1.0] * 3 for leaf in leaves)


@pytest.mark.parametrize("compiles", [False, True], ids=["eager", "compiled"])
def test_leaves_have_no_gradient_of_a_backward_that_fails(compiles, monkeypatch):
    """The micro-batch that failed is left out: those before and after it are accumulated."""
    injection = _Injection(monkeypatch)
    w, v = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)

    def micro_batch(x):
        (torch.tanh(w * x) * v).square().sum().backward()

    run = torch.compile(micro_batch) if compiles else micro_batch

    def call():
        run(torch.ones(3))
        return w.grad.sum().item()

    for place in ("tanh", "tanh_backward", "mul_backward"):
        program._programs.clear()
        assert injection.at(place, _KINDS["memory"], 10**6, call) is not None
        assert injection.hits
        assert w.grad is None
        assert v.grad is None or place != "tanh"
        v.grad = None
    call()
    once = w.grad.tolist(), v.grad.tolist()
    program._programs.clear()
    error = injection.at("tanh", _KINDS["memory"], 10**6, call)
    if error is not None:  # else the compiled function had its program
        assert (w.grad.tolist(), v.grad.tolist()) == once
    else:
        w.grad, v.grad = w.grad / 2, v.grad / 2
    call()
    assert np.allclose(w.grad.numpy(), 2 * np.array(once[0])) and np.allclose(v.grad.numpy(), 2 * np.array(once[1]))
