"""Making sparse tensors, their attributes, conversions, printing and files."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch as pt

import ftorch as ft

from ..oracle import assert_same
from .both import assert_gives_same, check_error


def coo(t, dtype=None, size=(2, 3)):
    """Four elements, two of them at the same place."""
    indices = t.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    return t.sparse_coo_tensor(indices, t.tensor([3.0, 4, 5, 1]), size, dtype=dtype)


def hybrid(t):
    return t.sparse_coo_tensor([[0, 1], [2, 0]], t.arange(4.0).reshape(2, 2), (2, 3, 2))


def csr(t):
    return t.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4, 5], (2, 3))


def matrix(t):
    return t.tensor([[0.0, 1, 0, 2], [3, 0, 0, 0], [0, 0, 0, 0], [0, 4, 5, 6]])


MADE = {
    "inferred": lambda t: t.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2]),
    "lists of integers": lambda t: t.sparse_coo_tensor([[0, 1], [2, 0]], [1, 2]),
    "dtype": lambda t: coo(t, t.float64),
    "hybrid": hybrid,
    "empty": lambda t: t.sparse_coo_tensor((2, 3)),
    "empty by name": lambda t: t.sparse_coo_tensor(size=(2, 3), dtype=t.int32),
    "no elements": lambda t: t.sparse_coo_tensor(t.zeros(2, 0), t.zeros(0, 4), (2, 3, 4)),
    "0-d": lambda t: t.sparse_coo_tensor(t.zeros(0, 1), [1.0], ()),
    "coalesced": lambda t: t.sparse_coo_tensor([[0, 1]], [1.0, 2], is_coalesced=True),
    "zeros": lambda t: t.zeros(2, 3, layout=t.sparse_coo),
    "zeros csr": lambda t: t.zeros(2, 3, layout=t.sparse_csr),
    "csr": csr,
    "csr inferred": lambda t: t.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4, 5]),
    "csc": lambda t: t.sparse_csc_tensor([0, 1, 1, 3], [1, 0, 1], [4.0, 3, 5]),
    "bsr": lambda t: t.sparse_bsr_tensor([0, 1, 2], [0, 1], t.ones(2, 2, 3)),
    "bsc": lambda t: t.sparse_bsc_tensor([0, 1, 2], [0, 1], t.ones(2, 2, 3), (4, 6)),
    "batched csr": lambda t: t.sparse_csr_tensor(
        t.tensor([[0, 1, 3], [0, 2, 3]]), t.tensor([[2, 0, 2], [0, 1, 2]]), t.ones(2, 3), (2, 2, 3)
    ),
    "any layout": lambda t: t.sparse_compressed_tensor(
        [0, 1, 3], [2, 0, 2], [1.0, 2, 3], layout=t.sparse_csr
    ),
    "coalesce": lambda t: coo(t).coalesce(),
    "to_sparse": lambda t: matrix(t).to_sparse(),
    "to_sparse hybrid": lambda t: matrix(t).to_sparse(1),
    "to_sparse 0-d": lambda t: t.tensor(3.0).to_sparse(),
    "to_csr": lambda t: matrix(t).to_sparse_csr(),
    "to_csc": lambda t: matrix(t).to_sparse_csc(),
    "to_bsr": lambda t: matrix(t).to_sparse_bsr((2, 2)),
    "to_bsc": lambda t: matrix(t).to_sparse_bsc((2, 1)),
    "to csr batched": lambda t: t.ones(2, 3, 3).to_sparse_csr(),
    "to csr dense dims": lambda t: t.ones(3, 3, 2).to_sparse_csr(dense_dim=1),
    "layout": lambda t: matrix(t).to_sparse(layout=t.sparse_csc),
    "coo to csr": lambda t: coo(t).to_sparse_csr(),
    "csr to csc": lambda t: matrix(t).to_sparse_csr().to_sparse_csc(),
    "bsr again": lambda t: matrix(t).to_sparse_bsr((2, 2)).to_sparse_bsr(2),
    "csr to bsr": lambda t: matrix(t).to_sparse_csr().to_sparse_bsr((2, 2)),
    "csr to coo": lambda t: csr(t).to_sparse(),
    "csc to coo": lambda t: matrix(t).to_sparse_csc().to_sparse(),
    "bsr to coo": lambda t: matrix(t).to_sparse_bsr((2, 2)).to_sparse_coo(),
    "half": lambda t: coo(t).half(),
    "to": lambda t: coo(t).to(t.float64),
    "cpu": lambda t: coo(t).cpu(),
    "clone": lambda t: hybrid(t).clone(),
    "zeros_like": lambda t: t.zeros_like(hybrid(t)),
    "new_zeros": lambda t: coo(t).new_zeros((4, 2)),
    "zero_": lambda t: coo(t).zero_(),
    "copy_": lambda t: coo(t).copy_(coo(t) * 2),
    "sparse_resize_": lambda t: coo(t).sparse_resize_((3, 4), 2, 0),
    "sparse_resize_and_clear_": lambda t: coo(t).sparse_resize_and_clear_((3, 4), 1, 1),
    "resize_as_sparse_": lambda t: coo(t).resize_as_sparse_(t.zeros(4, 4).to_sparse()),
    "mask": lambda t: t.arange(6.0).reshape(2, 3).sparse_mask(coo(t).coalesce()),
    "mask csr": lambda t: t.arange(6.0).reshape(2, 3).sparse_mask(csr(t)),
    "spdiags": lambda t: t.sparse.spdiags(
        t.arange(9.0).reshape(3, 3), t.tensor([0, -1, 2]), (3, 3), layout=t.sparse_csr
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_made(name):
    """Parts, values, and the printed text."""
    program = MADE[name]
    mine, theirs = program(ft), program(pt)
    assert_same(mine, theirs)
    assert_same(mine.to_dense(), theirs.to_dense())
    assert repr(mine) == repr(theirs)


@pytest.mark.parametrize("make", [coo, hybrid, csr])
def test_attributes(make):
    def program(t):
        x = make(t)
        return [
            x.is_sparse, x.is_sparse_csr, str(x.layout), x._nnz(), x.sparse_dim(), x.dense_dim(),
            x.numel(), x.dim(), tuple(x.shape), x.requires_grad, x.is_leaf, len(x), t.is_tensor(x),
            isinstance(x, t.Tensor), str(x.dtype), str(x.device), x.element_size(),
        ]

    assert_gives_same(program)


def test_printed_with_grad():
    for make in (coo, csr):
        mine, theirs = (make(t).requires_grad_() for t in (ft, pt))
        assert repr(mine) == repr(theirs)
        assert repr(ft.nn.Parameter(mine)) == repr(pt.nn.Parameter(theirs))
    mine, theirs = (
        t.sparse_coo_tensor([[0]], t.ones(1, requires_grad=True), (2,)) for t in (ft, pt)
    )
    assert repr(mine) == repr(theirs)
    big = [t.sparse_coo_tensor(t.arange(4000).reshape(2, 2000), t.ones(2000)) for t in (ft, pt)]
    assert repr(big[0]) == repr(big[1])


REFUSED = {
    "dimensions": lambda t: coo(t, size=(3,)),
    "counts": lambda t: t.sparse_coo_tensor([[0, 1], [0, 1]], t.ones(3)),
    "1-d indices": lambda t: t.sparse_coo_tensor(t.tensor([1, 2]), t.ones(2)),
    "nothing": lambda t: t.sparse_coo_tensor(),
    "no values": lambda t: t.sparse_coo_tensor(t.zeros(2, 1)),
    "size too small": lambda t: t.sparse_coo_tensor([[2]], [1.0], (2,), check_invariants=True),
    "negative": lambda t: t.sparse_coo_tensor([[-2]], [1.0], (2,), check_invariants=True),
    "negative inferred": lambda t: t.sparse_coo_tensor([[-2]], [1.0]),
    "not coalesced": lambda t: t.sparse_coo_tensor(
        [[0, 0]], [1.0, 2], (2,), is_coalesced=True, check_invariants=True
    ),
    "no layout": lambda t: t.sparse_compressed_tensor([0, 1], [0], [1.0]),
    "csr begins": lambda t: t.sparse_csr_tensor([1, 2], [0, 0], [1.0, 2], check_invariants=True),
    "csr ends": lambda t: t.sparse_csr_tensor([0, 1], [0, 1], [1.0, 2], check_invariants=True),
    "csr range": lambda t: t.sparse_csr_tensor([0, 1], [3], [1.0], (1, 3), check_invariants=True),
    "csr unsorted": lambda t: t.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2], check_invariants=True),
    "csr rows": lambda t: t.sparse_csr_tensor([0, 1], [0], [1.0], (2, 3), check_invariants=True),
    "indices": lambda t: coo(t).indices(),
    "values": lambda t: coo(t).values(),
    "crow_indices": lambda t: coo(t).crow_indices(),
    "ccol_indices": lambda t: csr(t).ccol_indices(),
    "coalesce": lambda t: csr(t).coalesce(),
    "dense indices": lambda t: t.ones(2).indices(),
    "dense nnz": lambda t: t.ones(2)._nnz(),
    "numpy": lambda t: coo(t).numpy(),
    "numpy csr": lambda t: csr(t).numpy(),
    "tolist": lambda t: coo(t).tolist(),
    "storage": lambda t: coo(t).untyped_storage(),
    "stride": lambda t: csr(t).stride(),
    "exp": lambda t: coo(t).exp(),
    "csr select": lambda t: csr(t).index_select(0, t.tensor([0])),
    "view": lambda t: coo(t).view(3, 2),
    "reshape": lambda t: coo(t).reshape(3, 2),
    "compare": lambda t: coo(t) > 1,
    "equal": lambda t: t.equal(coo(t), coo(t)),
    "slice": lambda t: coo(t)[:, 1:],
    "assign": lambda t: coo(t).__setitem__(0, 1),
    "bool": lambda t: bool(coo(t)),
    "item": lambda t: coo(t).item(),
    "shrink": lambda t: coo(t).sparse_resize_((1, 4), 2, 0),
    "other dims": lambda t: coo(t).sparse_resize_((3, 4), 1, 1),
    "sparse_dim": lambda t: t.ones(2, 2).to_sparse(3),
    "blocks": lambda t: t.ones(4, 4).to_sparse_bsr((3, 2)),
    "copy_ dense": lambda t: t.ones(2, 3).copy_(coo(t)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    check_error(REFUSED[name])


def test_invariants_are_checked_in_a_context():
    def wrong(t):
        return t.sparse_coo_tensor([[5]], [1.0], (2,))

    assert_gives_same(wrong)  # unchecked by default
    checks = ft.sparse.check_sparse_tensor_invariants
    with checks():
        assert checks.is_enabled()
        with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
            wrong(ft)
        with checks(False):
            wrong(ft)
    assert not checks.is_enabled()
    with pytest.raises(RuntimeError, match="size is inconsistent"):
        checks()(wrong)(ft)


def test_values_share_memory():
    def program(t):
        x = coo(t)
        x._values().mul_(2)
        y = x.detach()
        y.mul_(3)
        return x, y

    assert_gives_same(program)


def _things(t):
    return {"coo": coo(t), "sorted": coo(t).coalesce(), "csr": csr(t), "hybrid": hybrid(t),
            "bsr": matrix(t).to_sparse_bsr((2, 2))}


@pytest.mark.parametrize("reader, writer", [(ft, pt), (pt, ft), (ft, ft)])
def test_files(reader, writer):
    buffer = io.BytesIO()
    writer.save(_things(writer), buffer)
    buffer.seek(0)
    read = reader.load(buffer)
    for name, theirs in _things(pt).items():
        mine = read[name]
        if reader is pt:
            assert_same(_things(ft)[name], mine, where=name)
        else:
            assert_same(mine, theirs, where=name)


def test_pickle_and_deepcopy():
    x = coo(ft)
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert_same(other, coo(pt))
        other._values().zero_()
    assert_same(x, coo(pt))


def test_buffer_of_a_module():
    class Graph(ft.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("adjacency", ft.eye(3).to_sparse())

    m = Graph().double()
    assert m.adjacency.dtype is ft.float64 and m.adjacency.is_sparse
    other = Graph().double()
    other.adjacency.zero_()
    other.load_state_dict(m.state_dict())
    assert_same(other.adjacency, pt.eye(3, dtype=pt.float64).to_sparse())
