"""``vmap`` against PyTorch: values, random numbers and error texts, program by program."""

from __future__ import annotations

import numpy as np
import pytest
import torch as pt

import ftorch as ft
import ftorch.nn.functional  # noqa: F401
from tests.oracle import assert_same, assert_same_outcome, outcome


def _set_item(torch):
    def f(x):
        y = torch.zeros(2)
        y[0] = x[0]
        return y

    return f


def _inplace_view(torch):
    def f(x):
        y = x.clone()
        y[0].mul_(3)
        y.view(2)[1:].add_(x[0])
        return y

    return f


def _seeded(torch):
    def f(x):
        torch.manual_seed(0)
        return torch.rand(2)

    return f


X = "torch.arange(1.0, 7.0).reshape(3, 2)"
RANDOM = {
    "randn": lambda torch: lambda x: torch.randn(2),
    "many": lambda torch: lambda x: torch.randn(40),
    "randn_like": lambda torch: lambda x: torch.randn_like(x),
    "rand_like of a shared tensor": lambda torch: lambda x: torch.rand_like(torch.ones(2)),
    "randint": lambda torch: lambda x: torch.randint(0, 10, (2,)),
    "randperm": lambda torch: lambda x: torch.randperm(5),
    "dropout": lambda torch: lambda x: torch.nn.functional.dropout(x),
    "alpha_dropout": lambda torch: lambda x: torch.nn.functional.alpha_dropout(x, training=True),
    "bernoulli": lambda torch: lambda x: torch.bernoulli(x / 7),
    "bernoulli of a shared tensor": lambda torch: lambda x: torch.bernoulli(torch.full((2,), 0.5)),
    "bernoulli_": lambda torch: lambda x: x.clone().bernoulli_(0.5),
    "bernoulli_ of a batched tensor": lambda torch: lambda x: torch.zeros(2).bernoulli_(x / 7),
    "exponential_": lambda torch: lambda x: x.clone().exponential_(),
    "normal_ on a shared tensor": lambda torch: lambda x: torch.zeros(2).normal_(),
    "normal": lambda torch: lambda x: torch.normal(x, x),
    "poisson": lambda torch: lambda x: torch.poisson(x),
    "gamma": lambda torch: lambda x: torch._standard_gamma(x),
    "multinomial": lambda torch: lambda x: torch.multinomial(x, 1),
    "multinomial of a shared tensor": lambda torch: lambda x: torch.multinomial(torch.ones(3), 2),
    "manual_seed inside": _seeded,
    "generator": lambda torch: lambda x: torch.rand(
        2, generator=torch.Generator().manual_seed(1)),
}


def _both(run):
    results = []
    for torch in (ft, pt):
        torch.manual_seed(0)
        results.append(outcome(run, torch))
    return results


def _same_text(mine, theirs):
    if theirs[1] is not None:
        assert str(mine[1]) == str(theirs[1])


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
@pytest.mark.parametrize("name", RANDOM)
def test_random(name, randomness):
    """Random functions draw PyTorch's numbers, or raise its error."""

    def run(torch):
        x = torch.arange(1.0, 7.0).reshape(3, 2)
        return torch.vmap(RANDOM[name](torch), randomness=randomness)(x)

    mine, theirs = _both(run)
    assert_same_outcome(mine, theirs)
    _same_text(mine, theirs)


NESTED = [("same", "different"), ("different", "same"), ("error", "different")]


@pytest.mark.parametrize("outer, inner", NESTED)
def test_nested_randomness(outer, inner):
    """Each level has its own kind of randomness."""

    def run(torch):
        f = torch.vmap(lambda x: torch.rand(()) + x, randomness=inner)
        return torch.vmap(f, randomness=outer)(torch.ones(2, 3))

    mine, theirs = _both(run)
    assert_same_outcome(mine, theirs)


