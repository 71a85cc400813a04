"""Attention's kernel: PyTorch is the oracle; transforms of it too."""

import jax
import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import native
from ftorch.eager.kernels.nn import attention as own
from ftorch.eager.native.passes.rewrite import rewritten

SHAPES = [  # batch, heads, queries, keys, width, values
    (2, 3, 17, 17, 16, 16), (1, 1, 1, 1, 1, 1), (1, 2, 5, 9, 7, 3), (1, 2, 9, 5, 7, 3),
    (2, 1, 300, 300, 32, 40), (1, 1, 70, 1200, 16, 16), (1, 1, 1200, 70, 16, 16),
]


def _arrays(shape):
    batch, heads, queries, keys, width, values = shape
    draw = np.random.default_rng(0).standard_normal
    sizes = (queries, width), (keys, width), (keys, values), (queries, values)
    return [2 * draw((batch, heads, *s)).astype(np.float32) for s in sizes]


def _run(lib, arrays, causal, turned):
    turn = (lambda t: t.transpose(1, 2)) if turned else (lambda t: t)
    *inputs, grad = [lib.tensor(a.transpose(0, 2, 1, 3) if turned else a) for a in arrays]
    for x in inputs:
        x.requires_grad_()
    y = lib.nn.functional.scaled_dot_product_attention(*map(turn, inputs), is_causal=causal)
    turn(y).backward(grad)
    return [t.detach().numpy() for t in (y, *(x.grad for x in inputs))]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_and_its_gradient(shape, turned, causal):
    results = [_run(lib, _arrays(shape), causal, turned) for lib in (ftorch, torch)]
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5 * abs(theirs).max())


def test_extreme_scores():
    q = np.array([[[[np.inf], [-1e30], [3e4], [0.0]]]], np.float32)
    k = np.array([[[[1.0], [-1.0], [0.5], [2.0]]]], np.float32)
    both = [
        lib.nn.functional.scaled_dot_product_attention(*map(lib.tensor, (q, k, k)), scale=1.0).numpy()
        for lib in (ftorch, torch)
    ]
    np.testing.assert_array_equal(*both)


def _operands(batch):
    draw = np.random.default_rng(1).standard_normal
    return [draw((*batch, 2, 3, 8, 4)).astype(np.float32) for _ in range(3)]


HOW = {"scale": 0.5, "is_causal": True}


@pytest.mark.parametrize("axes", [(0, 0, 0), (1, None, 2), (None, 0, None)], ids=str)
def test_mapped(axes):
    operands = [
        x[0] if a is None else np.moveaxis(x, 0, a) for x, a in zip(_operands((5,)), axes, strict=True)
    ]
    mapped = jax.vmap(lambda *x: own._attention.bind(*x, **HOW)[0], axes)
    expected = jax.vmap(lambda *x: own._attend(*x, **HOW), axes)(*operands)
    np.testing.assert_allclose(jax.jit(rewritten(mapped))(*operands), expected, rtol=1e-5, atol=1e-6)


def test_derivatives_of_the_gradient():
    operands = _operands(())
    grad = np.ones_like(operands[0])

    def slope(of):
        return lambda *x: sum(g.sum() for g in of(grad, *x, **HOW))

    mine = jax.grad(slope(own._attention_gradient.bind), (0, 1, 2))(*operands)
    expected = jax.grad(slope(own._attend_gradient), (0, 1, 2))(*operands)
    for a, b in zip(mine, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not native.available, reason="built without a compiler")
def test_a_program_calls_the_kernel():
    operands = _operands(())
    text = jax.jit(rewritten(lambda *x: own._attention.bind(*x, **HOW)[0])).lower(*operands).as_text()
    assert "ftorch_attention" in text and "exponential" not in text
