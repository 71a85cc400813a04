"""Jagged tensors whose values have rows between the components, as in PyTorch."""

import importlib

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


MADE = {
    "offsets": lambda lib, N, v: N(v, lib.tensor([0, 2, 6])),
    "another dimension": lambda lib, N, v: N(v, offsets=lib.tensor([0, 2, 3]), _ragged_idx=2),
    "lengths": lambda lib, N, v: N(v, offsets=lib.tensor([0, 3, 6]), lengths=lib.tensor([2, 3])),
    "leaf": lambda lib, N, v: N(v, lib.tensor([0, 2, 6]), requires_grad=True),
    "of what requires grad": lambda lib, N, v: N(v.requires_grad_(), lib.tensor([0, 2, 6])),
    "no offsets": lambda lib, N, v: N(v, None),
}


@pytest.mark.parametrize("name", MADE)
def test_made_of_parts(name):
    found = []
    for lib in (torch, ftorch):
        N = importlib.import_module(f"{lib.__name__}.nested._internal.nested_tensor").NestedTensor
        try:
            t = MADE[name](lib, N, lib.arange(18.0).reshape(6, 3))
        except AssertionError as error:
            found.append(str(error))
            continue
        found.append((type(t).__name__, t.dim(), t._ragged_idx, t.requires_grad, t.is_leaf, [x.tolist() for x in t.unbind()]))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_attributes_of_devices_and_bytes(layout):
    found = []
    for lib in (torch, ftorch):
        t = lib.nested.nested_tensor([lib.ones(2, 3), lib.ones(4, 3)], layout=getattr(lib, layout))
        found.append([getattr(t, name) for name in "is_cpu is_cuda is_meta is_xla is_xpu is_mps itemsize nbytes".split()])
    assert found[0] == found[1]
