"""Products of sparse matrices of many elements and dense ones, and their gradients, are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch as reference

import ftorch

from ..oracle import assert_shows_same

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
MATRIX = (RNG.standard_normal((48, 96)) * (RNG.random((48, 96)) < 0.1)).astype(np.float32)
MATRIX[7] = 0  # a row without elements
LAYOUTS = {
    "csr": lambda t: t.to_sparse_csr(),
    "csc": lambda t: t.to_sparse_csc(),
    "bsr": lambda t: t.to_sparse_bsr((4, 4)),
    "coo": lambda t: t.to_sparse(),
}


def _both(program, tolerance=1e-5):
    mine, theirs = ([r.detach().numpy() for r in program(torch)] for torch in (ftorch, reference))
    for m, t in zip(mine, theirs, strict=True):
        assert m.dtype == t.dtype and m.shape == t.shape
        np.testing.assert_allclose(m, t, tolerance, tolerance)


@pytest.mark.parametrize("columns", [1, 5, 16, 70, 130])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_times_a_dense_matrix(layout, columns):
    dense = RNG.standard_normal((96, columns)).astype(np.float32)
    _both(lambda torch: [LAYOUTS[layout](torch.tensor(MATRIX)) @ torch.tensor(dense)])


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_other_dtypes(dtype):
    dense = RNG.standard_normal((96, 9)).astype(dtype)
    _both(lambda torch: [torch.tensor(MATRIX.astype(dtype)).to_sparse_csr() @ torch.tensor(dense)])


def test_elements_in_any_order_that_repeat():
    at = RNG.integers(0, 40, (2, 900))
    values, dense = RNG.standard_normal(900).astype(np.float32), RNG.standard_normal((40, 20)).astype(np.float32)
    _both(lambda torch: [
        torch.sparse_coo_tensor(torch.tensor(at), torch.tensor(values), (40, 40)) @ torch.tensor(dense)
    ], 1e-4)


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_gradients(layout):
    dense = RNG.standard_normal((96, 33)).astype(np.float32)

    def program(torch):
        weight = LAYOUTS[layout](torch.tensor(MATRIX)).requires_grad_()
        x = torch.tensor(dense).requires_grad_()
        torch.sparse.mm(weight, x).square().sum().backward()
        return weight.grad.to_dense() * torch.tensor(MATRIX != 0), x.grad

    _both(program, 1e-3)


def test_compiled():
    dense = RNG.standard_normal((96, 33)).astype(np.float32)
    weight = ftorch.tensor(MATRIX).to_sparse_csr()
    call = ftorch.compile(lambda w, x: ftorch.relu(w @ x))
    for _ in range(2):
        found = call(weight, ftorch.tensor(dense)).numpy()
    np.testing.assert_allclose(found, np.maximum(MATRIX @ dense, 0), 1e-4, 1e-4)


@pytest.mark.parametrize("reduce", ["max", "min", "amax", "amin", "mean", "sum", "prod", "mul"])
def test_reductions_by_either_name(reduce):
    def program(t):
        a = t.tensor([[1.0, 0, 2], [0, 0, 0], [0, 3, -1]]).to_sparse_csr().requires_grad_()
        b = t.arange(6.0).reshape(3, 2).requires_grad_()
        y = t.sparse.mm(a, b, reduce)
        y.sum().backward()
        return y.detach(), b.grad, a.grad.values()

    assert_shows_same(program)
    assert_shows_same(lambda t: t.zeros(2).scatter_reduce(0, t.tensor([0, 1, 0]), t.tensor([1.0, 2, 3]), reduce))


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
@pytest.mark.parametrize("program", [
    "F.linear(t.ones(5, 96), m)", "F.linear(t.ones(2, 3, 96), m)", "t.ones(3, 48) @ m", "m @ t.ones(96, 5)",
])
def test_results_lie_in_memory_as_pytorchs(program, layout):
    strides = []
    for torch in (ftorch, reference):
        names = {"t": torch, "F": torch.nn.functional, "m": LAYOUTS[layout](torch.tensor(MATRIX))}
        strides.append(eval(program, names).stride())
    assert strides[0] == strides[1]
