"""Products of int8 as int32: exact, however the operands lie."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch as reference

import ftorch
from ftorch.eager.native.passes.rewrite import rewritten

# (shapes, dimension numbers of `dot_general`)
CASES = [
    (((1, 300), (70, 300)), (((1,), (1,)), ((), ()))),
    (((13, 257), (129, 257)), (((1,), (1,)), ((), ()))),
    (((6, 100), (100, 515)), (((1,), (0,)), ((), ()))),
    (((400, 64), (90, 400)), (((0,), (1,)), ((), ()))),
    (((2, 3, 50, 16), (2, 3, 50, 16)), (((3,), (3,)), ((0, 1), (0, 1)))),
    (((300, 700), (64, 700)), (((1,), (1,)), ((), ()))),
    (((70, 301), (301, 90)), (((1,), (0,)), ((), ()))),
    (((40, 2003), (700, 2003)), (((1,), (1,)), ((), ()))),
    (((20, 40001), (50, 40001)), (((1,), (1,)), ((), ()))),
]


@pytest.mark.parametrize("shapes, dimensions", CASES)
def test_products_are_exact(shapes, dimensions):
    rng = np.random.default_rng(0)
    operands = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    operands[0].flat[:5] = operands[1].flat[:5] = -128

    def product(a, b):
        return jax.lax.dot_general(a, b, dimensions, preferred_element_type=np.int32)

    exact = jax.lax.dot_general(*(x.astype(np.int64) for x in operands), dimensions)
    found = jax.jit(rewritten(product))(*operands)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("turned", [False, True])
def test_int_mm_is_pytorchs(kind, turned):
    rng = np.random.default_rng(1)
    a = rng.integers(0, 256, (37, 300)).astype(np.uint8).view(kind)
    b = rng.integers(-128, 128, (65, 300) if turned else (300, 65)).astype(np.int8)

    def program(torch):
        right = torch.tensor(b)
        return torch._int_mm(torch.tensor(a), right.t() if turned else right).numpy()

    np.testing.assert_array_equal(program(ftorch), program(reference))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamically_quantized_linear_layers_give_pytorchs_bits(per_channel):
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((33, 65)).astype(np.float32), rng.standard_normal(33).astype(np.float32)
    inputs = [
        (rng.standard_normal((rows, 65)) * scale + shift).astype(np.float32)
        for rows in (1, 2, 40) for scale, shift in ((1, 0), (1e-6, 0), (1e5, 3e5), (0, 0), (2, -9), (1e-3, 1e-9))
    ]

    def program(torch):
        layer = torch.nn.Linear(65, 33)
        layer.load_state_dict(dict(zip(("weight", "bias"), map(torch.tensor, weights), strict=True)))
        quantization = torch.ao.quantization
        config = quantization.per_channel_dynamic_qconfig if per_channel else quantization.default_dynamic_qconfig
        model = quantization.quantize_dynamic(torch.nn.Sequential(layer), {torch.nn.Linear: config})
        return [model(torch.tensor(x)).detach().numpy() for x in inputs]

    for mine, theirs in zip(program(ftorch), program(reference), strict=True):
        np.testing.assert_array_equal(mine.view(np.int32), theirs.view(np.int32))
