"""``grad``, ``vjp``, ``jvp``, ``jacrev``, ``jacfwd``, ``hessian`` against ``torch.func``."""

from __future__ import annotations

import gc
import warnings

import pytest
import torch as pt

import ftorch as ft
import ftorch.autograd.forward_ad
import ftorch.nn.functional  # noqa: F401
from tests.oracle import assert_same, assert_same_outcome, both, both_with_text, outcome


def _cubes(t):
    return lambda x: (x**3).sum()


def _inplace(t):
    def f(x):
        y = x.clone()
        y[0] = y[1] * 2
        y.mul_(x)
        return y.sin().sum()

    return f


def _two(t):
    return lambda x, y: (x * y.exp()).sum()


PROGRAMS = {
    "grad": lambda t, x: t.func.grad(_cubes(t))(x),
    "grad of grad": lambda t, x: t.func.grad(lambda x: t.func.grad(_cubes(t))(x).sum())(x),
    "grad, in-place": lambda t, x: t.func.grad(_inplace(t))(x),
    "grad of trees": lambda t, x: t.func.grad(lambda d: (d["a"] * d["b"][0]).sum())(
        {"a": x, "b": (x.cos(),)})["b"],
    "grad of several": lambda t, x: t.func.grad(_two(t), (1, 0))(x, x.cos()),
    "grad with aux": lambda t, x: t.func.grad(lambda x: (x.sum(), (x, x * 2)), has_aux=True)(x),
    "grad_and_value": lambda t, x: t.func.grad_and_value(_cubes(t))(x),
    "grad under no_grad": lambda t, x: _no_grad(t, lambda: t.func.grad(_cubes(t))(x)),
    "no_grad inside": lambda t, x: t.func.grad(
        lambda x: (x * _no_grad(t, lambda: x.sin())).sum())(x),
    "unused": lambda t, x: t.func.grad(lambda x, y: x.sum(), (0, 1))(x, x),
    "constant": lambda t, x: t.func.grad(lambda x: t.tensor(1.0))(x),
    "detach inside": lambda t, x: t.func.grad(lambda x: (x * x.detach()).sum())(x),
    "vjp": lambda t, x: t.func.vjp(lambda x: (x.sin(), x.cos()), x)[1]((x, x)),
    "vjp of several": lambda t, x: t.func.vjp(_two(t), x, x.cos())[1](t.tensor(2.0)),
    "jvp": lambda t, x: t.func.jvp(_two(t), (x, x.cos()), (x.cos(), x)),
    "jvp with aux": lambda t, x: t.func.jvp(lambda x: (x.sin(), x), (x,), (x,), has_aux=True),
    "jvp, in-place": lambda t, x: t.func.jvp(_inplace(t), (x,), (x.cos(),)),
    "jvp of jvp": lambda t, x: t.func.jvp(
        lambda x: t.func.jvp(t.sin, (x,), (x,))[1], (x,), (x.cos(),)),
    "jvp of grad": lambda t, x: t.func.jvp(t.func.grad(_cubes(t)), (x,), (x.cos(),)),
    "grad of jvp": lambda t, x: t.func.grad(
        lambda x: t.func.jvp(_cubes(t), (x,), (x.cos(),))[1])(x),
    "jacrev": lambda t, x: t.func.jacrev(lambda x: x.sin().cumsum(0))(x),
    "jacrev in chunks": lambda t, x: t.func.jacrev(lambda x: x.sin().cumsum(0), chunk_size=2)(x),
    "jacrev of trees": lambda t, x: t.func.jacrev(lambda x: {"a": x.sin(), "b": x.sum()})(x)["a"],
    "jacrev of several": lambda t, x: t.func.jacrev(lambda x, y: x * y[0], (0, 1))(x, x[:2]),
    "jacrev with aux": lambda t, x: t.func.jacrev(lambda x: (x.sin(), x.sum()), has_aux=True)(x),
    "jacfwd": lambda t, x: t.func.jacfwd(lambda x: x.sin().cumsum(0))(x),
    "jacfwd of several": lambda t, x: t.func.jacfwd(lambda x, y: x * y[0], (0, 1))(x, x[:2]),
    "jacfwd with aux": lambda t, x: t.func.jacfwd(lambda x: (x.sin(), x.sum()), has_aux=True)(x),
    "jacrev of jacfwd": lambda t, x: t.func.jacrev(t.func.jacfwd(_cubes(t)))(x),
    "jacfwd of jacrev": lambda t, x: t.func.jacfwd(t.func.jacrev(_cubes(t)))(x),
    "hessian": lambda t, x: t.func.hessian(_cubes(t))(x),
    "hessian of several": lambda t, x: t.func.hessian(_two(t), (0, 1))(x, x.cos()),
    "linearize": lambda t, x: t.func.linearize(t.sin, x)[1](x.cos()),
    "vmap of grad": lambda t, x: t.vmap(t.func.grad(_cubes(t)))(x.reshape(2, 2)),
    "vmap of hessian": lambda t, x: t.vmap(t.func.hessian(_cubes(t)))(x.reshape(2, 2)),
    "vmap of jvp": lambda t, x: t.vmap(lambda x, y: t.func.jvp(t.sin, (x,), (y,)))(x, x.cos()),
    "grad of vmap": lambda t, x: t.func.grad(lambda x: t.vmap(t.sin)(x).sum())(x),
    "jvp of vmap": lambda t, x: t.func.jvp(t.vmap(t.sin), (x,), (x.cos(),)),
    "vmap of vmap of grad": lambda t, x: t.vmap(t.vmap(t.func.grad(t.sin)))(x.reshape(2, 2)),
    "values are known in jvp": lambda t, x: t.func.jvp(
        lambda x: x * x.sum().item() if x.sum() > 0 else x, (x,), (x,)),
    "forward_ad": lambda t, x: _forward_ad(t, x),
    "not a tensor": lambda t, x: t.func.grad(lambda x: 1)(x),
    "not a scalar": lambda t, x: t.func.grad(lambda x: x)(x.reshape(2, 2)),
    "argnums beyond": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=1)(x),
    "argnums of another type": lambda t, x: t.func.grad(lambda x: x.sum(), argnums="a")(x),
    "argnums empty": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=())(x),
    "argnums twice": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=(0, -1))(x),
    "number given": lambda t, x: t.func.grad(lambda x: x)(1),
    "integers given": lambda t, x: t.func.grad(lambda x: x.sum())(t.ones(2, dtype=t.int64)),
    "aux missing": lambda t, x: t.func.grad(lambda x: x.sum(), has_aux=True)(x),
    "vjp of a number": lambda t, x: t.func.vjp(lambda x: 1, x),
    "vjp of nothing": lambda t, x: t.func.vjp(lambda x: (), x),
    "vjp, other structure": lambda t, x: t.func.vjp(lambda x: (x, x), x)[1](x),
    "vjp, other shape": lambda t, x: t.func.vjp(lambda x: x, x)[1](t.ones(2)),
    "jvp of a list": lambda t, x: t.func.jvp(lambda x: x, [x], (x,)),
    "jvp of nothing": lambda t, x: t.func.jvp(lambda: x, (), ()),
    "jvp, other structure": lambda t, x: t.func.jvp(lambda x: x, (x,), (x, x)),
    "jvp, other shape": lambda t, x: t.func.jvp(lambda x: x, (x,), (t.ones(2),)),
    "jvp of a number": lambda t, x: t.func.jvp(lambda x: x, (1,), (x,)),
    "jvp to a number": lambda t, x: t.func.jvp(lambda x: 1, (x,), (x,)),
    "jacrev without chunks": lambda t, x: t.func.jacrev(lambda x: x, chunk_size=0)(x),
    "no models": lambda t, x: t.func.stack_module_state([]),
    "models of two modes": lambda t, x: t.func.stack_module_state(
        [t.nn.Linear(1, 1), t.nn.Linear(1, 1).eval()]),
    "models of two classes": lambda t, x: t.func.stack_module_state(
        [t.nn.Linear(1, 1), t.nn.ReLU()]),
    "functional_call with a number": lambda t, x: t.func.functional_call(t.nn.ReLU(), 1, x),
    "functional_call, key twice": lambda t, x: t.func.functional_call(
        t.nn.Linear(2, 2), ({"weight": x}, {"weight": x}), x),
    "functional_call, strict": lambda t, x: t.func.functional_call(
        t.nn.Linear(2, 2), {"weight": x, "foo": x}, x, strict=True),
}


