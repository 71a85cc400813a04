"""Jagged tensors: dimensions beyond the ragged one, dense operands, and reductions over components."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import ftorch

CALLS = """
n.unsqueeze(-1)
n.unflatten(-1, [1, 3])
n.unflatten(-1, [1, 3]).flatten(2, 3)
n.view(2, -1, 1, 3)
n.reshape(2, -1, 3)
n.chunk(3, -1)[1]
n.chunk(2, 0)[1]
n + torch.ones(2, 1, 3)
n * torch.arange(6.0).view(2, 1, 3)
torch.arange(6.0).view(2, 1, 3) - n
n + torch.ones(3)
n / torch.ones(1, 1, 3)
n.matmul(torch.arange(6.0).view(2, 3, 1))
n.bmm(torch.arange(6.0).view(2, 3, 1))
n @ torch.ones(3, 2)
n.softmax(1)
n.amax(1)
n.argmax(1)
n.max(1)[0]
n.all()
n.any()
copy.deepcopy(n)
n.flatten(0, 1)
n.squeeze(0)
torch.stack([n, n])
n[0:1]
n.sum(0)
""".strip().splitlines()


# PyTorch's gradients of these are wrong (they do not add up to zero), or raise.
WITHOUT_GRADIENTS = ("softmax", "max(1)", "copy")


def values_and_gradients(library, call):
    parts = [library.arange(6.0).view(2, 3), library.arange(12.0).view(4, 3) / 5]
    nested = library.nested.nested_tensor(
        parts, layout=library.jagged, requires_grad=not any(w in call for w in WITHOUT_GRADIENTS)
    )
    try:
        result = eval(call, {"torch": library, "n": nested, "copy": copy})
    except Exception as error:
        return type(error).__name__, str(error)
    values = result.values() if result.is_nested else result
    found = [result.is_nested, values.detach().numpy(), tuple(values.shape)]
    if result.is_nested:
        found.append(result.offsets().numpy())
    if values.requires_grad:
        values.square().sum().backward()
        found.append(nested.grad.values().numpy())
    return found


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("call", CALLS)
def test_functions_of_jagged_tensors(call):
    mine, theirs = values_and_gradients(ftorch, call), values_and_gradients(torch, call)
    assert type(mine) is type(theirs), (mine, theirs)
    if isinstance(mine, tuple):
        assert mine == theirs
        return
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs):
        np.testing.assert_allclose(a, b, 1e-5, 1e-6)
