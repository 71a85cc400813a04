"""`make_fx`: what a function does, as a graph of ops; the graph does the same."""

import numpy as np
import pytest
import torch as pt
from torch.fx.experimental.proxy_tensor import make_fx as theirs_make_fx

import ftorch as ft
from ftorch.fx.experimental.proxy_tensor import make_fx
from tests.oracle import both

F = ft.nn.functional


def _gradient(x, w):
    w = w.requires_grad_()
    loss = ((x @ w).sin() ** 2).mean()
    return ft.autograd.grad(loss, w)


def _second_gradient(x, w):
    f = lambda x: (x.sin() * x).sum()  # noqa: E731
    return ft.func.grad(lambda x: ft.func.grad(f)(x).sum())(x)


def _writes(x, w):
    out = ft.zeros(3, 3)
    out += x
    out[0] = 5
    out[:, 1].mul_(2)
    x[1] = w[0]
    x.view(-1)[0] = 7
    return out, x * 2


def _several(x, w):
    values, indices = x.sort()
    return {"values": values, "rest": [indices, x.max(1), x.nonzero(), ft.cat([x, w]).split(2)]}


def _network(x, w):
    y = F.layer_norm(F.gelu(F.linear(x, w)), (3,))
    return F.cross_entropy(y, ft.arange(3)), F.softmax(y, -1).view(-1)[1:4], y.T @ y


def _mapped(x, w):
    return ft.vmap(ft.dot)(x, w), ft.func.jacrev(lambda x: x.sin())(x[0])


def _tangent(x, w):
    return ft.func.jvp(lambda x: x.exp() * w, (x,), (ft.ones_like(x),))


PROGRAMS = [_gradient, _second_gradient, _writes, _several, _network, _mapped, _tangent]


def leaves(tree):
    return ft.utils._pytree.tree_leaves(tree)


