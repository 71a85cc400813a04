"""Jagged tensors whose values have rows between the components, as in PyTorch."""

import pytest
import torch

import ftorch


def holes(t):
    values = t.arange(12.0).view(6, 2)
    n = t.nested.nested_tensor_from_jagged(values, t.tensor([0, 2, 3, 6]), t.tensor([1, 1, 2]))
    return [x.tolist() for x in n.unbind()], n.is_contiguous(), n.lengths().tolist(), n.values().tolist()


def parts(t):
    x = t.arange(24.0).view(2, 6, 2)
    n = t.nested.narrow(x, 1, t.tensor([0, 3]), t.tensor([2, 3]), layout=t.jagged)
    return [x.tolist() for x in n.unbind()], n.is_contiguous(), n.values().tolist()


def selected(t):
    return [x.tolist() for x in t.nested.masked_select(t.ones(3, 2), t.tensor([True])).unbind()]


def no_leaf(t):
    a = t.arange(3.0).requires_grad_()
    return t.nested.as_nested_tensor([a, a * 2]).is_leaf


@pytest.mark.parametrize("program", [holes, parts, selected, no_leaf])
def test_as_pytorch(program):
    assert program(ftorch) == program(torch)


def test_parts_under_private_names():
    """The names by which libraries take ragged tensors apart."""
    found = []
    for lib in (torch, ftorch):
        t = lib.nested.nested_tensor([lib.ones(2, 3), lib.zeros(4, 3)], layout=lib.jagged)
        begins, lengths = lib.tensor([0, 1]), lib.tensor([2, 3])
        holes = lib.nested.narrow(lib.arange(24.0).reshape(2, 4, 3), 1, begins, lengths, layout=lib.jagged)
        found.append([(x._values.tolist(), x.offsets().tolist(), x._lengths if x._lengths is None else x._lengths.tolist(),
                       x._ragged_idx) for x in (t, holes)])
    assert found[0] == found[1]
