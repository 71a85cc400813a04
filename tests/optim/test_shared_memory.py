"""Parameters that lie in each other's memory: updates in turn, as in PyTorch."""

import pytest
import torch

import ftorch


def _stepped(t, name, places):
    memory = t.arange(48.0).reshape(4, 12)
    parameters = [t.nn.Parameter(memory[p]) for p in places]
    optimizer = getattr(t.optim, name)(parameters, lr=0.5)
    for n in range(2):
        for p in parameters:
            p.grad = p.detach() * 0.25 + n
        optimizer.step()
    return memory.tolist()


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
@pytest.mark.parametrize(
    "places",
    [
        [(slice(None), n) for n in range(12)],
        [slice(0, 2), slice(1, 3), slice(2, 4), slice(0, 4)],
        [slice(0, 4), slice(0, 1), slice(1, 4), slice(0, 2)],
    ],
)
def test_overlapping_parameters(name, places):
    torch.testing.assert_close(torch.tensor(_stepped(ftorch, name, places)), torch.tensor(_stepped(torch, name, places)))


def test_many_columns_of_a_matrix():
    memory = ftorch.ones(2, 1200)
    columns = [ftorch.nn.Parameter(memory[:, n]) for n in range(1200)]
    for p in columns:
        p.grad = ftorch.ones(2)
    ftorch.optim.SGD(columns, lr=0.5).step()
    assert memory.tolist() == [[0.5] * 1200] * 2
