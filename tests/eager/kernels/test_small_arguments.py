"""Functions and derivatives at arguments whose square, or whose sum with one, tells nothing of them."""

from __future__ import annotations

import pytest
import torch as pt

import ftorch as ft


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_slope_of_sinc_at_tiny_numbers(dtype):
    values = [0.0, pt.finfo(getattr(pt, dtype)).tiny, 1e-200, 1e-160, 1e-30, 1e-23, 1e-20, -1e-10, 0.5, 1.0, -2.0]

    def slope(torch):
        x = torch.tensor(values, dtype=getattr(torch, dtype), requires_grad=True)
        torch.sinc(x).sum().backward()
        return x.grad.tolist()

    assert slope(ft) == pytest.approx(slope(pt), rel=1e-6)


@pytest.mark.parametrize("dtype", ["complex128", "complex64"])
def test_the_logarithm_of_complex_numbers_beside_one(dtype):
    values = [1e-19 + 1e-18j, 1e-18 + 0.1j, -0.3 + 0.2j, 0.5j, -1 + 2j, 1e30 + 1e30j, -1, 0j, complex("inf"), 1e-30]

    def logarithms(torch):
        return torch.view_as_real(torch.log1p(torch.tensor(values, dtype=getattr(torch, dtype)))).numpy()

    relative = 1e-12 if dtype == "complex128" else 1e-6
    for ours, theirs in zip(logarithms(ft).ravel(), logarithms(pt).ravel()):
        assert ours == pytest.approx(theirs, rel=relative, abs=0)
