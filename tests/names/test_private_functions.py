"""Functions with a leading underscore, and methods, that published code calls."""

import ctypes
import importlib
import pathlib

import numpy as np
import pytest

import ftorch
from tests.oracle.programs import both, both_with_text, said

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
    "crow_indices_copy": lambda t: (
        t.crow_indices_copy(t.eye(3).to_sparse_csr()), t.col_indices_copy(t.eye(3).to_sparse_csr()),
        t.ccol_indices_copy(t.eye(3).to_sparse_csc()), t.row_indices_copy(t.eye(3).to_sparse_csc()),
        t.values_copy(t.eye(4).to_sparse_bsr((2, 2))), t.values_copy(t.eye(2).to_sparse_csr(), out=t.empty(2)),
    ),
    "_conj_copy": lambda t: (t._conj_copy(t.tensor([1 + 2j])), t._neg_view_copy(t.ones(2)), t._conj_physical(t.tensor([2j]))),
    "_reshape_alias_copy": lambda t: t._reshape_alias_copy(t.arange(4), (2, 2), (1, 2)),
    "_logcumsumexp": lambda t: (t._logcumsumexp(t.arange(3.0), 0), t._lazy_clone(t.ones(2))),
    "_coalesce": lambda t: (
        t._coalesce(t.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))).to_dense(), t._sparse_sum(t.eye(3).to_sparse()),
        t._sparse_sum(t.eye(3).to_sparse(), dim=[0]).to_dense(),
        t._sparse_sparse_matmul(t.eye(3).to_sparse(), t.eye(3).to_sparse()).to_dense(),
    ),
    "_adaptive_avg_pool3d": lambda t: t._adaptive_avg_pool3d(t.arange(8.0).reshape(1, 1, 2, 2, 2), (1, 2, 1)),
    "_addmm_activation": lambda t: [
        t._addmm_activation(t.ones(2), t.eye(2), -t.eye(2), beta=0.5, use_gelu=gelu) for gelu in (True, False)
    ],
    "_add_relu_": lambda t: t._add_relu_(t.ones(2), t.tensor([1.0, -2.0]), alpha=2),
    "_convolution_mode": lambda t: t._convolution_mode(t.ones(1, 1, 3), t.ones(1, 1, 3), None, [1], "same", [1], 1),
    "_to_cpu": lambda t: t._to_cpu([t.ones(2)]),
    "_unsafe_index_put": lambda t: t._unsafe_index_put(t.zeros(3), [t.tensor([0, 0])], t.tensor([1.0, 2.0]), True),
    "_index_put_impl_": lambda t: t._index_put_impl_(t.zeros(3), [t.tensor([0, 0])], t.tensor([1.0, 2.0]), True),
    "_as_tensor_fullprec": lambda t: (t._as_tensor_fullprec(1.5), t._as_tensor_fullprec(2), t._as_tensor_fullprec([1.5])),
    "_sym_sqrt": lambda t: t.tensor([
        getattr(t, f"_sym_{name}")(0.5)
        for name in ("acos", "asin", "atan", "cos", "cosh", "log2", "sin", "sinh", "sqrt", "tan", "tanh")
    ]),
    "nn.functional": lambda t: (
        t.nn.functional._single(2), t.nn.functional._pair(2), t.nn.functional._triple(2), t.nn.functional._VF.abs(t.tensor(-1)),
        t.nn.functional.math.pi, t.nn.functional.boolean_dispatch is t._jit_internal.boolean_dispatch,
        t.nn.functional.BroadcastingList2 is t._jit_internal.BroadcastingList2,
    ),
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


def _scaled(t, found, good, scale=(4.0,)):
    scale, tracker = t.tensor(scale), t.tensor([good], dtype=t.int32)
    same = t._amp_update_scale_(scale, tracker, t.tensor([found]), 2.0, 0.5, 3) is scale
    return scale, tracker, same


def _unscaled(t, gradients, found=(0.0,)):
    found = t.tensor(found)
    given = t._amp_foreach_non_finite_check_and_unscale_(gradients, found, t.tensor([0.5]))
    return gradients, found, given


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e5m2", "int64", "bool", "complex64"])
def test_gradients_of_dtypes_are_unscaled(dtype):
    def program(t):
        return _unscaled(t, [t.ones(2).to(getattr(t, dtype))])

    if dtype in ("float16", "bfloat16", "float64"):
        both(program)
    else:
        assert "not implemented" in both_with_text(program)


def _chosen(t, query, *args, shape=None, **options):
    key = query if shape is None else t.ones(shape)
    return t._fused_sdp_choice(query, key, key, *args, **options)


def _allowed(t, name):
    with t.nn.attention.sdpa_kernel(getattr(t.nn.attention.SDPBackend, name)):
        return t._fused_sdp_choice(*[t.ones(1, 2, 3, 4)] * 3)


