"""Products with weights of eight and four bits, in programs and on the host."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ftorch.eager.host import RULES
from ftorch.eager.host.rules import Form
from ftorch.eager.kernels.linalg import integer_products
from ftorch.eager.native.passes.rewrite import rewritten


def _check(function, operands):
    plain = np.asarray(jax.jit(function)(*operands))
    least = 1e-3 + 2e-6 * np.abs(plain).max()
    np.testing.assert_allclose(jax.jit(rewritten(function))(*operands), plain, 1e-4, least)
    (equation,) = (
        e
        for e in jax.make_jaxpr(function)(*operands).jaxpr.eqns
        if e.primitive.name.startswith("ftorch_")
    )
    rule = RULES[equation.primitive.name]
    given = [x[None] for x in operands]
    run = rule.make(equation.params, [Form(x.dtype, x.ndim) for x in given], [Form(np.dtype(np.float32), 3)])
    shapes = [((1, *plain.shape),)] if rule.sizes else []
    np.testing.assert_allclose(run(*given, *shapes)[0][0], plain, 1e-4, least)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 3, 6, 20, 77])
@pytest.mark.parametrize("outputs, terms", [(64, 96), (33, 51), (2, 7), (150, 5000)])
def test_weights_of_eight_bits(rows, outputs, terms, dtype):
    rng = np.random.default_rng(0)
    operands = (
        rng.standard_normal((rows, terms), np.float32).astype(jnp.dtype(dtype)),
        rng.integers(-128, 128, (outputs, terms)).astype(np.int8),
    )
    _check(lambda x, w: integer_products._WEIGHTS8.bind(x[None], w[None])[0][0], operands)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 3, 20, 90])
@pytest.mark.parametrize("outputs", [16, 64, 112, 160, 5008])
def test_weights_of_four_bits(rows, outputs, dtype):
    rng = np.random.default_rng(0)
    operands = (
        rng.standard_normal((rows, 128), np.float32), rng.integers(0, 256, (outputs, 64)).astype(np.uint8),
        rng.standard_normal((4, outputs, 2), np.float32).astype(jnp.dtype(dtype)),
    )
    _check(lambda *given: integer_products._WEIGHTS4.bind(*(x[None] for x in given), group=32)[0][0], operands)
