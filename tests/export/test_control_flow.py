"""``cond`` and ``while_loop`` in exported programs: graphs in the graph, in all forms of a program."""

import copy
import io

import jax
import numpy as np
import pytest
import torch as pt
from torch._higher_order_ops import while_loop as their_while_loop

import ftorch as ft
from ftorch._dynamo.exc import UncapturedHigherOrderOpError
from ftorch.fx.experimental.proxy_tensor import make_fx


def make(torch):
    while_loop = ft.while_loop if torch is ft else their_while_loop

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
            with torch.no_grad():
                for i, p in enumerate(self.parameters()):
                    p.copy_(torch.linspace(-1, 1, p.numel()).view(p.shape) * (i + 1))

        def forward(self, x, y):
            def body(i, z):
                # One inside the other, both with tensors from around.
                return i + 1, torch.cond(
                    z.mean() > 0.3, lambda z: z * 0.5 - y, lambda z: self.a(z).tanh(), (z,)
                )

            def first(x):
                return self.a(x).relu() + y

            def second(x):
                z = self.b(x)
                z.sub_(y)
                return z.view(x.shape[0], -1).sin()

            z = torch.cond(x.sum() > 0, first, second, (x,)) * 2
            i, z = while_loop(lambda i, z: i < 4, body, (torch.zeros((), dtype=torch.int64), z))
            return z, {"i": i}

    return Net()


def arguments(torch, sign=1, n=2):
    return torch.linspace(-1, 1, 3 * n).view(n, 3) + sign, torch.tensor([0.1, 0.2, 0.3])


THEIRS = make(pt)


def array(t):
    return t.detach().numpy() if hasattr(t, "detach") else np.asarray(t)


def assert_branches(function, n=2, library=ft):
    for sign in (1, -1, 0.1):
        z, i = function(*arguments(library, sign, n))
        wanted, count = THEIRS(*arguments(pt, sign, n))
        np.testing.assert_allclose(array(z), array(wanted), rtol=1e-5, atol=1e-6)
        assert int(i["i"]) == int(count["i"])


@pytest.fixture(scope="module")
def programs():
    fixed = ft.export.export(make(ft), arguments(ft))
    sizes = ({0: ft.export.Dim("n")}, None)
    return fixed, ft.export.export(make(ft), arguments(ft), dynamic_shapes=sizes)


def graphs(program):
    """{path: ops} of the graph and those in it, without the order of operands and sizes' nodes."""
    found = {}
    for name, m in program.graph_module.named_modules():
        ops = [str(n.target) for n in m.graph.nodes if n.op == "call_function"]
        found[name] = sorted(o for o in ops if not o.startswith(("aten.sym_size", "aten._assert")))
    return found


def test_graphs_are_pytorchs(programs):
    theirs = pt.export.export(THEIRS, arguments(pt))
    assert graphs(programs[0]) == graphs(theirs)
    node = next(n for n in programs[0].graph.nodes if n.name == "cond")
    assert node.target is ft.ops.higher_order.cond
    assert [n.name for n in node.args[1:3]] == ["true_graph_0", "false_graph_0"]
    assert "torch.ops.higher_order.while_loop(while_loop_cond_graph_0" in str(programs[0])


def test_modules(programs):
    fixed, dynamic = programs
    assert_branches(fixed.module())
    assert_branches(dynamic.module(), 5)
    assert_branches(copy.deepcopy(dynamic).module(), 4)
    assert_branches(ft.export.unflatten(fixed))


def test_decomposed(programs):
    for program, n in zip(programs, (2, 5)):
        made = program.run_decompositions()
        assert_branches(made.module(), n)
        for inner in made.graph_module.modules():
            for node in inner.graph.nodes:
                assert "linear" not in str(node.target) and "sub_" not in str(node.target)


