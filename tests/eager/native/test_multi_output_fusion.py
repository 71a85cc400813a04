"""Elementwise steps with several results in one call: against XLA's, where results take the memory of operands."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import ftorch
from ftorch.eager import native
from ftorch.eager.native.passes.rewrite import rewritten

pytestmark = pytest.mark.skipif(not native.available, reason="installed without a C++ compiler")
SHAPE = (257, 513)  # no whole number of blocks


def arrays(count, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(count)]


def compiled(function, *operands, donated=None):
    """``function`` as it is rewritten, and how many calls it has."""
    text = str(jax.make_jaxpr(rewritten(function, donated))(*operands))
    found = jax.jit(rewritten(function, donated), donate_argnums=() if donated is None else (donated,))
    return found, text.count("ffi_call[")


def assert_fused(function, *operands, donated=None, calls=1):
    expected = jax.jit(function)(*operands)
    found, count = compiled(function, *operands, donated=donated)
    assert count == calls
    given = jax.tree.map(jnp.array, operands)
    for mine, plain in zip(jax.tree.leaves(found(*given)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=2e-6, atol=2e-6)
    return found


def adam(state, g, rate):
    p, m, v = state
    m = m + jnp.where(jnp.abs(rate) < 0.5, 0.1 * (g - m), g - m)
    v = v * 0.999 + 0.001 * g * g
    return p - rate * m / (jnp.sqrt(v) / 0.3 + 1e-8), m, v


@pytest.mark.parametrize("rate", [1e-2, 0.7])
@pytest.mark.parametrize("donated", [None, 0])
def test_a_step_of_an_optimizer(rate, donated):
    p, m, v, g = arrays(4)
    assert_fused(adam, (p, m, v * v), g, np.float32(rate), donated=donated)


def test_every_operation():
    def function(x, y, s):
        total = lax.max(x, y) - lax.min(x, s) + lax.abs(y) * lax.sign(x) - lax.neg(x) / (y * y + s)
        return total, lax.sqrt(lax.square(total) + s), lax.select_n(s > 1, x - y * total, total * x - y)

    x, y = arrays(2)
    x[0, :4], y[0, :4] = (np.nan, 0, -0.0, 1), (1, 0, 3, np.nan)
    for s in (0.5, 2):
        assert_fused(function, x, y, np.float32(s))


def test_results_take_the_place_of_what_is_read_later():
    """Each result lies where an operand is that other steps still need."""
    p, m, v = arrays(3)
    assert_fused(lambda s: (s[1] * 2 - s[2], s[0] + s[2], s[0] - s[1]), (p, m, v), donated=0)
    assert_fused(lambda s: (s[0] + s[1], (s[0] + s[1]) * s[1] + s[0]), (p, m), donated=0)


def test_a_constant_in_the_place_of_what_is_donated():
    """JAX lays results over donated memory that are no steps' as well."""
    p, m = arrays(2)
    function = lambda s: (jnp.float32(3.0), s[2] + 1, s[0] * s[1], s[0] - s[1])  # noqa: E731
    assert_fused(function, (p, m, np.float32(1), np.float32(2)), donated=0)


def test_donated_memory_is_taken():
    p, m, v, g = map(jnp.array, arrays(4))
    rate = np.float32(1)
    found, _ = compiled(adam, (p, m, v), g, rate, donated=0)
    assert " copy(" not in found.lower((p, m, v), g, rate).compile().as_text()
    state = found((p, m, v), g, rate)
    assert p.is_deleted() and not state[0].is_deleted()


def test_what_others_read_is_not_taken():
    """XLA makes it part of them."""
    x, y = arrays(2)
    assert compiled(lambda x, y: (x * y, jnp.exp(x + y)), x, y)[1] == 0
    assert compiled(lambda x, y: x * y + x, x, y)[1] == 0  # one result: one pass over memory anyway
    assert compiled(lambda x, y: (x[:5] * y[:5], x[:5] + y[:5] * x[:5]), x, y)[1] == 0  # small
    bias = lambda x, b: (x + b, (x + b) * 2)  # noqa: E731
    assert compiled(bias, x, y[0])[1] == 0  # numbers that repeat would have to be written first


def test_optimizers_use_it():
    found = []
    for lib in (ftorch, pytest.importorskip("torch")):
        lib.manual_seed(0)
        p = lib.nn.Parameter(lib.from_numpy(arrays(1)[0].copy()))
        optimizer = lib.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True)
        for seed in (1, 2, 3):
            p.grad = lib.from_numpy(arrays(1, seed)[0].copy())
            optimizer.step()
        found.append((p.detach().numpy(), optimizer.state[p]["momentum_buffer"].numpy()))
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("instructions", ["avx2", "plain"])
def test_other_instruction_sets(instructions):
    code = f"""if True:
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from test_multi_output_fusion import test_a_step_of_an_optimizer, test_every_operation
        test_a_step_of_an_optimizer(0.1, 0)
        test_every_operation()
    """
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "FTORCH_NATIVE": instructions})


@pytest.mark.parametrize("sizes", [(1, 513), (257, 1), (1, 1)])
def test_operands_whose_numbers_repeat_along_sizes_of_one_are_xlas(sizes):
    # JAX's steps take them as they are, without a step that repeats them.
    def function(x, y, factor):
        return x + y, y * factor - x

    x, y = arrays(2)
    factor = np.random.default_rng(1).standard_normal(sizes).astype(np.float32)
    expected = x + y, y * factor - x
    found, _ = compiled(function, x, y, factor)
    for mine, plain in zip(found(*map(jnp.array, (x, y, factor))), expected, strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-5, atol=1e-5)