def _no_grad(torch, run):
    with torch.no_grad():
        return run()


def _forward_ad(torch, x):
    ad = torch.autograd.forward_ad
    with ad.dual_level():
        primal, tangent = ad.unpack_dual(ad.make_dual(x, x.cos()) ** 2)
        return primal, tangent


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    """The result is PyTorch's and as much of a graph has; so are the error's type and text."""
    mine, theirs = (
        outcome(PROGRAMS[name], t, t.linspace(0.5, 2, 4, dtype=t.float64)) for t in (ft, pt)
    )
    assert_same_outcome(mine, theirs)
    if theirs[1] is not None:
        assert str(mine[1]) == str(theirs[1])
    elif isinstance(theirs[0], pt.Tensor):
        assert mine[0].requires_grad == theirs[0].requires_grad


def test_outer_graph():
    """A gradient that depends on something outside keeps its graph there."""
    w = ft.ones(3, requires_grad=True)
    g = ft.func.grad(lambda x: (x**3 * w).sum())(ft.ones(3))
    assert g.requires_grad
    (second,) = ft.autograd.grad(g.sum(), w)
    assert second.tolist() == [3.0] * 3
    assert not ft.func.grad(lambda x: (x**3 * w.detach()).sum())(ft.ones(3)).requires_grad