PROGRAMS = {
    "in_dims negative": lambda t, x: t.vmap(lambda x: x.sum(), in_dims=-1)(x),
    "in_dims in a list": lambda t, x: t.vmap(
        lambda v: v[0] + v[1], in_dims=([0, 1],))([x, x.t().contiguous()]),
    "in_dims in a dict": lambda t, x: t.vmap(
        lambda d: d["a"] * d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": t.ones(2)}),
    "out_dims": lambda t, x: t.vmap(lambda x: (x, x.sum()), out_dims=(1, 0))(x),
    "out_dims in a dict": lambda t, x: t.vmap(
        lambda x: {"a": x, "b": (x,)}, out_dims={"a": 1, "b": (0,)})(x)["a"],
    "out_dims None": lambda t, x: t.vmap(lambda x: t.ones(2), out_dims=None)(x),
    "out_dims negative": lambda t, x: t.vmap(lambda x: t.outer(x, x), out_dims=-1)(x),
    "no output": lambda t, x: t.vmap(lambda x: ())(x),
    "kwargs are shared": lambda t, x: t.vmap(lambda x, y=None: x + y)(x, y=x),
    "chunks": lambda t, x: t.vmap(lambda x: (x * 2, x.sum()), (0,), (1, 0), chunk_size=2)(x),
    "empty": lambda t, x: t.vmap(lambda x: x * 2)(t.ones(0, 2)),
    "nested": lambda t, x: t.vmap(t.vmap(lambda a, b: a * b, (0, None)), (0, 0))(x, x[:, 0]),
    "in-place and views": lambda t, x: t.vmap(_inplace_view(t))(x),
    "index of a batched tensor": lambda t, x: t.vmap(
        lambda x, i: x.index_select(0, i))(x, t.tensor([[0], [1], [0]])),
    "iteration": lambda t, x: t.vmap(lambda x: sum(x) * len(x))(x),
    "named results": lambda t, x: t.vmap(lambda x: x.max(0))(x),
    "host function": lambda t, x: t.vmap(lambda x: t.bincount(x.long(), minlength=8))(x),
    "batch norm, eval": lambda t, x: t.vmap(t.nn.BatchNorm1d(2).eval())(x.reshape(3, 1, 2)),
    "batch norm without statistics": lambda t, x: t.vmap(
        t.nn.BatchNorm1d(2, track_running_stats=False))(x.reshape(1, 3, 2)),
    "autograd.grad of outer graph": lambda t, x: _batched_grad(t, x),
    "is_grads_batched": lambda t, x: _is_grads_batched(t, x),
    "data-dependent control flow": lambda t, x: t.vmap(lambda x: x if x.sum() > 0 else -x)(x),
    "item": lambda t, x: t.vmap(lambda x: x.sum().item())(x),
    "float": lambda t, x: t.vmap(lambda x: float(x.sum()))(x),
    "int": lambda t, x: t.vmap(lambda x: int(x.sum()))(x),
    "numpy": lambda t, x: t.vmap(lambda x: x.numpy())(x),
    "tolist": lambda t, x: t.vmap(lambda x: x.tolist())(x),
    "nonzero": lambda t, x: t.vmap(lambda x: x.nonzero())(x),
    "unique": lambda t, x: t.vmap(lambda x: t.unique(x))(x),
    "masked_select": lambda t, x: t.vmap(lambda x: x.masked_select(x > 0))(x),
    "copy_ without room": lambda t, x: t.vmap(lambda x: t.zeros(2).copy_(x))(x),
    "mul_ without room": lambda t, x: t.vmap(lambda x: t.zeros(2).mul_(x))(x),
    "setitem without room": lambda t, x: t.vmap(_set_item(t))(x),
    "number returned": lambda t, x: t.vmap(lambda x: 1)(x),
    "None returned": lambda t, x: t.vmap(lambda x: (x, None))(x),
    "out_dims None for a batched tensor": lambda t, x: t.vmap(lambda x: x, out_dims=None)(x),
    "out_dims of another type": lambda t, x: t.vmap(lambda x: x, out_dims="a")(x),
    "out_dims beyond": lambda t, x: t.vmap(lambda x: x, out_dims=3)(x),
    "out_dims of another structure": lambda t, x: t.vmap(lambda x: (x, x), out_dims=(0,))(x),
    "in_dims of another type": lambda t, x: t.vmap(lambda x: x, in_dims="a")(x),
    "in_dims of another structure": lambda t, x: t.vmap(lambda x: x, in_dims=(0, 0))(x),
    "in_dims with another type": lambda t, x: t.vmap(lambda x: x, in_dims=("a",))(x),
    "in_dims beyond": lambda t, x: t.vmap(lambda x: x, in_dims=2)(x),
    "in_dims all None": lambda t, x: t.vmap(lambda x: x, in_dims=(None,))(x),
    "number given": lambda t, x: t.vmap(lambda x, y: x)(x, 1),
    "nothing given": lambda t, x: t.vmap(lambda: 1)(),
    "other sizes": lambda t, x: t.vmap(lambda x, y: x)(x, t.ones(4)),
    "no dimension": lambda t, x: t.vmap(lambda x: x)(t.tensor(1.0)),
    "no chunks": lambda t, x: t.vmap(lambda x: x, chunk_size=0)(x),
    "other randomness": lambda t, x: t.vmap(lambda x: x, randomness="a"),
    "backward inside": lambda t, x: t.vmap(lambda x: x.sum().backward())(x),
}


def _batched_grad(torch, x):
    x = x.clone().requires_grad_()
    y = x**3
    pull = torch.vmap(lambda v: torch.autograd.grad(y, x, v, retain_graph=True)[0])
    return pull(torch.ones(4, 3, 2))


def _is_grads_batched(torch, x):
    x = x[0].clone().requires_grad_()
    return torch.autograd.grad(x.exp(), x, torch.eye(2), is_grads_batched=True)[0]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    """The result is PyTorch's; so are the error's type and text."""
    mine, theirs = _both(
        lambda torch: PROGRAMS[name](torch, torch.arange(1.0, 7.0).reshape(3, 2))
    )
    assert_same_outcome(mine, theirs)
    _same_text(mine, theirs)


def test_outer_graph():
    """Captured parameters get gradients from outside."""
    w = ft.ones(2, requires_grad=True)
    ft.vmap(lambda x: (x * w).sum())(ft.arange(6.0).reshape(3, 2)).sum().backward()
    assert w.grad.tolist() == [6.0, 9.0]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent(kind):
    """Recurrent modules, which PyTorch cannot map, agree with a loop; so do their gradients."""
    ft.manual_seed(0)
    module = getattr(ft.nn, kind)(2, 3)
    xs = ft.randn(4, 5, 2)
    loss = ft.func.grad(lambda x: module(x)[0].square().sum())
    assert_same(ft.vmap(loss)(xs), ft.stack([loss(x) for x in xs]), tolerance=(1e-4, 1e-5))


def test_repr():
    """A batched tensor says what it is."""
    seen = []
    ft.vmap(lambda x: (seen.append(repr(x)), x)[1])(ft.ones(2))
    assert seen == ["BatchedTensor(lvl=1, bdim=0, value=\n    tensor([1., 1.])\n)"]


def test_chunks_draw_the_same():
    """With the same randomness, every chunk draws the same numbers."""
    ft.manual_seed(0)
    out = ft.vmap(lambda x: ft.rand(2), randomness="same", chunk_size=2)(ft.ones(5))
    assert np.unique(out.numpy(), axis=0).shape == (1, 2)


def test_functionalize_and_rearrange():
    """The names of `ftorch.func` that are no transforms."""
    x = np.arange(24.0).reshape(2, 12)
    mine = ft.func.rearrange(ft.tensor(x), "b (h w) -> h (b w)", h=3)
    theirs = pt.func.rearrange(pt.tensor(x), "b (h w) -> h (b w)", h=3)
    assert_same(mine, theirs)
    with pytest.raises(RuntimeError, match="received invalid argument"):
        ft.func.functionalize(lambda x: x, remove="all")


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_calls_for_each_example_can_be_forbidden():
    def told(torch):
        twice = torch.library.custom_op("fallback::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
        fallback, found = torch._C._functorch, []
        whole, numbers = torch.eye(3).expand(2, 3, 3), torch.tensor([[1, 2], [2, 1]])
        calls = [
            lambda: torch.vmap(torch.bincount)(numbers), lambda: torch.vmap(twice)(whole),
            lambda: torch.vmap(lambda x: torch.masked_select(x, whole[0] > 0))(whole),
            lambda: torch.vmap(lambda x: torch.linalg.ldl_factor(x)[0])(whole),
            lambda: torch.vmap(lambda n: torch.repeat_interleave(n))(numbers), lambda: torch.vmap(torch.sin)(whole),
        ]
        for is_enabled in (True, False):
            found.append(fallback._is_vmap_fallback_enabled())
            fallback._set_vmap_fallback_enabled(is_enabled)
            try:
                for call in calls:
                    try:
                        found.append(call().double().numpy())
                    except RuntimeError as e:
                        found.append(str(e))
            finally:
                fallback._set_vmap_fallback_enabled(True)
        return found

    mine, theirs = told(ft), told(pt)
    assert len(mine) == 14
    for a, b in zip(mine, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-6) if isinstance(a, np.ndarray) else None
        assert isinstance(a, np.ndarray) or a == b
