"""Compiled functions that write to an argument and change its geometry or its memory, in any order: as PyTorch's eager mode."""

from __future__ import annotations

import pytest
import torch as pytorch

import ftorch


def part_after_write(x, y):
    part = x[0]
    part.mul_(2)
    x.t_()
    part.add_(1)
    return part


def swap(x, y):
    x.data, y.data = y.data, x.data
    x.add_(1)
    return y * 1


CHANGES = {
    "unsqueeze_": lambda x, y: x.mul_(3).unsqueeze_(0) + 1,
    "t_": lambda x, y: x.mul_(3).t_().add_(1).sum(),
    "resize_": lambda x, y: x.mul_(2).squeeze_().resize_(2),
    "larger": lambda x, y: x.resize_(3, 3)[0].sum(),
    "larger, written": lambda x, y: x.resize_(4, 4).fill_(2.0).sum(),
    "as_strided_": lambda x, y: x.as_strided_((2, 2), (1, 2), x.storage_offset() + 1).mul_(2).sum(),
    "part": part_after_write,
    "data": lambda x, y: setattr(x, "data", x.data.t()) or x + 1,
    "new data": lambda x, y: setattr(x, "data", x * 2) or x.add_(1),
    "data of another": lambda x, y: setattr(x, "data", y) or x.add_(1).sum(),
    "set_": lambda x, y: x.set_(y).add_(1).sum(),
    "set_ to nothing": lambda x, y: x.set_(),
    "swap": swap,
}
ARGUMENTS = {
    "whole": lambda torch: (torch.arange(6.0).reshape(2, 3) + 0, torch.ones(2, 3)),
    "view": lambda torch: (torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(2, 3)),
    "part": lambda torch: (torch.arange(12.0)[3:9].view(2, 3), torch.ones(2, 3)),
    "parts": lambda torch: (torch.arange(12.0)[3:9].view(2, 3), torch.arange(24.0)[6:12].view(2, 3)),
}


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("name", CHANGES)
def test_arguments_are_as_after_a_plain_call(name, arguments):
    compiled = ftorch.compile(CHANGES[name])

    def outcome(torch, run):
        given = ARGUMENTS[arguments](torch)
        memory = [t.view(-1)[:2] for t in given] + [t if t._base is None else t._base for t in given]
        result = run(*given)
        seen = [result, *given, *(memory if not name.startswith("larger") or arguments in ("part", "parts") else memory[:2])]
        if name == "larger" and arguments not in ("part", "parts"):  # what is new is not initialized
            seen[1] = seen[1][:2]
        return [(t.tolist(), tuple(t.shape), t.stride()) for t in seen]

    for _ in range(3):
        assert outcome(ftorch, compiled) == outcome(pytorch, CHANGES[name])


RESHAPES = {
    "t_": lambda a: a.t_(),
    "transpose_": lambda a: a.transpose_(0, 1),
    "unsqueeze_": lambda a: a.unsqueeze_(0),
    "resize_": lambda a: a.resize_(3),
    "as_strided_": lambda a: a.as_strided_((2,), (1,)),
}


@pytest.mark.parametrize("name", RESHAPES)
@pytest.mark.parametrize("shape", [(2, 3), (3, 3)])
def test_arguments_keep_the_geometry_they_were_given(name, shape):
    def function(a):
        RESHAPES[name](a)
        return a + 1

    expected, given = (ftorch.arange(float(shape[0] * shape[1])).reshape(shape) for _ in range(2))
    compiled = ftorch.compile(function)
    for _ in range(2):
        assert ftorch.equal(compiled(given), function(expected))
        assert (given.shape, given.stride()) == (expected.shape, expected.stride())
        assert ftorch.equal(given, expected)


def test_tensors_of_the_function_stay_in_programs():
    def function(a):
        return (a * 2).t_() + 1

    compiled = ftorch.compile(function, fullgraph=True)
    x = ftorch.arange(6.0).reshape(2, 3)
    assert ftorch.equal(compiled(x), x.t() * 2 + 1) and x.shape == (2, 3)