def _tied(t):
    module = t.nn.Sequential(t.nn.Linear(1, 1))
    module.add_module("again", module[0])
    states = (t.jit._unique_state_dict(module), t.jit._unique_state_dict(module, keep_vars=True))
    return [{name: value.requires_grad for name, value in state.items()} for state in states]


def _Named(t):
    class Named(t.Tensor):
        __torch_function__ = t._C._disabled_torch_function_impl

        @staticmethod
        def __new__(cls, x):
            return t.Tensor._make_subclass(cls, x)

    return Named


def _on_meta(t):
    from importlib import import_module

    def devices():
        yield t.empty(1).device
        yield t.empty(2).device

    return import_module(f"{t.__name__}.utils._device").set_device("meta")(devices)


_padded = lambda t: t.arange(12.0).view(2, 3, 2)  # noqa: E731
_mask = lambda t, *rows: t.tensor(rows).bool()  # noqa: E731
SAID = {
    "nested of a mask": lambda t: t._nested_tensor_from_mask(_padded(t), _mask(t, [1, 1, 0], [1, 0, 0])),
    "nested of a mask with gaps": lambda t: t._nested_tensor_from_mask(_padded(t), _mask(t, [0, 1, 1], [1, 0, 0])),
    "gaps unchecked": lambda t: t._nested_tensor_from_mask(_padded(t), _mask(t, [0, 1, 1], [1, 0, 0]), mask_check=False),
    "a mask of numbers": lambda t: t._nested_tensor_from_mask(_padded(t), t.ones(2, 3)),
    "a mask of a row": lambda t: t._nested_tensor_from_mask(_padded(t), t.ones(3).bool()),
    "a matrix": lambda t: t._nested_tensor_from_mask(t.ones(2, 3), t.ones(2, 3).bool()),
    "a mask too short": lambda t: t._nested_tensor_from_mask_left_aligned(_padded(t), t.ones(2, 2).bool()),
    "aligned": lambda t: [t._nested_tensor_from_mask_left_aligned(_padded(t), _mask(t, *rows))
                          for rows in ([[1, 1, 0], [1, 0, 0]], [[0, 1, 1], [1, 0, 0]])],
    "nested of a list": lambda t: t._nested_tensor_from_tensor_list([t.ones(1), t.ones(2)]),
    "scale": lambda t: [_scaled(t, *case) for case in ((0.0, 0), (0.0, 2), (1.0, 2), (0.0, 1))],
    "scale at its end": lambda t: _scaled(t, 0.0, 2, (3e38,)),
    "two scales": lambda t: _scaled(t, 0.0, 2, (3.0, 1.0)),
    "unscale": lambda t: _unscaled(t, [t.ones(2), t.tensor([3.0])]),
    "unscale, infinite": lambda t: _unscaled(t, [t.ones(2).half(), t.tensor([float("inf")])]),
    "unscale, was infinite": lambda t: _unscaled(t, [t.ones(2).double()], (1.0,)),
    "unscale integers": lambda t: _unscaled(t, [t.ones(2, dtype=t.int64)]),
    "unscale, two founds": lambda t: _unscaled(t, [t.ones(2)], (1.0, 0.0)),
    "attention": lambda t: _chosen(t, t.ones(2, 2, 4, 8)),
    "attention, dropout": lambda t: _chosen(t, t.ones(2, 2, 4, 8), dropout_p=0.1),
    "attention, mask with a gradient": lambda t: _chosen(t, t.ones(2, 2, 4, 8), t.ones(4, 4, requires_grad=True)),
    "attention, mask": lambda t: _chosen(t, t.ones(2, 2, 4, 8), t.ones(4, 4)),
    "attention, three dimensions": lambda t: _chosen(t, t.ones(2, 4, 8)),
    "attention, grouped": lambda t: _chosen(t, t.ones(2, 2, 4, 8), shape=(2, 1, 4, 8), enable_gqa=True),
    "attention, fewer heads": lambda t: _chosen(t, t.ones(2, 2, 4, 8), shape=(2, 1, 4, 8)),
    "attention, math": lambda t: _allowed(t, "MATH"),
    "attention, none": lambda t: _allowed(t, "EFFICIENT_ATTENTION"),
    "convolution": lambda t: (t._nnpack_available(), t.cudnn_is_acceptable(t.ones(1)), t._nnpack_spatial_convolution(
        t.ones(1, 1, 3, 3), t.ones(1, 1, 2, 2), t.ones(1), [1, 1], [1, 1])),
    "add and relu": lambda t: t._VF._add_relu(t.tensor([-3.0, 2.0]), t.ones(2), alpha=2),
    "modes of grid_sample": lambda t: (t.nn.functional.GRID_SAMPLE_INTERPOLATION_MODES,
                                       t.nn.functional.GRID_SAMPLE_PADDING_MODES),
    "reduction": lambda t: t.nn.functional._Reduction.get_enum("mean"),
    "optional": lambda t: t.jit._unwrap_optional(3),
    "no optional": lambda t: t.jit._unwrap_optional(None),
    "state without ties": _tied,
    "backends": lambda t: (t.backends.cuda.SDPBackend.MATH, t._C._SDPBackend.FLASH_ATTENTION.value),
    "sizes": lambda t: t._C._infer_size(t.Size([2, 1]), t.Size([3])),
    "sizes that differ": lambda t: t._C._infer_size(t.Size([2, 2, 1]), t.Size([3, 4])),
    "overrides": lambda t: t._C._is_torch_function_enabled(),
    "flat": lambda t: t._C._nn.flatten_dense_tensors([t.ones(2, 2), t.zeros(1)]),
    "no longer flat": lambda t: t._C._nn.unflatten_dense_tensors(t.arange(5.0), [t.ones(2, 2), t.zeros(1)]),
    "is_compiling": lambda t: t._utils.is_compiling(),
    "sparse": lambda t: t._sparse_broadcast_to(t.ones(2, 1).to_sparse(), (2, 3)).to_dense(),
    "coo": lambda t: t._validate_sparse_coo_tensor_args(t.tensor([[0, 1]]), t.ones(2), (2,)),
    "coo, outside": lambda t: t._validate_sparse_coo_tensor_args(t.tensor([[0, 3]]), t.ones(2), (2,)),
    "csr": lambda t: t._validate_sparse_compressed_tensor_args(
        t.tensor([0, 1]), t.tensor([0]), t.ones(1), (1, 1), t.sparse_csr),
    "csr, wrong": lambda t: t._validate_sparse_compressed_tensor_args(
        t.tensor([0, 2]), t.tensor([0]), t.ones(1), (1, 1), t.sparse_csr),
    "zeros": lambda t: t._efficientzerotensor(2, 3) + 0,
    "unique_dim": lambda t: t._VF.unique_dim(t.tensor([[1, 2], [1, 2], [0, 1]]), 0, True, True, True),
    "a call": lambda t: t._utils.render_call(
        t.sum, [t.ones(2), 3, [t.ones(2)], (t.ones(1, dtype=t.int32),), {"a": t.ones(1)}], {"dim": 0}),
    "the name of a class": lambda t: [_Named(t)(t.ones(2)), _Named(t)(t.ones(2, device="meta")),
                                      t.nn.Parameter(t.ones(2).as_subclass(_Named(t)))],
    "xpu": lambda t: t.nn.Linear(1, 1).xpu(),
    "ipu": lambda t: t.nn.Linear(1, 1).ipu(),
    "xpu in a script": lambda t: t.jit.script(t.nn.Linear(1, 1)).xpu(),
    "a generator's device": lambda t: list(_on_meta(t)()),
    "bags": lambda t: t._embedding_bag_forward_only(t.eye(3), t.tensor([0, 2]), t.tensor([0]))[0],
}


