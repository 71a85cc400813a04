"""Products with weights of eight bits: values, on memory that PyTorch allocates itself."""

import numpy as np
import pytest
import torch

import ftorch


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weight_int8pack_mm(dtype):
    rng = np.random.default_rng(0)
    x, scales = rng.normal(size=(4, 64)).astype(np.float32), rng.uniform(0.01, 1, 16).astype(np.float32)
    weight = rng.integers(-128, 128, (16, 64)).astype(np.int8)

    def program(t):
        kind = getattr(t, dtype)
        operands = [t.tensor(x).to(kind).clone(), t.tensor(weight).clone(), t.tensor(scales).to(kind).clone()]
        return t._weight_int8pack_mm(*operands).float().numpy()

    tolerance = 1e-5 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(program(ftorch), program(torch), rtol=tolerance, atol=tolerance * 10)
