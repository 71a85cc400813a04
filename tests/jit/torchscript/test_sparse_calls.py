"""``torch.sparse`` in scripts: results, gradients, printed programs, saved ones."""

import io

import pytest
import torch as pt

import ftorch as ft
from tests.jit import sparse_calls
from tests.jit.both import of_ftorch

MINE = of_ftorch("sparse_calls")
NAMES = [f.__name__ for f in sparse_calls.FUNCTIONS]


def _run(t, program):
    dense = t.tensor([[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]])
    given = dense.to_sparse().requires_grad_(), t.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), dense.to_sparse_csr()
    result = program(*given)
    plain = result.to_dense() if result.layout is not t.strided else result
    grad = None
    if plain.requires_grad:
        plain.sum().backward()
        grad = given[0].grad.to_dense().tolist()
    return plain.detach(), str(plain.dtype), str(result.layout), grad


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", NAMES)
def test_results_and_texts(name):
    expected, found = pt.jit.script(getattr(sparse_calls, name)), ft.jit.script(getattr(MINE, name))
    assert found.code == expected.code
    file = io.BytesIO()
    ft.jit.save(found, file)
    file.seek(0)
    values, *told = _run(pt, expected)
    for program in (found, ft.jit.load(file)):
        mine, *mine_told = _run(ft, program)
        assert mine_told == told
        pt.testing.assert_close(pt.tensor(mine.tolist(), dtype=values.dtype), values)