@pytest.mark.parametrize("decomposed", [False, True])
def test_files(programs, decomposed):
    program = programs[0].run_decompositions() if decomposed else programs[0]
    buffer = io.BytesIO()
    ft.export.save(program, buffer)
    buffer.seek(0)
    assert_branches(ft.export.load(buffer).module())
    buffer.seek(0)
    assert_branches(pt.export.load(buffer).module(), library=pt)


def test_stablehlo(programs):
    for program, n in zip(programs, (2, 5)):
        call = jax.export.deserialize(bytearray(program.to_stablehlo())).call
        assert_branches(lambda *a: call(*(t.numpy() for t in a)), n)  # noqa: B023


def branches_of(make_function):
    """What an export of each library raises or gives."""
    found = []
    for torch in (ft, pt):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("b", torch.ones(3))  # noqa: B023

            def forward(self, x):
                return make_function(torch, self)(x)  # noqa: B023

        try:
            found.append(torch.export.export(Net(), (torch.ones(3),)))
        except Exception as error:
            found.append(error)
    return found


@pytest.mark.parametrize("true", [
    lambda m: lambda x: x, lambda m: lambda x: x[:],
    lambda m: lambda x: m.b.add_(1), lambda m: lambda x: x.mul_(2) + 1,
])
def test_functions_that_write_or_alias(true):
    ours, theirs = branches_of(
        lambda torch, m: lambda x: torch.cond(x.sum() > 0, true(m), lambda x: x + 1, (x,))
    )
    assert isinstance(ours, UncapturedHigherOrderOpError)
    assert type(theirs).__name__ == type(ours).__name__
    what = "aliasing" if "aliasing" in str(theirs) else "input mutation"
    assert f"Encountered {what} during higher order op tracing" in str(ours)


@pytest.mark.parametrize("true", [
    lambda x: (x.sin(), x.cos()), lambda x: x.double().sin(), lambda x: x.sin()[None],
])
def test_functions_that_disagree(true):
    ours, theirs = branches_of(lambda torch, m: lambda x: torch.cond(x.sum() > 0, true, lambda x: x + 1, (x,)))
    assert isinstance(ours, RuntimeError) and isinstance(theirs, RuntimeError)
    assert str(ours)[:40] in str(theirs)


def test_make_fx():
    def function(torch):
        return lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x + 1, (x,))

    ours = make_fx(function(ft))(ft.ones(3))
    theirs = pt.fx.experimental.proxy_tensor.make_fx(function(pt))(pt.ones(3))
    for name in ("true_graph_0", "false_graph_0"):
        assert getattr(ours, name).code.strip() == getattr(theirs, name).code.strip()
    for x in ([1.0, 2, 3], [-1.0, -2, -3]):
        np.testing.assert_allclose(ours(ft.tensor(x)).numpy(), theirs(pt.tensor(x)).numpy(), 1e-6)


@pytest.mark.parametrize("transform", [True, False])
def test_gradients_of_a_recorded_cond(transform):
    """A ``cond`` of the branches' gradients, also for what the branches take from around."""

    def make(torch):
        w = torch.linspace(-1, 1, 3)

        def f(x):
            scale = x * 3
            y = torch.cond(
                x.sum() > 0, lambda x: x.sin() * scale, lambda x: (x.exp() + 1).clone(), (x,)
            )
            return (y * w).sum()

        def gradient(x):
            if transform and torch is ft:
                return torch.func.grad(f)(x)
            return torch.autograd.grad(f(x), x)[0]

        return gradient

    graph = make_fx(make(ft))(ft.ones(3, requires_grad=not transform))
    assert sum("cond" in str(n.target) for n in graph.graph.nodes if n.op == "call_function") >= 1
    for sign in (1.0, -1.0):
        x = pt.linspace(0.1, 1, 3) * sign
        wanted = make(pt)(x.requires_grad_())
        found = graph((ft.linspace(0.1, 1, 3) * sign).requires_grad_(not transform))
        np.testing.assert_allclose(array(found), array(wanted), rtol=1e-5, atol=1e-6)
