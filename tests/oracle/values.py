"""Values of both libraries: the same ones in each, and whether two agree."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import torch as pt

import ftorch as ft
from ftorch.eager.tensor import TensorBase, from_array

# Relative and absolute tolerance by dtype, as torch.testing's, float32 with room for sums.
TOLERANCE = {
    "float16": (1e-3, 1e-3), "bfloat16": (1.6e-2, 1e-2), "float32": (1e-5, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1e-5, 1e-5), "complex128": (1e-7, 1e-7),
}
_STORED = {"bfloat16": np.int16, "float8_e4m3fn": np.int8, "float8_e5m2": np.int8}


def name_of(dtype) -> str:
    """``"float32"`` for either library's dtype."""
    return str(dtype).removeprefix("torch.")


def to_torch(array: np.ndarray):
    """A PyTorch tensor of a NumPy array, also of ml_dtypes."""
    name = array.dtype.name
    if name in _STORED:
        return pt.from_numpy(array.view(_STORED[name]).copy()).view(getattr(pt, name))
    return pt.from_numpy(array.copy())


def to_ftorch(array: np.ndarray):
    """An ftorch tensor of a NumPy array, also of ml_dtypes."""
    return from_array(array)


def array(t) -> np.ndarray:
    """The elements of either library's tensor, in float64 or complex128 where they are inexact."""
    t = t.detach()
    if t.is_complex():
        return t.resolve_conj().to(_of(t).complex128).numpy(force=True)
    if t.is_floating_point():
        return t.to(_of(t).float64).numpy(force=True)
    return np.asarray(t.numpy())


def _of(t):
    return pt if isinstance(t, pt.Tensor) else ft


def is_tensor(x) -> bool:
    return isinstance(x, (pt.Tensor, TensorBase))


def tensors(result) -> list:
    """The tensors of a result, in order."""
    if is_tensor(result):
        return [result]
    if isinstance(result, (tuple, list)):
        return [t for item in result for t in tensors(item)]
    return []


_PARTS = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}


def assert_same(mine, theirs, *, where="", tolerance=None, strides=False):
    """Raises AssertionError unless two results agree in structure, dtype, layout, shape and values."""
    options = {"tolerance": tolerance, "strides": strides}
    if is_tensor(theirs) and theirs.is_nested:
        assert mine.is_nested, where
        assert_same(mine.unbind(), theirs.unbind(), where=where, **options)
    elif is_tensor(theirs) and name_of(theirs.layout) in _PARTS:
        layout = name_of(theirs.layout)
        assert (name_of(mine.layout), tuple(mine.shape)) == (layout, tuple(theirs.shape)), where
        if layout == "sparse_coo":
            assert mine.is_coalesced() or not theirs.is_coalesced(), where
        for part in _PARTS[layout]:
            a, b = (getattr(t.detach(), part)() for t in (mine, theirs))
            assert_same(a, b, where=f"{where}.{part}", **options)
    elif is_tensor(theirs):
        assert is_tensor(mine), f"{where}: {type(mine).__name__} instead of a tensor"
        assert name_of(mine.dtype) == name_of(theirs.dtype), (
            f"{where}: dtype {mine.dtype} instead of {theirs.dtype}"
        )
        assert tuple(mine.shape) == tuple(theirs.shape), (
            f"{where}: shape {tuple(mine.shape)} instead of {tuple(theirs.shape)}"
        )
        if strides:
            assert mine.stride() == theirs.stride(), (
                f"{where}: stride {mine.stride()} instead of {theirs.stride()}"
            )
        rtol, atol = tolerance or TOLERANCE.get(name_of(theirs.dtype), (0.0, 0.0))
        np.testing.assert_allclose(
            array(mine), array(theirs), rtol=rtol, atol=atol, equal_nan=True, err_msg=where
        )
    elif isinstance(theirs, (tuple, list)):
        assert isinstance(mine, (tuple, list)) and len(mine) == len(theirs), (
            f"{where}: {mine!r} instead of {theirs!r}"
        )
        for i, (a, b) in enumerate(zip(mine, theirs)):
            assert_same(a, b, where=f"{where}[{i}]", **options)
    elif isinstance(theirs, dict):
        assert list(mine) == list(theirs), f"{where}: {mine!r} instead of {theirs!r}"
        for key in theirs:
            assert_same(mine[key], theirs[key], where=f"{where}[{key!r}]", **options)
    elif isinstance(theirs, float):
        assert mine == theirs or abs(mine - theirs) < 1e-6 or (mine != mine and theirs != theirs)
    elif theirs is None or isinstance(theirs, (bool, int, complex, str)):
        assert mine == theirs, f"{where}: {mine!r} instead of {theirs!r}"


def dtypes(module, value):
    """A sample's value with dtype names and NumPy dtypes as the module's dtypes."""
    if isinstance(value, np.dtype):
        return getattr(module, value.name)
    if isinstance(value, type) and issubclass(value, (np.generic, ml_dtypes.bfloat16)):
        return getattr(module, np.dtype(value).name)
    return value


def plain(value):
    """A result as numbers, names and containers that compare with ``==``: tensors by values, dtype, shape and strides."""
    if is_tensor(value):
        return value.tolist(), name_of(value.dtype), tuple(value.shape), tuple(value.stride())
    if isinstance(value, Mapping):
        return type(value).__name__, {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return value