def test_outer_graph_of_mapped_gradients():
    """What a gradient inside ``vmap`` saved of an outer parameter leads to that parameter."""
    w, v = ft.tensor(2.0, requires_grad=True), ft.tensor([1.0, 3.0])
    for f in (lambda r: (w * r).square(), lambda r: w * w * r**2, lambda r: (w * r) * (r * w)):
        out = ft.vmap(ft.func.grad(f))(v)
        assert ft.autograd.grad(out.sum(), w)[0].item() == 32.0
        out = ft.vmap(lambda r, f=f: ft.func.vjp(f, r)[1](ft.tensor(1.0))[0])(v)
        assert ft.autograd.grad(out.sum(), w)[0].item() == 32.0


@pytest.mark.parametrize("wrap", [lambda f: f, ft.compile])
def test_compiled(wrap):
    """Transforms run inside compiled functions."""
    f = wrap(ft.vmap(ft.func.grad(lambda x: x.sin().sum())))
    for _ in range(3):
        x = ft.linspace(0, 1, 6).reshape(2, 3)
        assert_same(f(x), x.cos())


TRANSFORMS = {
    "grad": lambda m, f: m.func.grad(f)(m.ones(3)),
    "vmap": lambda m, f: m.vmap(f)(m.ones(2, 3)),
    "jvp": lambda m, f: m.func.jvp(f, (m.ones(3),), (m.ones(3),)),
    "vjp": lambda m, f: m.func.vjp(f, m.ones(3))[0],
    "vmap of grad": lambda m, f: m.vmap(m.func.grad(f))(m.ones(2, 3)),
}


def _marked(m, x):
    return (x * x.detach().requires_grad_()).sum()


def _unmarked(m, x):
    return (x * m.ones(3).requires_grad_(False)).sum()


def _with_backward(m, x):
    m.ones(3, requires_grad=True).sum().backward()
    return x.sum()


@pytest.mark.parametrize("program", [_marked, _unmarked, _with_backward])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_outer_tape_has_no_place_in_transforms(name, program):
    both_with_text(lambda m: TRANSFORMS[name](m, lambda x: program(m, x)))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_factories_may_require_grad_in_transforms(name):
    def run(m):
        def function(x):
            x.requires_grad = True
            weights = m.ones(3, requires_grad=True), m.hann_window(3, requires_grad=True)
            return sum((x * w).sum() for w in weights)

        result = TRANSFORMS[name](m, function)
        return [t.detach() for t in (result if isinstance(result, tuple) else (result,))]

    both(run)


