"""Comparing ftorch with PyTorch: the same values in both, and whether two results agree."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import torch as pt

import ftorch as ft
from ftorch.eager.tensor import TensorBase, from_array

# Relative and absolute tolerance by dtype, as torch.testing's, float32 with room for sums.
TOLERANCE = {
    "float16": (1e-3, 1e-3), "bfloat16": (1.6e-2, 1e-2), "float32": (1e-5, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1e-5, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
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


def assert_same(mine, theirs, *, where="", tolerance=None, strides=False):
    """Raises AssertionError unless two results agree in structure, dtype, shape and values."""
    if is_tensor(theirs):
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
            assert_same(a, b, where=f"{where}[{i}]", tolerance=tolerance, strides=strides)
    elif isinstance(theirs, float):
        assert mine == theirs or abs(mine - theirs) < 1e-6 or (mine != mine and theirs != theirs)
    elif theirs is None or isinstance(theirs, (bool, int, complex, str)):
        assert mine == theirs, f"{where}: {mine!r} instead of {theirs!r}"


def outcome(function, *args, **kwargs):
    """(result, None) or (None, exception) of a call, warnings ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs), None
        except Exception as error:
            return None, error


def assert_same_outcome(mine, theirs, **options):
    """Both raise the same type of exception, or their results agree."""
    (a, mine_error), (b, their_error) = mine, theirs
    if their_error is None:
        if mine_error is not None:
            raise mine_error
        assert_same(a, b, **options)
    else:
        assert mine_error is not None, f"no {type(their_error).__name__}: {their_error}"
        assert type(mine_error).__name__ == type(their_error).__name__, (
            f"{type(mine_error).__name__} ({mine_error}) instead of "
            f"{type(their_error).__name__} ({their_error})"
        )


def dtypes(module, value):
    """A sample's value with dtype names and NumPy dtypes as the module's dtypes."""
    if isinstance(value, np.dtype):
        return getattr(module, value.name)
    if isinstance(value, type) and issubclass(value, (np.generic, ml_dtypes.bfloat16)):
        return getattr(module, np.dtype(value).name)
    return value


def both(function, **options):
    """Runs ``function(module)`` with ftorch and PyTorch; results or types of exceptions agree."""
    assert_same_outcome(outcome(function, ft), outcome(function, pt), **options)


def both_with_text(function):
    """Both libraries raise the same exception with the same text; gives the text."""
    (_, mine), (_, theirs) = outcome(function, ft), outcome(function, pt)
    assert theirs is not None, "PyTorch raises nothing"
    assert type(mine).__name__ == type(theirs).__name__, f"{mine!r} instead of {theirs!r}"
    assert str(mine) == str(theirs)
    return str(theirs)


# --- programs that say something ------------------------------------------------------

LIBRARIES = [ft, pt]


def said(t, program, category=Warning):
    """(text of a program's result or exception, texts of its warnings) with one of the libraries."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = repr(program(t))
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
    return result, [str(w.message) for w in seen if issubclass(w.category, category)]


def assert_says_same(program):
    """A program's result, exception and warnings read the same with both libraries."""
    assert said(ft, program) == said(pt, program)
