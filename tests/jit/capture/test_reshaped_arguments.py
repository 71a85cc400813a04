"""Compiled functions that change an argument's geometry in place: the caller sees it, as in PyTorch's eager mode."""

from __future__ import annotations

import pytest

import ftorch as torch

CHANGES = {
    "t_": lambda a: a.t_(),
    "transpose_": lambda a: a.transpose_(0, 1),
    "unsqueeze_": lambda a: a.unsqueeze_(0),
    "resize_": lambda a: a.resize_(3),
    "as_strided_": lambda a: a.as_strided_((2,), (1,)),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
def test_arguments_keep_the_geometry_they_were_given(name, shape):
    def function(a):
        CHANGES[name](a)
        return a + 1

    expected, given = (torch.arange(float(shape[0] * shape[1])).reshape(shape) for _ in range(2))
    compiled = torch.compile(function)
    for _ in range(2):
        assert torch.equal(compiled(given), function(expected))
        assert (given.shape, given.stride()) == (expected.shape, expected.stride())
        assert torch.equal(given, expected)


def test_tensors_of_the_function_stay_in_programs():
    def function(a):
        return (a * 2).t_() + 1

    compiled = torch.compile(function, fullgraph=True)
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(compiled(x), x.t() * 2 + 1) and x.shape == (2, 3)