def test_dual_numbers_by_hand_are_no_transform():
    def run(m):
        with m.autograd.forward_ad.dual_level():
            return m.ones(2).requires_grad_().requires_grad

    both(run)


SIZED_BY_VALUES = {
    "masked_select": lambda t, x: x.masked_select(t.tensor([[True], [False]])) ** 2,
    "a larger mask": lambda t, x: x[0].masked_select(t.tensor([[True, False], [False, True], [True, True]])).sin(),
    "repeat_interleave": lambda t, x: x.repeat_interleave(t.tensor([2, 3]), 0) ** 2,
    "nonzero": lambda t, x: t.nonzero(x) + x.sum(),
    "unique": lambda t, x: x.unique(),
    "unique of rows": lambda t, x: x.unique(dim=0),
    "unique_consecutive": lambda t, x: x.unique_consecutive(),
    "unique without a tangent": lambda t, x: x.detach().unique() * x.sum(),
    "bincount": lambda t, x: x.long().flatten().bincount() * x.sum(),
}


@pytest.mark.parametrize("name", SIZED_BY_VALUES)
def test_tangents_of_what_values_size(name):
    """They move as the elements do, or there are none to be had; they are not zeros without a word."""
    function = SIZED_BY_VALUES[name]

    def run(m):
        x = m.arange(4.0).reshape(2, 2)
        return m.func.jvp(lambda z: function(m, z), (x,), (x + 1,))

    def by_hand(m):
        x = m.arange(4.0).reshape(2, 2)
        with m.autograd.forward_ad.dual_level():
            return tuple(m.autograd.forward_ad.unpack_dual(function(m, m.autograd.forward_ad.make_dual(x, x + 1))))

    both(run)
    both(by_hand)


NESTED = {
    "vmap of grad": lambda t, f, x: t.vmap(t.func.grad(f))(x),
    "jacfwd of grad": lambda t, f, x: t.func.jacfwd(t.func.grad(f))(x[0]),
    "hessian": lambda t, f, x: t.func.hessian(f)(x[0]),
    "grad of grad": lambda t, f, x: t.func.grad(lambda y: t.func.grad(f)(y).sum())(x[0]),
    "jvp of grad": lambda t, f, x: t.func.jvp(t.func.grad(f), (x[0],), (x[1],)),
    "grad of jvp": lambda t, f, x: t.func.grad(lambda y: t.func.jvp(f, (y,), (x[1],))[1])(x[0]),
    "vmap of jvp": lambda t, f, x: t.vmap(lambda y: t.func.jvp(f, (y,), (y,))[1])(x),
    "grad of vmap": lambda t, f, x: t.func.grad(lambda y: t.vmap(f)(y).pow(2).sum())(x),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_transforms_of_what_values_size(name):
    """Gradients within other transforms are recorded; they were zeros without a word."""
    for select in (
        lambda t, z: z.masked_select(t.tensor([True, False, True, True])),
        lambda t, z: z.repeat_interleave(t.tensor([1, 2, 0, 3])),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch has no rules of these for `vmap`
            both(lambda m, select=select: NESTED[name](m, lambda z: (select(m, z) ** 3).sum(), m.arange(8.0).reshape(2, 4)))


@pytest.mark.parametrize("wrap", [lambda f: f, ft.compile], ids=["eager", "compiled"])
def test_results_need_no_garbage_collector(wrap):
    """A call's results are freed with their last reference, as PyTorch's are: nothing holds them in a cycle."""

    def loss(w, x):
        return (ft.add(x @ w, x.flatten(0, 0).sum(), alpha=2) * w).sum()

    mapped = wrap(ft.vmap(ft.func.grad(loss), in_dims=(None, 0)))
    w, x = ft.randn(3), ft.randn(4, 3)
    for _ in range(3):
        mapped(w, x)
    gc.collect()
    gc.disable()
    try:
        mapped(w, x)
        assert gc.collect() == 0
    finally:
        gc.enable()
