"""Functions that ask for gradients, and that raise in a branch that gives a value: compiled by both libraries."""
# mypy: ignore-errors

import torch
from torch import Tensor


def weighted(x: Tensor, y: Tensor):
    outputs: list[Tensor] = [y]
    weights: list[Tensor | None] = [torch.ones_like(y)]
    found = torch.autograd.grad(outputs, [x], weights, retain_graph=True)[0]
    if found is None:
        raise ValueError("no gradient")
    return found


def of_sum(x: Tensor, y: Tensor):
    return torch.autograd.grad([y.sum()], [x])


def twice(x: Tensor, y: Tensor):
    return torch.autograd.grad([y.sum()], [x], create_graph=True, allow_unused=True)


def backward(x: Tensor, y: Tensor):
    torch.autograd.backward([y.sum()], retain_graph=True)
    return x


def method(x: Tensor, y: Tensor):
    y.sum().backward(retain_graph=True)
    return x


FUNCTIONS = [weighted, of_sum, twice, backward, method]
