"""Sums with zeros that a program knows keep the sign that its steps give one by one, and PyTorch's."""

from __future__ import annotations

import pytest
import torch as pytorch

import ftorch

FUNCTIONS = {
    "x + 0": lambda torch, x: x + 0,
    "0.0 + x": lambda torch, x: 0.0 + x,
    "x + -0.0": lambda torch, x: x + -0.0,
    "x - -0.0": lambda torch, x: x - -0.0,
    "x - 0.0": lambda torch, x: x - 0.0,
    "alpha": lambda torch, x: torch.add(x, 0.0, alpha=-2),
    "zeros": lambda torch, x: torch.zeros(x.shape, dtype=x.dtype) + x,
    "accumulated": lambda torch, x: torch.zeros_like(x).add_(x),
    "minus": lambda torch, x: torch.zeros_like(x).neg() - x,
    "sum": lambda torch, x: sum([x, x * 1]),
    "an integer's zero": lambda torch, x: x + (-torch.zeros(3, dtype=torch.int32) * -2).to(x.dtype),
    "product": lambda torch, x: x * 3 + torch.zeros(3, dtype=x.dtype) * 2,
}


@pytest.mark.parametrize("name, dtype", [
    *[(name, dtype) for name in FUNCTIONS for dtype in ("float32", "float64", "bfloat16")],
    *[(name, "complex64") for name in ("x + 0", "0.0 + x", "zeros", "accumulated", "sum")],
])
def test_zeros_keep_their_sign(name, dtype):
    def signs(t):
        parts = t if not t.is_complex() else (t.real, t.imag)
        return [v.signbit().tolist() for v in (parts if isinstance(parts, tuple) else (parts,))]

    def numbers(torch):
        x = torch.tensor([-0.0, 0.0, 1.0], dtype=getattr(torch, "float32" if dtype == "complex64" else dtype))
        return torch.complex(x, x) if dtype == "complex64" else x

    function = FUNCTIONS[name]
    expected = signs(function(pytorch, numbers(pytorch)))
    compiled = ftorch.compile(lambda x: function(ftorch, x))
    assert signs(function(ftorch, numbers(ftorch))) == expected
    for _ in range(2):
        assert signs(compiled(numbers(ftorch))) == expected


def test_the_same_sign_in_programs_of_eager_calls():
    many = 1 << 17
    x = ftorch.full((many,), -0.0)
    for _ in range(12):  # at first on the host, then compiled
        assert not (ftorch.zeros(many) + x).signbit().any()
        assert not (x * 3 + ftorch.zeros(many)).signbit().any()


@pytest.mark.parametrize("backend", ["inductor", "eager"])
def test_numbers_of_either_sign_are_told_apart(backend):
    compiled = ftorch.compile(lambda x, a: x * a, backend=backend)
    for a in (0.0, -0.0, 2.0, 0.0, -0.0, 3, True):
        assert compiled(ftorch.ones(2), a).signbit().tolist() == (pytorch.ones(2) * a).signbit().tolist()
