"""Functions with a leading underscore, and methods, that published code calls."""

import ctypes

import numpy as np
import pytest

import ftorch

torch = pytest.importorskip("torch")

CASES = {
    "_convert_indices_from_coo_to_csr": lambda t: t._convert_indices_from_coo_to_csr(t.tensor([0, 0, 2]), 4),
    "_convert_indices_from_csr_to_coo": lambda t: t._convert_indices_from_csr_to_coo(
        t.tensor([0, 2, 2, 3]), t.tensor([0, 1, 2]), transpose=True, out_int32=True
    ),
    "_dim_arange": lambda t: t._dim_arange(t.ones(3, 2), 1),
    "_cast_Half": lambda t: t._cast_Half(t.tensor([1, 2])),
    "_unique": lambda t: t._unique(t.tensor([2, 1, 1]), return_inverse=True),
    "_int_mm": lambda t: t._int_mm(t.ones(32, 32, dtype=t.int8), t.full((32, 32), 9, dtype=t.int8)),
    "_euclidean_dist": lambda t: t._euclidean_dist(t.ones(2, 3), t.arange(6.0).reshape(2, 3)),
    "_prelu_kernel": lambda t: t._prelu_kernel(t.tensor([1.0, -2.0]), t.tensor([0.5])),
    "_weight_norm_interface": lambda t: t._weight_norm_interface(t.ones(2, 3), t.ones(2, 1) * 2, 0),
    "_fused_rms_norm": lambda t: t._fused_rms_norm(t.arange(6.0).reshape(2, 3), [3], t.ones(3) * 2, 1e-5),
    "_masked_softmax": lambda t: t._masked_softmax(t.ones(2, 3), t.tensor([[True, False, False]] * 2), 1, 1),
    "_softmax": lambda t: t._softmax(t.arange(3.0), 0, False),
    "_is_all_true": lambda t: (t.tensor([True, False])._is_all_true(), t.tensor([True, False])._is_any_true()),
    "_conj": lambda t: t.tensor([1 + 2j])._conj().resolve_conj(),
    "_neg_view": lambda t: t.tensor([1.0, 2.0])._neg_view().resolve_neg(),
    "get_device": lambda t: t.get_device(t.ones(1)),
    "as_strided_": lambda t: t.as_strided_(t.arange(6.0), (2,), (3,)),
}


def plain(value):
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return (str(value.dtype), value.tolist()) if hasattr(value, "tolist") else value


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    ours, theirs = plain(CASES[name](ftorch)), plain(CASES[name](torch))
    assert _kinds(ours) == _kinds(theirs)
    assert pytest.approx(np.asarray(_flat(ours)), abs=1e-6) == np.asarray(_flat(theirs))


def _kinds(value):
    """Structure, dtypes and Python types, without the numbers."""
    if isinstance(value, (tuple, list)):
        return [_kinds(v) for v in value]
    return value if isinstance(value, str) else type(value)


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [x for v in value for x in _flat(v)]
    return [] if isinstance(value, str) else [complex(value)]


def test_backward_hooks():
    x = ftorch.ones(2, requires_grad=True)
    assert x._backward_hooks is None
    x.register_hook(lambda g: g)
    assert len(x._backward_hooks) == 1 and (x * 2)._backward_hooks is None


@pytest.mark.parametrize("make", [
    lambda n: ftorch.zeros(n), lambda n: ftorch.arange(n).float() + 1,
    lambda n: ftorch.ones(1).expand(n).contiguous(), lambda n: ftorch.randn(n, 2)[:, 0].contiguous(),
    lambda n: (ftorch.ones(n, requires_grad=True) * 2).detach(),
])
@pytest.mark.parametrize("n", [1, 7, 1001])
def test_the_address_of_computed_tensors(make, n):
    """Whatever made them, without a program too: files are written from there."""
    x = make(n)
    address = x.data_ptr()
    there = np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(ctypes.c_float)), (n,)).copy()
    assert (x + 1).sum().item() == pytest.approx(float(there.sum() + n), rel=1e-5)
    assert x.data_ptr() == address and there.tolist() == x.tolist()


def test_classes_and_storages():
    with pytest.raises(RuntimeError, match="does not exist"):
        ftorch.classes.mine.Stack  # noqa: B018
    assert isinstance(ftorch.ones(1).untyped_storage(), ftorch.StorageBase)
    assert ftorch.Storage is ftorch.FloatStorage
    from ftorch.multiprocessing.reductions import StorageWeakRef

    x = ftorch.ones(3)
    assert StorageWeakRef(x.untyped_storage()) == StorageWeakRef(x[1:].untyped_storage())


def test_linspace_and_the_identity_grid_are_exact():
    for n in (28, 33, 224):
        np.testing.assert_array_equal(ftorch.linspace(-1, 1, n).numpy(), torch.linspace(-1, 1, n).numpy())
        grids = [
            t.nn.functional.affine_grid(t.eye(2, 3)[None], (1, 1, n, n), align_corners=False).numpy()
            for t in (ftorch, torch)
        ]
        np.testing.assert_array_equal(*grids)