def arrays(seed):
    random = np.random.default_rng(seed)
    return [ft.from_numpy(random.standard_normal((3, 3)).astype(np.float32)) for _ in range(2)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_graph_does_the_same(program):
    graph = make_fx(program)(*arrays(0))
    graph.graph.lint()
    for seed in (1, 2):  # with other values than those of the trace, and twice
        mine, wanted = graph(*arrays(seed)), program(*arrays(seed))
        assert len(leaves(mine)) == len(leaves(wanted))
        for a, b in zip(leaves(mine), leaves(wanted)):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_code():
    def f(x, y):
        return x.add_(y).sin().sum(dim=0, keepdim=True), x[0] * 2

    code = make_fx(f)(ft.ones(3, 3), ft.ones(3, 3)).code
    assert "def forward(self, x_1, y_1):" in code
    assert "add_ = torch.ops.aten.add_.Tensor(x_1, y_1)" in code
    assert "sum_1 = torch.ops.aten.sum.dim_IntList(sin, [0], True)" in code


def test_nested_arguments():
    graph = make_fx(lambda d: {"o": d["a"] + 1.0, "b": [d["b"][0]]})(
        {"a": ft.ones(3), "b": [ft.ones(2)]}
    )
    assert "d_1, d_2, = fx_pytree.tree_flatten_spec([d], self._in_spec)" in graph.code
    out = graph({"a": ft.zeros(3), "b": [ft.zeros(2)]})
    assert out["o"].tolist() == [1.0] * 3 and out["b"][0].tolist() == [0.0] * 2


def test_constants_are_shared_with_the_module():
    linear = ft.nn.Linear(2, 2)
    graph = make_fx(linear)(ft.ones(1, 2))
    assert [n.target for n in graph.graph.nodes if n.op == "get_attr"] == [
        "_param_constant0", "_param_constant1",
    ]
    assert graph._param_constant0 is linear.weight
    with ft.no_grad():
        linear.weight.zero_()
    assert ft.equal(graph(ft.ones(1, 2)), linear(ft.ones(1, 2)))


def test_random_numbers_are_drawn_anew():
    def f(x):
        return F.dropout(x, 0.5) + ft.rand(4) + ft.empty(4).normal_()

    graph = make_fx(f)(ft.ones(4))
    ft.manual_seed(3)
    wanted = f(ft.ones(4))
    ft.manual_seed(3)
    assert ft.equal(graph(ft.ones(4)), wanted)


def test_batch_norm_updates_its_statistics():
    norm = ft.nn.BatchNorm1d(3)
    graph = make_fx(norm)(ft.randn(4, 3))
    before = norm.running_mean.clone()
    graph(ft.randn(4, 3) + 5)
    assert not ft.equal(norm.running_mean, before)


@pytest.mark.parametrize(
    "function", [lambda x: x.sum().item() * 2, lambda x: x if x.sum() > 0 else -x], ids=["item", "if"]
)
def test_values_are_refused(function):
    with pytest.raises(RuntimeError, match="trying to get value out of a tracing tensor"):
        make_fx(function)(ft.ones(2))


def test_tracing_mode():
    with pytest.raises(AssertionError, match="tracing_mode must be real/fake/symbolic, got foo"):
        make_fx(lambda x: x, tracing_mode="foo")(ft.ones(2))


def test_decompositions():
    table = {ft.ops.aten.sigmoid.default: lambda x: 1 / (1 + (-x).exp())}
    graph = make_fx(lambda x: ft.sigmoid(x), decomposition_table=table)(ft.ones(2))
    assert "sigmoid" not in graph.code and "exp" in graph.code
    np.testing.assert_allclose(graph(ft.zeros(2)).numpy(), [0.5, 0.5])


def test_compiled():
    graph = make_fx(_network)(*arrays(0))
    compiled = ft.compile(graph)
    for _ in range(3):
        for a, b in zip(leaves(compiled(*arrays(1))), leaves(_network(*arrays(1)))):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def _sizes(torch):
    return {
        "half": lambda x: x * (x.shape[0] / 2),
        "arange": lambda x: torch.arange(x.shape[0]) + x.sum(),
        "rounded": lambda x: x.new_zeros(-(-x.shape[0] // 3), x.shape[1] + 1),
        "joined": lambda x: torch.cat([x, x.new_zeros(x.shape[0], 3)], 1),
        "branch": lambda x: x + 1 if x.shape[0] > 3 else x - 1,
        "values": lambda x: x.sum(0) / x.shape[0] + torch.zeros(x.shape[1]),
    }


@pytest.mark.parametrize("name", _sizes(ft))
def test_symbolic_graphs_are_for_all_sizes(name):
    other = np.arange(40, dtype=np.float32).reshape(8, 5)
    state = ft.get_rng_state()
    graph = make_fx(_sizes(ft)[name], tracing_mode="symbolic")(ft.ones(4, 3))
    theirs = theirs_make_fx(_sizes(pt)[name], tracing_mode="symbolic")(pt.ones(4, 3))
    np.testing.assert_array_equal(
        graph(ft.from_numpy(other)).numpy(), theirs(pt.from_numpy(other)).numpy()
    )
    assert ft.equal(state, ft.get_rng_state())
    value = next(n for n in graph.graph.nodes if n.op == "placeholder").meta["val"]
    assert value.dim() == 2 and value.dtype == ft.float32


CREATIONS = {
    "arange": lambda t, x: t.arange(4, dtype=t.float32), "arange of floats": lambda t, x: t.arange(4.0),
    "arange from": lambda t, x: t.arange(1, 4, dtype=t.float32), "arange of ints": lambda t, x: t.arange(4),
    "full": lambda t, x: t.full((2,), 1, dtype=t.float32), "full of a bool": lambda t, x: t.full((2,), True, dtype=t.float32),
    "full of ints": lambda t, x: t.full((2,), 1), "full of floats": lambda t, x: t.full((2,), 1.0, dtype=t.int64),
    "scalar": lambda t, x: t.scalar_tensor(1), "scalar of ints": lambda t, x: t.scalar_tensor(1, dtype=t.int64),
    "sizes": lambda t, x: t.arange(x.shape[0], dtype=x.dtype), "linspace": lambda t, x: t.linspace(0, 1, 3),
    "half": lambda t, x: t.arange(3, dtype=t.float64), "full_like": lambda t, x: t.full_like(x.long(), 1, dtype=t.float32),
}


@pytest.mark.parametrize("name", CREATIONS)
@pytest.mark.parametrize("mode", ["real", "symbolic"])
def test_graphs_make_tensors_of_the_dtype_that_was_asked_for(name, mode):
    """The default dtype, too, which is not what ranges and filled tensors of integers have by default."""

    def run(t):
        trace = make_fx if t is ft else theirs_make_fx
        graph = trace(lambda x: CREATIONS[name](t, x) + 0, tracing_mode=mode)(t.ones(3))
        return graph(t.ones(3))

    both(run)
