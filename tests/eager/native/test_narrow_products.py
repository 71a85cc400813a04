"""Products of bfloat16 and float16: summed in float32 by the package's kernels, rounded once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ftorch.eager.host import RULES
from ftorch.eager.host.rules import Form
from ftorch.eager.native.passes.rewrite import rewritten

DTYPES = [jnp.bfloat16, jnp.float16]
# (shapes, dimension numbers of `dot_general`)
CASES = [
    (((1, 300), (70, 300)), (((1,), (1,)), ((), ()))),
    (((8, 257), (129, 257)), (((1,), (1,)), ((), ()))),
    (((3, 100), (100, 515)), (((1,), (0,)), ((), ()))),
    (((400,), (90, 400)), (((0,), (1,)), ((), ()))),
    (((90, 400), (400,)), (((1,), (0,)), ((), ()))),
    (((40, 128), (64, 128)), (((1,), (1,)), ((), ()))),
    (((2, 3, 50, 16), (2, 3, 50, 16)), (((3,), (3,)), ((0, 1), (0, 1)))),
    (((2, 1, 3000), (3000, 40)), (((2,), (0,)), ((), ()))),
    (((200, 1), (1, 90)), (((1,), (0,)), ((), ()))),
    (((2, 3), (3, 4)), (((1,), (0,)), ((), ()))),
    (((70, 301), (301, 90)), (((1,), (0,)), ((), ()))),
    (((301, 70), (90, 301)), (((0,), (1,)), ((), ()))),
    (((50, 2000), (2000, 530)), (((1,), (0,)), ((), ()))),
    (((20, 17001), (50, 17001)), (((1,), (1,)), ((), ()))),
]


def _operands(shapes, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.standard_normal(shape), jnp.dtype(dtype)) for shape in shapes]


def _check(found, operands, dimensions, out):
    exact = jax.lax.dot_general(*(jnp.asarray(x, jnp.float64) for x in operands), dimensions)
    bound = jax.lax.dot_general(*(jnp.abs(jnp.asarray(x, jnp.float64)) for x in operands), dimensions)
    assert found.dtype == out and found.shape == exact.shape
    error = np.abs(np.asarray(found, np.float64) - np.asarray(exact))
    assert (error <= float(jnp.finfo(out).eps) * np.abs(exact) + 1e-6 * np.asarray(bound)).all()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes, dimensions", CASES)
def test_programs_and_the_host_tier(shapes, dimensions, dtype, wide):
    operands, out = _operands(shapes, dtype), jnp.dtype(jnp.float32 if wide else dtype)

    def product(a, b):
        return jax.lax.dot_general(a, b, dimensions, preferred_element_type=out)

    _check(jax.jit(rewritten(product))(*operands), operands, dimensions, out)
    params = jax.make_jaxpr(product)(*operands).jaxpr.eqns[0].params
    shape = jax.eval_shape(product, *operands).shape
    rule = RULES["dot_general"].make(params, [Form(x.dtype, x.ndim) for x in operands], [Form(out, len(shape))])
    _check(rule(*operands), operands, dimensions, out)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 5, 20])
def test_every_number_of_16_bits(dtype, rows):
    """Also float16's below the normal ones, infinities and not-a-numbers, each in a column of its own."""
    column = np.arange(1 << 16, dtype=np.uint16).view(jnp.dtype(dtype))
    weight = np.zeros((1 << 16, 2), column.dtype)
    weight[:, 0] = column
    x = np.array([[1, 0]] * rows, column.dtype)
    with np.errstate(all="ignore"):
        found = jax.jit(rewritten(lambda x, w: x @ w.T))(x, weight)
        expected = column.astype(np.float32)
    told = ~(np.abs(expected) < np.finfo(np.float32).tiny)  # programs of XLA's take float32's own for zero
    for row in np.asarray(found, np.float32):
        np.testing.assert_array_equal(row[told], expected[told])
