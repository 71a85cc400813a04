"""Draws by tensors with tangents have the tangent zero."""

import pytest
import torch as reference

import ftorch


@pytest.mark.parametrize("call", [
    "t.bernoulli(d)", "t.normal(d, x)", "t.normal(x, d)", "t.normal(d, 1.)", "t.normal(1., d)", "t.poisson(d)", "d.normal_()",
    "d.exponential_()", "d.bernoulli_(.3)", "t.rand_like(d)",
])
def test_draws(call):
    def told(t):
        forward = t.autograd.forward_ad
        with forward.dual_level():
            x = t.full((2,), .5)
            made = eval(call, {"t": t, "x": x, "d": forward.make_dual(x.clone(), t.ones(2))})
            primal, tangent = forward.unpack_dual(made)
            return list(primal.shape), None if tangent is None else tangent.tolist()

    assert told(ftorch) == told(reference)
