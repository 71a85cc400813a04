"""Booleans as numbers: 0 * nan is nan, whatever a fused program could make of it."""

import pytest

from tests.oracle import both

MASKS = {
    "a tensor": lambda m, x: x.isfinite(),
    "converted": lambda m, x: x.isfinite().float(),
    "a comparison": lambda m, x: x > 0,
    "an identity": lambda m, x: m.eye(4),
    "a triangle": lambda m, x: m.ones(4, 4).tril(),
    "one hot": lambda m, x: m.nn.functional.one_hot(m.arange(4)).to(x.dtype),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_lets_nan_through(name):
    def program(m):
        x = m.tensor([float("nan"), -2.0, float("inf"), 0.0], requires_grad=True)
        out = x * MASKS[name](m, x)
        return out, (out * 2).sum(-1), m.autograd.grad(out.sum(), x)[0], out[..., 1].signbit()

    for _ in range(3):  # by single programs, then by one
        both(program)
