"""Gradients of loops with an unknown number of steps, and random numbers in traced control flow."""

from __future__ import annotations

import pytest
import torch as pt

import ftorch as ft


def _loop(t, w, steps):
    def f(x):
        return t.while_loop(
            lambda i, x: i < steps, lambda i, x: (i + 1, (x * w).sin() + x * 0.9), (t.tensor(0), x)
        )[1]

    return f


@pytest.mark.parametrize("steps", [0, 1, 31, 32, 33, 70])
def test_gradient_of_a_traced_loop(steps):
    """Checkpoints are as many as fit; the table is halved at 32 and 64 steps."""
    w, x = ft.linspace(0.5, 1, 4).requires_grad_(), ft.linspace(0, 1, 8).reshape(2, 4)
    mapped = ft.vmap(ft.func.grad(lambda x: _loop(ft, w, steps)(x).sum()))(x)
    leaf = x.clone().requires_grad_()
    ft.vmap(_loop(ft, w, steps))(leaf).sum().backward()
    v, y = pt.linspace(0.5, 1, 4).requires_grad_(), pt.linspace(0, 1, 8).reshape(2, 4).requires_grad_()
    out = y
    for _ in range(steps):
        out = (out * v).sin() + out * 0.9
    wanted = pt.autograd.grad(out.sum(), (y, v), allow_unused=True)
    for found in mapped, leaf.grad:
        pt.testing.assert_close(pt.from_numpy(found.detach().numpy()), wanted[0])
    if steps:
        pt.testing.assert_close(pt.from_numpy(w.grad.numpy()), wanted[1])


def test_traced_loop_as_long_as_each_example_needs():
    def f(x):
        return ft.while_loop(lambda x: x.sum() < 10, lambda x: (x * 1.5,), (x,))[0]

    x = ft.tensor([[1.0, 2.0], [5.0, 6.0], [0.1, 0.1]])
    scale = [1.5**3, 1.0, 1.5**10]
    gradient = ft.vmap(ft.func.grad(lambda x: f(x).sum()))(x)
    pt.testing.assert_close(
        pt.from_numpy(gradient.numpy()), pt.tensor(scale)[:, None].expand(3, 2).contiguous()
    )
    hessian = ft.vmap(ft.func.hessian(lambda x: f(x).square().sum()))(x)
    pt.testing.assert_close(
        pt.from_numpy(hessian.numpy()), 2 * pt.tensor(scale)[:, None, None] ** 2 * pt.eye(2)
    )
    twice = ft.func.grad(lambda x: ft.func.grad(lambda x: f(x).square().sum())(x).sum())
    with pytest.raises(RuntimeError, match="cannot be differentiated backwards again"):
        ft.vmap(twice)(x)


def _noisy(x):
    """The slices of ``x`` times masks, and the masks."""
    from ftorch._higher_order_ops import scan

    def step(carry, v):
        mask = ft.bernoulli(ft.full_like(v, 0.5))
        return carry + 1, (v * mask, mask + ft.rand(v.shape) * 0)

    return scan(step, ft.tensor(0), x)[1]


def test_random_numbers_in_traced_control_flow():
    x = ft.ones(2, 50, 20)
    for randomness in "same", "different":
        _, masks = ft.vmap(_noisy, randomness=randomness)(x)
        assert ft.equal(masks[0], masks[1]) == (randomness == "same")
        assert set(masks.unique().tolist()) == {0.0, 1.0}
        assert 0.4 < masks.mean().item() < 0.6
        assert not ft.equal(masks[0, 0], masks[0, 1])
    with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
        ft.vmap(_noisy)(x)
    ft.manual_seed(0)
    first = ft.vmap(_noisy, randomness="different")(x)[1]
    ft.manual_seed(0)
    assert ft.equal(first, ft.vmap(_noisy, randomness="different")(x)[1])


def test_gradients_see_the_numbers_of_the_forward_pass():
    def f(x):
        out, masks = _noisy(x)
        return out.sum(), masks

    gradient, masks = ft.vmap(ft.func.grad(f, has_aux=True), randomness="different")(ft.ones(2, 5, 3))
    assert ft.equal(gradient, masks)


def test_random_numbers_in_branches_and_loops():
    def pick(x):
        return ft.cond(x.sum() > 0, lambda x: x * ft.rand(3), lambda x: x, (x,))

    out = ft.vmap(pick, randomness="different")(ft.tensor([[1.0] * 3, [-1.0] * 3]))
    assert (out[0] > 0).all() and (out[0] < 1).all() and out[1].tolist() == [-1.0] * 3

    def walk(x):
        return ft.while_loop(
            lambda i, x: i < 5, lambda i, x: (i + 1, x + ft.randn(3)), (ft.tensor(0), x)
        )[1]

    ends = ft.vmap(walk, randomness="different")(ft.zeros(400, 3))
    assert 1.9 < ends.std().item() < 2.6  # the root of 5


def test_compiled_draws_are_new_in_each_call():
    compiled = ft.compile(_noisy)
    draws = [compiled(ft.ones(4, 30))[1] for _ in range(4)]
    assert not any(ft.equal(a, b) for a, b in zip(draws, draws[1:]))


def test_dropout_in_a_traced_branch():
    def function(x):
        return ft.cond(x.sum() > 0, lambda x: ft.nn.functional.dropout(x, 0.5), lambda x: x, (x,))

    compiled = ft.compile(function)
    draws = [compiled(ft.ones(64)) for _ in range(4)]
    assert all(set(d.tolist()) == {0.0, 2.0} for d in draws)
    assert not any(ft.equal(a, b) for a, b in zip(draws, draws[1:]))
    assert compiled(-ft.ones(64)).tolist() == [-1.0] * 64
