"""2:4 sparse matrices: what PyTorch refuses on the CPU, and what they hold and give on devices that have them."""

import warnings

import pytest
import torch as reference

import ftorch
from ftorch.sparse import semi_structured


def _matrix(library, rows=32, columns=64, dtype="float16"):
    library.manual_seed(0)
    dense = library.randn(rows, columns)
    return (dense * library.tensor([0.0, 1.0, 1.0, 0.0]).tile(rows, columns // 4)).to(getattr(library, dtype))


@pytest.mark.parametrize("dtype", ("float16", "int8", "float64"))
def test_the_cpu_is_refused_as_by_pytorch(dtype):
    said = []
    for library in (reference, ftorch):
        with pytest.raises(RuntimeError) as caught:
            library.sparse.to_sparse_semi_structured(_matrix(library, dtype=dtype))
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_limits_are_those_of_pytorch():
    for name in ("SparseSemiStructuredTensorCUTLASS", "SparseSemiStructuredTensorCUSPARSELT"):
        theirs, ours = (getattr(library.sparse, name)._DTYPE_SHAPE_CONSTRAINTS for library in (reference, ftorch))
        assert {str(d): tuple(v) for d, v in theirs.items()} == {str(d): tuple(v) for d, v in ours.items()}


@pytest.fixture
def sparse(monkeypatch):
    """A sparse tensor on the CPU, as accelerators have them."""
    kind = semi_structured.SparseSemiStructuredTensorCUSPARSELT
    monkeypatch.setattr(kind, "_validate_device_dim_dtype_shape", classmethod(lambda cls, x: None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield ftorch.sparse.to_sparse_semi_structured(_matrix(ftorch))


def test_it_holds_half_the_elements_and_their_places(sparse):
    dense = _matrix(ftorch)
    assert sparse.packed.shape == (32, 32) and sparse.meta.shape == (32, 4)
    assert (sparse.to_dense() == dense).all()
    assert (sparse.t().to_dense() == dense.t()).all()
    assert (sparse.clone().to_dense() == dense).all()
    assert repr(sparse) == "SparseSemiStructuredTensorCUSPARSELT(shape=torch.Size([32, 64]))"


def test_it_is_multiplied(sparse):
    dense, x, bias = _matrix(ftorch), ftorch.randn(5, 64).half(), ftorch.randn(32).half()
    linear = ftorch.nn.functional.linear
    assert ftorch.equal(linear(x, sparse, bias), linear(x, dense, bias)) or ftorch.allclose(
        linear(x, sparse, bias), linear(x, dense, bias), atol=1e-2, rtol=1e-2
    )
    assert ftorch.allclose(sparse @ x.t(), dense @ x.t(), atol=1e-2, rtol=1e-2)
    with pytest.raises(NotImplementedError):
        sparse.sum()


def test_more_than_two_elements_of_four():
    packed, meta = semi_structured.compress(ftorch.arange(1.0, 17.0)[None])
    kept = semi_structured.expand(packed, meta)
    assert (kept != 0).reshape(4, 4).sum(1).tolist() == [2, 2, 2, 2]
