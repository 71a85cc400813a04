"""A static argument of -0. and one of 0. are two: each call gives the sign that PyTorch's gives, whichever came first."""

import numpy as np
import pytest
import torch as reference

import ftorch as torch

CALLS = {
    "hardtanh": lambda F, x, s: F.hardtanh(x, s, 2.0),
    "hardtanh_": lambda F, x, s: F.hardtanh_(x.clone(), -2.0, s),
    "threshold": lambda F, x, s: F.threshold(x, 0.5, s),
    "leaky_relu": lambda F, x, s: F.leaky_relu(x, s),
    "leaky_relu_": lambda F, x, s: F.leaky_relu_(x.clone(), s),
    "elu": lambda F, x, s: F.elu(x, s),
    "celu": lambda F, x, s: F.celu(x, 1.0) * s,
    "rrelu": lambda F, x, s: F.rrelu(x, s, s),
}


def same(ours, theirs):
    np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())
    np.testing.assert_array_equal(np.signbit(ours.detach().numpy()), np.signbit(theirs.detach().numpy()))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("order", [(0.0, -0.0, 0.0), (-0.0, 0.0, -0.0)])
def test_signs_of_zero_are_kept_apart(name, order):
    call, values = CALLS[name], [-0.0, 0.0, -1.5, 1.5, 0.25] * 5
    for s in order:
        x, y = torch.tensor(values, requires_grad=True), reference.tensor(values, requires_grad=True)
        ours, theirs = call(torch.nn.functional, x, s), call(reference.nn.functional, y, s)
        same(ours, theirs)
        ours.sum().backward()
        theirs.sum().backward()
        same(x.grad, y.grad)
        rows = torch.tensor([values, values])
        same(torch.vmap(lambda row: call(torch.nn.functional, row, s))(rows)[1], theirs)


@pytest.mark.parametrize("s", [0.0, -0.0])
def test_numbers_beside_tensors(s):
    for module in (torch, reference):
        x = module.tensor([float("nan"), -0.0, 1.0])
        results = [module.nan_to_num(x, s), module.nn.functional.threshold(x, 2.0, s), x.clone().clamp_(max=s)]
        if module is torch:
            ours = results
    for mine, theirs in zip(ours, results, strict=True):
        same(mine, theirs)


def test_compiled():
    for s in (0.0, -0.0):
        f = torch.compile(lambda x, s=s: torch.nn.functional.threshold(x, 0.5, s))
        for _ in range(3):
            same(f(torch.tensor([0.0, 1.0])), reference.nn.functional.threshold(reference.tensor([0.0, 1.0]), 0.5, s))
    g = torch.compile(lambda x, s: torch.nn.functional.threshold(x, 0.5, s))
    for s in (0.0, -0.0, 0.0):
        same(g(torch.tensor([0.0, 1.0]), s), reference.nn.functional.threshold(reference.tensor([0.0, 1.0]), 0.5, s))
