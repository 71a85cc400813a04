"""Type inference: what ``tensor(data)`` makes of Python's data: its dtype, shape and elements."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import jax
import numpy as np

from ..call.op import to_numpy
from ..core import dtype as _dtype
from ..core.user_warnings import warn_once
from ..tensor import TensorBase, modes

OTHER_ORDER = (
    "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not "
    "supported."
)


def inferred_array(data, wanted=None):
    """NumPy array of nested Python data, in the dtype PyTorch would infer (or the one wanted)."""
    if isinstance(data, (np.ndarray, np.generic)):
        if not data.dtype.isnative:
            raise ValueError(OTHER_ORDER)
        return np.asarray(data)
    if isinstance(data, (bool, int, float, complex)):
        if data.__class__ is int and not -(1 << 63) <= data < 1 << 63:
            return np.asarray(data, _beyond_int64([data], wanted))
        with np.errstate(over="ignore"):
            return np.asarray(data, _holding(_dtype.from_python(_number_type(data)), wanted).numpy)
    if isinstance(data, TensorBase):
        return to_numpy(data)
    if isinstance(data, jax.Array):
        return np.asarray(data)
    if hasattr(data, "__len__") and hasattr(data, "__array__") and not isinstance(data, (list, tuple)):
        return np.asarray(data)
    if isinstance(data, bytes | str):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not _is_sequence(data):
        return _by_element(data, wanted)
    if len(data) and isinstance(data, (list, tuple)) and isinstance(data[0], np.ndarray) and data[0].ndim:
        warn_once(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider "
            "converting the list to a single numpy.ndarray with numpy.array() before converting to a tensor."
        )
    try:
        shape, leaves = _flatten(data)
        kinds = {type(v) for v in leaves}
        if wanted is not None and wanted.category <= 1 and any(issubclass(kind, _NO_INTEGERS) for kind in kinds):
            return _by_element(data, wanted)
        return _array(leaves, kinds, shape, wanted)
    except (TypeError, ValueError, RuntimeError):
        return _by_element(data, wanted)


_NO_INTEGERS = (TensorBase, np.float16, np.float32, np.longdouble)  # may be none for a dtype of integers


def _array(leaves, kinds, shape, wanted):
    if not leaves:
        return np.empty(shape, _dtype.get_default_dtype().numpy)
    return _build(leaves, shape, _holding(_common(leaves, kinds), wanted), wanted)


def _common(leaves, kinds):
    """The dtype that holds all elements."""
    dtype = _dtype.bool
    for kind in kinds:
        if issubclass(kind, (TensorBase, np.ndarray)):
            for own in {v.dtype for v in leaves if type(v) is kind}:
                own = own if issubclass(kind, TensorBase) else _dtype.from_numpy(own)
                dtype = _dtype._promote(dtype, own)
        else:
            dtype = _dtype._promote(dtype, _leaf_dtype(kind))
    return dtype


def _by_element(data, wanted):
    """What is nested in another way than lists in lists: element by element in PyTorch's order, with its errors."""
    shape, first = [], data
    while _is_sequence(first) or (isinstance(first, (str, bytes)) and shape):
        if isinstance(first, str):  # whose elements are strings, too
            raise ValueError("too many dimensions 'str'")
        shape.append(len(first))
        if len(shape) > _MOST_DIMENSIONS:
            raise ValueError(f"too many dimensions '{type(first).__name__}'")
        if not shape[-1]:
            break
        try:
            first = first[0]
        except Exception:
            raise ValueError(
                f"could not determine the shape of object type '{type(first).__name__}'"
            ) from None
    dtype = _inferred(data) if wanted is None else wanted
    if 0 in shape:
        return np.empty(shape, dtype.numpy)
    leaves: list = []

    def store(item, dim):
        if dim == len(shape):
            leaves.append(_checked(item, dtype))
            return
        try:
            items = list(item)
        except TypeError:
            raise TypeError("not a sequence") from None
        if len(items) != shape[dim]:
            raise ValueError(f"expected sequence of length {shape[dim]} at dim {dim} (got {len(items)})")
        for part in items:
            store(part, dim + 1)

    store(data, 0)
    return _array(leaves, {type(v) for v in leaves}, shape, wanted)


def _inferred(item):
    """The dtype of nested data."""
    if isinstance(item, TensorBase):
        return item.dtype
    if isinstance(item, (np.ndarray, np.generic)):
        return _dtype.from_numpy(item.dtype)
    if not _is_sequence(item):
        return _leaf_dtype(type(item))
    if not len(item):
        return _dtype.get_default_dtype()
    dtype = _dtype.bool
    for place in range(len(item)):
        part = item[place]
        if part is item:
            raise TypeError("new(): self-referential lists are incompatible")
        dtype = _dtype._promote(dtype, _inferred(part))
    return dtype


def _checked(item, dtype):
    """An element, if a dtype holds such."""
    if dtype.category <= 1:
        if isinstance(item, TensorBase):
            if item.numel() != 1 or item.dtype.category > 1:
                raise TypeError("only integer tensors of a single element can be converted to an index")
        elif not isinstance(item, float):
            operator.index(item)
    elif isinstance(item, (TensorBase, np.ndarray)):
        float(item) if dtype.category == 2 else complex(item)
    elif not isinstance(item, (bool, int, float, np.generic)) and not (isinstance(item, complex) and dtype.is_complex):
        raise TypeError(f"must be real number, not {type(item).__name__}")
    return item


