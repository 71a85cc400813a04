"""What real functions do, compiled: the same program in PyTorch and here, results and effects compared."""

import contextlib
import functools
import warnings

import pytest
import torch as pt

import ftorch as ft
from tests.jit.both import same


def _contexts(m, compiled):
    log = []

    class Context:
        def __enter__(self):
            log.append("in")
            return 2

        def __exit__(self, *_):
            log.append("out")

    def function(x):
        with Context() as k:
            return x * k

    call = compiled(function)
    results = [call(m.ones(2)) for _ in range(3)]
    assert log == ["in", "out"] * 3 or m is pt  # PyTorch forgets them
    return results


def _rates(m, compiled):
    w = m.nn.Parameter(m.ones(3))
    optimizer = m.optim.SGD([w], lr=m.tensor(0.1))
    schedule = m.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def step():
        optimizer.step()
        schedule.step()

    call, seen = compiled(step), []
    for _ in range(3):
        (w**2).sum().backward()
        call()
        optimizer.zero_grad()
        seen.append((w.detach().clone(), float(schedule.get_last_lr()[0])))
    return seen


def _devices(m, compiled):
    def function():
        with m.device("meta"):
            return m.ones(2)

    return [compiled(function)().device.type for _ in range(2)]


def _keywords(m, compiled):
    out = m.empty(2)
    compiled(lambda x: m.add(x, 1, out=out))(m.ones(2))
    call = compiled(functools.partial(m.add, alpha=2))
    loss = compiled(functools.partial(m.nn.functional.mse_loss, reduction="sum"))
    return out, call(m.ones(2), m.ones(2)), call(m.ones(2), m.zeros(2)), loss(m.ones(2), m.zeros(2))


def _parameters(m, compiled):
    call = compiled(lambda x: m.nn.Parameter(x * 2) * 3)
    return [call(m.ones(2)).detach() for _ in range(2)]


def _loops(m, compiled):
    loop = m._higher_order_ops.while_loop
    call = compiled(lambda x: loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (m.tensor(0), x)))
    return call(m.ones(2)), call(m.zeros(2))


def _stances(m, compiled):
    call, seen = compiled(lambda x: x + 1), []
    with m.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        call(m.ones(1))
    call(m.ones(1))
    with m.compiler.set_stance("fail_on_recompile"):
        seen.append(call(m.zeros(1)))
        with pytest.raises(RuntimeError, match="Detected recompile"):
            call(m.ones(1, dtype=m.float64))
    return seen


def _limits(m, compiled):
    call = compiled(lambda x, text: x * len(text), fullgraph=True, dynamic=False)
    with m._dynamo.config.patch(recompile_limit=2), pytest.raises(Exception) as error:
        for n in range(5):
            call(m.ones(1), "a" * n)
    return error.type.__name__, str(error.value).splitlines()[0]


def _cached(m, compiled):
    class Net(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = None
            self.steps = 0
            self.register_buffer("kept", m.zeros(4, 2))

        def forward(self, x):
            if self.cache is None:
                self.cache = x * 2
            self.kept[self.steps] = x
            self.steps += 1
            return self.cache + self.kept[: self.steps].sum(0)

    net = Net()
    call = compiled(net)
    return [call(m.ones(2) + i) for i in range(3)], net.cache, net.kept, net.steps


def _managers(m, compiled):
    @contextlib.contextmanager
    def scaled(k):
        yield k * 2

    def function(x, table, key):
        try:
            with scaled(3) as k:
                table["seen"] = x * k
                return x / table[key]
        except KeyError:
            return x + 5
        finally:
            x.add_(1)

    table, x = {}, m.ones(2)
    call = compiled(function)
    return [call(x, table, "none"), call(x, table, "seen")], x, table["seen"]


def _inference(m, compiled):
    call = compiled(lambda x: (x * 2, [x.sum()]))
    with m.inference_mode():
        results = [call(m.ones(2)) for _ in range(2)]
    assert all(a.is_inference() and b.is_inference() for a, (b,) in results)
    return [a.tolist() for a, _ in results], call(m.ones(2))[0].is_inference()


def _warnings(m, compiled):
    def function(x):
        warnings.warn("mine", stacklevel=1)
        return x + 1

    call = compiled(function)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        results = [call(m.ones(1)) for _ in range(3)]
    m._dynamo.reset()
    with pytest.raises(m._dynamo.exc.Unsupported, match="marked as skipped"):
        compiled(function, fullgraph=True)(m.ones(1))
    return results, sum(str(w.message) == "mine" for w in seen)


_PROGRAMS = [_contexts, _rates, _devices, _keywords, _parameters, _loops, _stances, _limits, _cached,
             _managers, _inference, _warnings]


@pytest.fixture(scope="module")
def expected():
    found = {}
    for program in _PROGRAMS:
        pt._dynamo.reset()
        found[program] = program(pt, functools.partial(pt.compile, backend="eager"))
    return found


@pytest.mark.parametrize("backend", ["inductor", "eager"])
@pytest.mark.parametrize("program", _PROGRAMS)
def test_programs(expected, program, backend):
    same(program(ft, functools.partial(ft.compile, backend=backend)), expected[program])


def test_counters():
    counters = ft._dynamo.utils.counters

    def prints(x):
        print(end="")
        return x.sin()

    counters.clear()
    ft.compile(lambda x: x.sin() + 1)(ft.ones(2))
    ft.compile(prints)(ft.ones(2))
    assert counters["stats"] == {"unique_graphs": 1, "calls_captured": 2}
    assert counters["frames"] == {"total": 2, "ok": 1}
    assert counters["graph_break"] == {"Failed to trace builtin operator": 1}
