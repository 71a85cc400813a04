"""What follows a product elementwise, as part of its call."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import native
from ftorch.eager.native.codes import Epilogue
from ftorch.eager.native.passes import epilogue_fusion
from ftorch.eager.native.passes.rewrite import rewritten

pytestmark = pytest.mark.skipif(not native.available, reason="installed without a C++ compiler")
rng = np.random.default_rng(0)

ADD, SUBTRACT, MULTIPLY, RECTIFY, MASK = Epilogue


def random(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def relu(x):
    return jnp.where(x <= 0, 0.0, x)


@pytest.fixture
def taken(monkeypatch):
    """The codes that calls of products have made."""
    found, take = [], epilogue_fusion.Chain.take

    def spy(self, shape, loops):
        results = take(self, shape, loops)
        found.append(results[1]["after"])
        return results

    monkeypatch.setattr(epilogue_fusion.Chain, "take", spy)
    return found


def assert_taken(taken, codes, function, *operands):
    """The function's products make these steps, and nothing else is in its program; it gives what XLA gives."""
    mine = jax.jit(rewritten(function))(*operands)
    assert taken == codes
    np.testing.assert_allclose(mine, function(*operands), rtol=1e-4, atol=1e-4)


# m, n, k: read along the terms, in place, packed in one and several blocks, on two threads
SIZES = [(3, 70, 90), (5, 77, 40), (40, 33, 300), (130, 257, 300), (200, 700, 20)]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("m, n, k", SIZES)
def test_every_step(taken, m, n, k, transposed):
    def function(a, b, column, row, c, y):
        x = a @ (b.T if transposed else b) + column
        x = relu(x * row) * 0.5 - c
        return jnp.where(y <= 0, 0.0, x)

    b = random(n, k) if transposed else random(k, n)
    codes = [[ADD, MULTIPLY, RECTIFY, MULTIPLY, SUBTRACT, MASK]]
    operands = random(m, k), b, random(n), random(m, 1), random(m, n), random(m, n)
    assert_taken(taken, codes, function, *operands)
    assert str(jax.make_jaxpr(rewritten(function))(*operands)).count(" mul ") == 0


def test_a_bias_of_each_model(taken):
    def function(x, w, b):
        return relu(jnp.einsum("bi,eoi->ebo", x, w) + b[:, None])

    assert_taken(taken, [[ADD, RECTIFY]], function, random(24, 32), random(5, 40, 32), random(5, 40))


def test_what_nobody_reads_is_no_user(taken):
    def function(x, w):
        y = x @ w
        jnp.exp(y).sum()  # a loss of which the gradient is wanted
        return relu(y)

    assert_taken(taken, [[RECTIFY]], function, random(30, 20), random(20, 40))


def test_a_factor_that_is_made_behind_the_product(taken):
    def function(x, w):
        y = x @ w
        return y * jnp.broadcast_to(jnp.reshape(jnp.float32(1.0), ()) / jnp.float32(640.0), y.shape)

    assert_taken(taken, [[MULTIPLY]], function, random(30, 20), random(20, 40))


def test_results_in_another_order(taken):
    def function(q, k, bias):
        return jnp.einsum("bthd,bshd->bhts", q, k) * 0.1 + bias[:, None, None]

    q, k = random(2, 17, 4, 32), random(2, 19, 4, 32)
    assert_taken(taken, [[MULTIPLY, ADD]], function, q, k, random(2, 19))


def test_nan_and_zeros(taken):
    x = np.array([[np.nan, -1.0, 0.0, 2.0] * 16] * 16, np.float32)

    def function(a, b, y):
        return jnp.where(y <= 0, 0.0, relu(a @ b))

    mine = jax.jit(rewritten(function))(np.eye(16, dtype=np.float32) * 3, x[:, 1:33], x[:, :32])
    assert taken == [[RECTIFY, MASK]]
    # NaN is in a column of the product, or tested: neither is cut off.
    assert not np.nan_to_num(mine[:, 1::4]).any() and np.isnan(mine[:, 3::4]).all() and (mine[:, 2::4] == 0).all()


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: (lambda x: (x + c, x))(a @ b),  # the product itself is wanted
        lambda a, b, c: jnp.tanh(a @ b + c).sum(),  # XLA has a pass of its own
        lambda a, b, c: a @ b + jnp.sin(c),  # an operand that would be computed only here
        lambda a, b, c: c - a @ b,
        lambda a, b, c: jnp.where(a @ b <= 0, 0.0, c),
        lambda a, b, c: (lambda x: x + x)(a @ b),
        lambda a, b, c: (a @ b).astype(np.float64) + c,
    ],
)
def test_what_is_left_to_xla(taken, function):
    operands = random(40, 50), random(50, 60), random(40, 60)
    mine, theirs = jax.jit(rewritten(function))(*operands), function(*operands)
    assert taken == [[]]
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_layers_and_their_gradients_are_pytorchs(taken):
    given = random(64, 40), random(96, 40), random(96), random(80, 96), random(80)

    def run(lib, compiled):
        def step(x, w, b, v, c):
            y = lib.nn.functional.linear(lib.relu(lib.nn.functional.linear(x, w, b)), v, c).relu()
            return (y, *lib.autograd.grad(y.square().sum(), (x, w, b, v, c)))

        tensors = [lib.from_numpy(g.copy()).requires_grad_() for g in given]
        return (lib.compile(step) if compiled else step)(*tensors)

    mine, theirs = run(ftorch, True), run(torch, False)
    assert taken.count([ADD, RECTIFY]) == 2 and taken.count([MASK]) == 1
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-4 * b.abs().max().item())


def test_an_ensemble_is_pytorchs(taken):
    params, x = {"w": random(6, 48, 32), "b": random(6, 48), "v": random(6, 40, 48)}, random(40, 32)

    def gradients(lib):
        F = lib.nn.functional

        def loss(p, x):
            return F.linear(F.relu(F.linear(x, p["w"], p["b"])), p["v"]).square().mean()

        mapped = lib.vmap(lib.func.grad(loss), (0, None))
        mapped = lib.compile(mapped) if lib is ftorch else mapped
        return mapped({k: lib.from_numpy(v) for k, v in params.items()}, lib.from_numpy(x))

    mine, theirs = gradients(ftorch), gradients(torch)
    assert [ADD, RECTIFY] in taken and [MASK] in taken
    for name, value in theirs.items():
        np.testing.assert_allclose(mine[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [2, 5, 64])
def test_a_number_that_multiplies_a_vector(taken, size):
    """What follows has more dimensions than the product, whose call makes nothing of it."""

    def function(s, v, t):
        return v - jnp.dot(s, v) * t

    operands = random(size), random(size), random(size)
    mine = jax.jit(rewritten(function, rounded=True))(*operands)
    np.testing.assert_allclose(mine, function(*operands), rtol=1e-4, atol=1e-4)
    assert taken == [[]]