def _holding(inferred, wanted):
    # Python floats are doubles: a wanted dtype gets them unrounded.
    is_floating = inferred.is_floating_point and wanted is not None and wanted.category >= 2
    if is_floating:
        return _dtype.float64
    if inferred.is_complex and wanted is not None:
        return _dtype.complex128
    return inferred


def _number_type(value):
    return next(k for k in (bool, int, float, complex) if isinstance(value, k))


def _leaf_dtype(kind):
    if issubclass(kind, np.generic):  # the double precision ones are Python's, too
        return _dtype.from_numpy(np.dtype(kind))
    if issubclass(kind, (bool, int, float, complex)):
        return _dtype.from_python(next(k for k in (bool, int, float, complex) if issubclass(kind, k)))
    if issubclass(kind, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    raise RuntimeError(f"Could not infer dtype of {kind.__name__}")


def _build(leaves, shape, dtype, wanted=None):
    if dtype.category == 2 and any(isinstance(v, TensorBase) and v.requires_grad for v in leaves):
        say_that_gradients_end()
    values = [v.item() if isinstance(v, (TensorBase, np.ndarray)) else v for v in leaves]
    if wanted is _dtype.bool:
        return np.array([bool(v) for v in values], np.bool_).reshape(shape)
    if dtype.category == 1 and not all(-(1 << 63) <= v < 1 << 63 for v in values):
        return np.array(values, _beyond_int64(values, wanted)).reshape(shape)
    with np.errstate(over="ignore"):
        return np.array(values, dtype.numpy).reshape(shape)


def say_that_gradients_end():
    """Warns, once in a process, of a float made of a tensor that requires grad, while gradients are on."""
    if not modes.grad:
        return
    warn_once(
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
        "Consider using tensor.detach() first.",
    )


def _beyond_int64(values, wanted):
    """The dtype of integers that 64 bits with a sign do not hold."""
    if wanted is not None and wanted.category >= 2:
        return np.float64
    if wanted is not _dtype.uint64 or not all(0 <= v < 1 << 64 for v in values):
        raise ValueError("Overflow when unpacking long long")
    return np.uint64


_MOST_DIMENSIONS = 128
_DEEP = 12  # dimensions from which on it is looked whether a list contains itself


def _check_depth(item, depth):
    while _is_sequence(item) and len(item):
        if depth > _MOST_DIMENSIONS:
            raise ValueError(f"too many dimensions '{type(item).__name__}'")
        item, depth = item[0], depth + 1


def _flatten(data):
    """(shape, leaves) of nested sequences, which must not be ragged."""
    shape, level = [], [data]
    while level and _is_sequence(level[0]):
        length = len(level[0])
        for position, item in enumerate(level):
            if not _is_sequence(item):
                raise TypeError("not a sequence")
            if len(item) != length:
                raise ValueError(
                    f"expected sequence of length {length} at dim {len(shape)} (got {len(item)})"
                )
        shape.append(length)
        if len(shape) == _DEEP:
            _check_depth(level[0], _DEEP)
        count = length * len(level)
        level = [leaf for item in level for leaf in item]
        if len(level) != count:
            raise ValueError("a sequence has not the elements that its length says")
    for item in level:
        if _is_sequence(item) or (isinstance(item, TensorBase) and item.numel() != 1):
            raise ValueError("only one element tensors can be converted to Python scalars")
    return shape, level


def _is_sequence(item):
    if isinstance(item, TensorBase):
        return False  # among others a tensor stands for its one element
    if isinstance(item, np.ndarray):
        return item.ndim > 0
    return isinstance(item, (list, tuple, range)) or (
        hasattr(item, "__len__") and hasattr(item, "__getitem__") and not isinstance(item, (str, bytes, Mapping, type))
    )


def cast_array(array, dtype):
    if dtype is None:
        _dtype.from_numpy(array.dtype)
        return array
    if array.dtype == dtype.numpy:
        return array
    if array.dtype.kind == "c" and not dtype.is_complex:
        array = array.real
    with np.errstate(all="ignore"):
        if dtype in _BOUNDS and array.dtype.kind in "biuf":
            array = _BOUNDS[dtype](array.astype(np.float32))
        return array.astype(dtype.numpy)


# Numbers beyond what these dtypes have become the nearest one; nan stays nan.
_BOUNDS = {
    _dtype.float8_e4m3fn: lambda x: np.clip(x, -448, 448),
    _dtype.float8_e8m0fnu: lambda x: np.maximum(np.abs(x), np.float32(2.0**-127)),
}


def check_numbers(array, dtype):
    """Raises PyTorch's errors for Python numbers that a real dtype cannot hold."""
    if array.dtype.kind == "c" and dtype.category:
        raise TypeError("must be real number, not complex" if dtype.category > 1 else
                        "'complex' object cannot be interpreted as an integer")
    if not array.size or array.dtype == dtype.numpy or dtype.category != 1:
        return
    limits = np.iinfo(dtype.numpy)
    low, high = array.min(), array.max()
    lowest = limits.min if dtype.is_signed else -limits.max
    if not (int(lowest) <= low and high <= int(limits.max)):  # nan is not, either
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