@pytest.mark.parametrize("name", SAID)
def test_says_what_pytorch_says(name):
    import ftorch.nn.attention

    assert ftorch.nn.attention
    mine, theirs = (said(t, SAID[name])[0] for t in (ftorch, torch))  # warnings are said once: in whose test depends
    assert mine == theirs


def test_folders_of_extensions(monkeypatch, tmp_path, capsys):
    """Libraries ask for them as they are imported (`nncf`)."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("TORCH_EXTENSIONS_DIR", raising=False)

    def seen(package, name):
        module = package.utils.cpp_extension
        found = module._get_build_directory(name, True)
        assert pathlib.Path(found).is_dir()
        return found.replace(name, "-"), module.get_default_build_root(), capsys.readouterr().err.replace(name, "-")

    importlib.import_module("torch.utils.cpp_extension")
    assert seen(ftorch, "ours") == seen(torch, "theirs")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "elsewhere"))
    assert seen(ftorch, "ours") == seen(torch, "theirs")


def test_contexts_of_traces():
    def seen(package):
        guards = importlib.import_module(f"{package.__name__}._guards")
        mode, other = (package._subclasses.FakeTensorMode() for _ in range(2))
        found = [guards.TracingContext.try_get()]
        context = guards.TracingContext(mode)
        with guards.tracing(context) as given:
            found += [guards.TracingContext.get() is context is given, guards.detect_fake_mode([]) is mode]
            with guards.tracing(None):
                found.append(guards.TracingContext.try_get())
            for inputs in ([mode.from_tensor(package.ones(1))], [other.from_tensor(package.ones(1))]):
                with other:
                    found.append(guards.detect_fake_mode(inputs) is mode)
        with pytest.raises(RuntimeError) as info:
            guards.TracingContext.get()
        return found, str(info.value)

    importlib.import_module("torch._subclasses"), importlib.import_module("ftorch._subclasses")
    assert seen(ftorch) == seen(torch)
