"""Functions that draw random numbers are ATen's overloads in graphs, so that passes know them: PyTorch's nodes and numbers."""

import pytest

import ftorch
import ftorch.func
from ftorch.fx.experimental.proxy_tensor import make_fx
from ftorch.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops

torch = pytest.importorskip("torch")

# Of each its whole graph is PyTorch's.
DRAWN = {
    "rand_like": lambda t, x: t.rand_like(x),
    "rand_like of a dtype": lambda t, x: t.rand_like(x, dtype=t.float64),
    "randn_like": lambda t, x: t.randn_like(x),
    "randint_like": lambda t, x: t.randint_like(x, 3),
    "randint_like between": lambda t, x: t.randint_like(x, 1, 3),
    "rand": lambda t, x: t.rand(2, 3),
    "randn": lambda t, x: t.randn([2], dtype=t.float64),
    "randint": lambda t, x: t.randint(3, (2,)),
    "randint between": lambda t, x: t.randint(1, 3, (2,), dtype=t.int32),
    "randperm": lambda t, x: t.randperm(4),
    "randperm of a dtype": lambda t, x: t.randperm(4, dtype=t.int32),
    "normal": lambda t, x: t.normal(x, x),
    "normal, number": lambda t, x: t.normal(x, 2.0),
    "normal, mean a number": lambda t, x: t.normal(2.0, x),
    "normal of a size": lambda t, x: t.normal(0.0, 1.0, (2,)),
    "bernoulli": lambda t, x: t.bernoulli(x),
    "multinomial": lambda t, x: t.multinomial(x, 2, replacement=True),
    "poisson": lambda t, x: t.poisson(x),
    "binomial": lambda t, x: t.binomial(x * 0 + 3, x),
    "uniform_": lambda t, x: x.clone().uniform_(1, 2),
    "normal_": lambda t, x: x.clone().normal_(1.0, 2.0),
    "exponential_": lambda t, x: x.clone().exponential_(),
    "geometric_": lambda t, x: x.clone().geometric_(0.5),
    "random_": lambda t, x: x.clone().random_(),
    "random_ below": lambda t, x: x.clone().random_(3),
    "cauchy_": lambda t, x: x.clone().cauchy_(),
}


def _graph(t, trace, function):
    """(nodes of the graph as text, what it draws, what the function draws)"""
    x = t.full((2, 3), 0.5)
    module = trace(function)(x)
    nodes = [(str(n.target), repr(n.args), repr(n.kwargs)) for n in module.graph.nodes if n.op == "call_function"]
    drawn = []
    for run in (module, function):
        t.manual_seed(1)
        drawn.append(run(x).tolist())
    return nodes, *drawn


@pytest.mark.parametrize("name", DRAWN)
def test_nodes_are_pytorchs(name):
    from torch.fx.experimental.proxy_tensor import make_fx as theirs

    mine, again, eager = _graph(ftorch, make_fx, lambda x: DRAWN[name](ftorch, x))
    expected, _, numbers = _graph(torch, theirs, lambda x: DRAWN[name](torch, x))
    assert mine == expected
    assert again == eager == numbers


@pytest.mark.parametrize("name", [name for name in DRAWN if name.split()[0].endswith("_")])
def test_functionalized_draws_write_nothing(name):
    import torch.func
    from torch.fx.experimental.proxy_tensor import make_fx as theirs

    def part(t, trace):
        return lambda function: trace(t.func.functionalize(function))

    mine, again, eager = _graph(ftorch, part(ftorch, make_fx), lambda x: DRAWN[name](ftorch, x))
    expected, _, numbers = _graph(torch, part(torch, theirs), lambda x: DRAWN[name](torch, x))
    assert mine == expected
    assert again == eager == numbers


def test_equal_draws_are_not_merged():
    def drawn_twice(x):
        return [draw(x) - draw(x) for draw in (
            ftorch.rand_like, lambda x: ftorch.rand(3), lambda x: ftorch.randperm(3), lambda x: ftorch.normal(x, x),
            ftorch.bernoulli, lambda x: ftorch.multinomial(x, 1), ftorch.poisson,
        )]

    module = make_fx(drawn_twice)(ftorch.full((2, 3), 0.5))
    merged = CSEPass(banned_ops=get_CSE_banned_ops())(module).graph_module
    assert len(merged.graph.nodes) == len(module.graph.nodes)
