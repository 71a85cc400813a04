"""``torch._dynamo.explain`` cuts functions into the graphs that PyTorch cuts them into."""

import gc
import random
import time

import pytest
import torch as pt

import ftorch as ft
from ftorch.jit.graphs import call_recorder


def _functions(m):
    """Functions of a library `m` with one thing or another that ends a program."""

    def printed(x):
        y = m.sin(x) + 1
        print(end="")
        return m.cos(y)

    def branches(x):
        y = m.sin(x) + 1
        if y.sum() > 0:
            y = y * 2
        return m.cos(y)

    def item(x):
        y = m.sin(x) + 1
        return m.cos(y) * y.sum().item()

    def item_first(x):
        return m.cos(x) * x.sum().item()

    def breaks(x):
        y = m.sin(x)
        m._dynamo.graph_break()
        return m.cos(y)

    def at_the_end(x):
        y = m.sin(x)
        print(end="")
        return y

    def at_the_start(x):
        print(end="")
        return m.sin(x)

    def several(x):
        y = m.sin(x)
        print(end="")
        y = y + 1
        print(end="")
        return y * 2

    def inner(x):
        x = x + 1
        print(end="")
        return x * 2

    def in_a_call(x):
        return m.cos(inner(m.sin(x)))

    def in_a_loop(x):
        for i in range(3):
            x = x + i
            print(end="")
        return x * 2

    def while_looks(x):
        while x.sum() < 10:
            x = x + 1
        return x

    def whole(x):
        return m.sin(x).relu() + 1

    def nothing(x):
        return x

    @m.compiler.disable
    def disabled(x):
        return x * 3

    def calls_disabled(x):
        return disabled(m.sin(x)) + 1

    def truth(x):
        return x + 1 if bool((x > 0).all()) else x - 1

    def masks(x):
        return x[x > 0] * 2

    def asserts(x):
        assert (x > -5).all()
        return x + 1

    def tries(x):
        try:
            y = x + 1
            print(end="")
        finally:
            y = x * 2
        return y

    def within(x):
        with m.no_grad():
            y = x + 1
            print(end="")
            y = y * 2
        return y + 1

    def clock(x):
        y = x + 1
        time.time()
        return y * 2

    def chance(x):
        return (x + 1) * random.random()

    def equal(x):
        return x + 1 if m.equal(x, x) else x

    def operators(x):
        y = 2 - x
        y += 1
        y[0] = 3
        a, b = y.chunk(2) if len(y) == 4 else y.split(2)
        return -(a * x[:2] / 2) @ a, b.mean(), x.max(0).values, 1 / y > x

    return [v for v in locals().values() if callable(v) and v is not disabled and v is not inner]


_PAIRS = [(f, g) for f, g in zip(_functions(pt), _functions(ft))]


def _facts(found):
    return {
        "graphs": found.graph_count, "breaks": found.graph_break_count, "ops": found.op_count,
        "names": [[f.__name__ for f in ops] for ops in found.ops_per_graph],
        "reasons": [b.reason.splitlines()[0] for b in found.break_reasons],
        "lines": [[s.lineno for s in b.user_stack] for b in found.break_reasons],
    }


@pytest.mark.parametrize("theirs, own", _PAIRS, ids=lambda f: f.__name__)
def test_as_many_graphs(theirs, own):
    pt._dynamo.reset()
    expected = _facts(pt._dynamo.explain(theirs)(pt.ones(3)))
    found = ft._dynamo.explain(own)(ft.ones(3))
    assert _facts(found) == expected
    assert f"Graph Count: {expected['graphs']}" in str(found)
    assert all(isinstance(g, ft.fx.GraphModule) for g in found.graphs)


class _Left:
    """Garbage in a cycle, with a finalizer that no program could repeat."""

    def __init__(self, file):
        self.cycle, self.file = self, file

    def __del__(self):
        self.file.write("x")


def _when_collected(phase, _):
    time.perf_counter()  # as Hypothesis does


@pytest.mark.parametrize("place", [0, 100])
def test_garbage_collected_meanwhile_is_no_part_of_it(place, monkeypatch, tmp_path):
    gc.callbacks.insert(place, _when_collected)
    try:
        _collected_meanwhile(monkeypatch, tmp_path)
    finally:
        gc.callbacks.remove(_when_collected)


def _collected_meanwhile(monkeypatch, tmp_path):
    def function(x):
        return ft.sin(x) + 1

    scope = {"__name__": "ftorch.collects", "collect": gc.collect, "copied": call_recorder._copied}
    code = "def collects(value):\n    collect()\n    return copied(value)"
    exec(compile(code, call_recorder.__file__, "exec"), scope)  # as if allocating in the recorder had set it off
    monkeypatch.setattr(call_recorder, "_copied", scope["collects"])
    with open(tmp_path / "written", "w") as file:
        gc.disable()
        try:
            _Left(file)
            found = ft._dynamo.explain(function)(ft.ones(3))
        finally:
            gc.enable()
    assert (tmp_path / "written").read_text() == "x"
    assert (found.graph_count, found.op_count) == (1, 2)
    assert not any("file" in guard for guard in found.out_guards)


def test_of_modules():
    found = ft._dynamo.explain(ft.nn.Sequential(ft.nn.Linear(2, 3), ft.nn.ReLU()))(ft.ones(1, 2))
    assert (found.graph_count, found.graph_break_count, found.op_count) == (1, 0, 2)
    assert found.ops_per_graph == [[ft.nn.functional.linear, ft.nn.functional.relu]]
    assert any("Linear.training" in guard for guard in found.out_guards)
    assert found.compile_times.startswith("TorchDynamo compilation metrics")
