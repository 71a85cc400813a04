"""Loops and branches in programs of size classes: their bodies hold for all sizes, too."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ftorch.eager.runtime.jaxpr_classes import merged_at

_RNG = np.random.default_rng(0)


def _numbers(*shape):
    return _RNG.standard_normal(shape).astype(np.float32)


def _recurrent(x, state, weight):
    def step(state, part):
        state = jnp.tanh(part @ weight + state @ weight)
        return state, state

    return lax.scan(step, state, x)


def _slope(x):
    start, weight = jnp.zeros((x.shape[1], 8), x.dtype), np.full((8, 8), 0.1, np.float32)
    return jax.grad(lambda x: _recurrent(x, start, weight)[0].sum())(x)


_TWO = [(5, 40), (41, 150), (60, 400)]
_ONE = [(5,), (41,), (60,)]


@pytest.mark.parametrize(
    "function, operands, points, sizes",
    [
        (_recurrent, lambda t, b: (_numbers(t, b, 8), _numbers(b, 8), _numbers(8, 8) / 4), _TWO, (17, 23)),
        (_slope, lambda t, b: (_numbers(t, b, 8),), _TWO, (17, 23)),
        (
            lambda x: lax.while_loop(lambda c: c.sum() < 1000, lambda c: c * 2 + jnp.ones_like(c), x),
            lambda n: (np.abs(_numbers(n)),), _ONE, (33,),
        ),
        (
            lambda x: lax.cond(x.sum() > 0, lambda x: x + x.shape[0], lambda x: -x, x),
            lambda n: (_numbers(n),), _ONE, (33,),
        ),
        (
            lambda x, y: jnp.searchsorted(x, y, method="scan"),
            lambda n, m: (np.sort(_numbers(n)), _numbers(m)), [(5, 40), (41, 150), (60, 400), (700, 90)], (17, 23),
        ),
    ],
    ids=["scan", "gradient of scan", "while", "cond", "binary search"],
)
def test_bodies(function, operands, points, sizes):
    """A program merged from traces at some sizes gives XLA's values at others."""
    program, _, _ = merged_at(list(points), lambda point, inline: (jax.make_jaxpr(function)(*operands(*point)), True))
    arrays = operands(*sizes)
    with np.errstate(all="ignore"):
        found = program.run(arrays, program.evaluate(sizes))
    expected = [np.asarray(r) for r in jax.tree.leaves(jax.jit(function)(*arrays))]
    assert program.result_shapes(sizes) == tuple(r.shape for r in expected)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, 2e-5, 1e-5)
