"""Compiled functions that change whether an argument requires grad: the caller sees it, as in PyTorch."""

from __future__ import annotations

import pytest

import ftorch as torch


def _by_method(x):
    x.requires_grad_()


def _by_attribute(x):
    x.requires_grad = True


ARGUMENTS = {"whole": lambda: torch.ones(3), "part": lambda: torch.ones(3, 2)[:, 0], "gaps": lambda: torch.ones(7)[::2]}


@pytest.mark.parametrize("change", [_by_method, _by_attribute])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_require_grad_from_then_on(change, name):
    def function(x):
        change(x)
        return x * 2

    compiled = torch.compile(function)
    for _ in range(3):
        x = ARGUMENTS[name]()
        y = compiled(x)
        assert x.requires_grad and y.requires_grad
        y.sum().backward()
        assert x.grad.tolist() == [2.0] * len(x)


def test_arguments_that_do_not_any_more():
    compiled = torch.compile(lambda x: x.requires_grad_(False) * 2)
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        assert not compiled(x).requires_grad
        assert not x.requires_grad


def test_tensors_of_the_function_stay_in_programs():
    def function(x):
        y = x.detach().requires_grad_()
        (y * 3).sum().backward()
        return y.grad

    compiled = torch.compile(function, fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]
