"""Control flow operators: in Python, under ``vmap`` and differentiation, compiled, and in JAX."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import ftorch as torch
from ftorch._higher_order_ops import associative_scan, cond, map, scan, while_loop
from tests.oracle import assert_same

X = np.random.default_rng(0).normal(size=(4, 3))
TIGHT = (1e-9, 1e-9)


def _cond(x, w):
    return cond(x.sum() > 0, lambda x: x.sin() * w, lambda x: x.exp() + w, (x,))


def _nested(x, w):
    return cond(
        x.sum() > 0, lambda x: cond(x[0] > 0, torch.sin, torch.cos, (x,)), lambda x: x * w, (x,)
    )


def _scan(x, w):
    carry, ys = scan(
        lambda c, v: ({"c": c["c"] * v.sin() + w[0]}, (c["c"] * v, v)), {"c": w[1]}, x, reverse=True
    )
    return ys[0] + carry["c"] * ys[1]


def _associative(x, w):
    return associative_scan(lambda a, b: a * b + w[0] * 0, x, 0) * w


def _map(x, w):
    return map(lambda v, w: v.sin() * w.sum(), x, w)


def _while(x, w):
    return while_loop(
        lambda i, x: x.sum() < 9, lambda i, x: (i + 1, x + w.square()), (torch.tensor(0), x)
    )[1]


ALL = [_cond, _nested, _scan, _associative, _map, _while]
REVERSIBLE = ALL[:-1]
each = pytest.mark.parametrize("f", ALL)
each_reversible = pytest.mark.parametrize("f", REVERSIBLE)


def _inputs():
    return torch.tensor(X), torch.tensor([0.5, 1.5, -1.0], dtype=torch.float64)


@each
def test_vmap(f):
    """Mapping gives what a loop over the examples gives."""
    x, w = _inputs()
    expected = torch.stack([f(row, w) for row in x])
    assert_same(torch.vmap(f, (0, None))(x, w), expected, tolerance=TIGHT)


@each_reversible
def test_gradients(f):
    """Per-example gradients, and those of captured tensors, are a loop's."""
    x, w = _inputs()
    gradient = torch.func.grad(lambda x, w: f(x, w).sin().sum(), (0, 1))
    expected = [torch.stack(parts) for parts in zip(*(gradient(row, w) for row in x))]
    assert_same(torch.vmap(gradient, (0, None))(x, w), tuple(expected), tolerance=TIGHT)
    w.requires_grad_()
    torch.vmap(lambda x: f(x, w).sin())(x).sum().backward()
    assert_same(w.grad, expected[1].sum(0), tolerance=TIGHT)


@each
def test_forward_mode(f):
    """Derivatives along a direction, mapped and not."""
    x, w = _inputs()

    def push(x):
        return torch.func.jvp(lambda x, w: f(x, w), (x, w), (x.cos(), w.sin()))[1]

    assert_same(torch.vmap(push)(x), torch.stack([push(row) for row in x]), tolerance=TIGHT)


@each_reversible
def test_second_order(f):
    """Hessians go through mapped control flow."""
    x, w = _inputs()
    hessian = torch.func.hessian(lambda x: f(x, w).sin().sum())
    expected = torch.stack([hessian(row) for row in x[:2]])
    assert_same(torch.vmap(hessian)(x[:2]), expected, tolerance=TIGHT)


@each
def test_jax(f):
    """Inside ``jax.jit`` and ``jax.vmap`` values need not be known."""
    x, w = _inputs()
    expected = torch.stack([f(row, w) for row in x])
    assert_same(jax.jit(f)(x[0], w), expected[0], tolerance=TIGHT)
    assert_same(jax.vmap(f, (0, None))(x, w), expected, tolerance=TIGHT)


def test_compiled():
    """A compiled function takes either branch without compiling again."""
    x, w = _inputs()
    compiled = torch.compile(_cond)
    for row in (*x, *-x):
        assert_same(compiled(row, w), _cond(row, w), tolerance=TIGHT)


def test_errors():
    """Wrong arguments raise PyTorch's errors."""
    x, _ = _inputs()
    with pytest.raises(RuntimeError, match="Expected pred to be bool or single-element tensor"):
        cond(x > 0, torch.sin, torch.cos, (x,))
    with pytest.raises(RuntimeError, match="expected same dim but got 1 and 0"):
        torch.vmap(lambda x: cond(x[0] > 0, torch.sin, torch.sum, (x,)))(x)
    with pytest.raises(RuntimeError, match="must return a boolean scalar tensor"):
        while_loop(lambda x: x, lambda x: (x,), (x,))
    with pytest.raises(RuntimeError, match="must keep their dtypes and shapes"):
        torch.vmap(lambda x: while_loop(lambda x: x.sum() < 1, lambda x: (x[:1],), (x,)))(x)
    with pytest.raises(RuntimeError, match="random operations are not possible in this function"):
        associative_scan(lambda a, b: a + b * torch.rand(()), x, 0)
    with pytest.raises(RuntimeError, match="is not known"):
        torch.vmap(lambda x: map(lambda v: v.item(), x))(x)


def test_other_dimensions():
    """Scans along another dimension give their results along it."""
    x, _ = _inputs()
    for run in (lambda x: x, torch.vmap):
        f = lambda x: scan(lambda c, v: (c + v, c + v), x[:, 0] * 0, x, dim=1)[1]  # noqa: E731
        batch = x if run is not torch.vmap else torch.stack([x, x])
        out = (f if run is not torch.vmap else torch.vmap(f))(batch)
        assert_same(out, batch.cumsum(-1), tolerance=TIGHT)
    assert_same(associative_scan(torch.add, x, 1), x.cumsum(1), tolerance=TIGHT)
    assert_same(
        associative_scan(torch.add, x, 1, reverse=True), x.flip(1).cumsum(1).flip(1), tolerance=TIGHT
    )
