"""Pairs of values that test cases compare: looser than those of assert_close."""

from __future__ import annotations

import enum
import unittest
import unittest.mock

import numpy as np

import ftorch as torch

from ...eager.core import dtype as dtypes
from .._comparison import (
    BooleanPair,
    NonePair,
    NumberPair,
    Pair,
    TensorLikePair,
)

_ARRAYS = (torch.Tensor, np.ndarray)


def _only(value, pair, kind, id):
    """The one element of an array that stands beside a number."""
    count = value.numel() if isinstance(value, torch.Tensor) else value.size
    if count > 1:
        pair._fail(
            ValueError,
            f"Only single element tensor-likes can be compared against a {kind}. Got {count} elements instead.", id=id,
        )
    return value.item()


class _Relaxed:
    """One of the two must be of the pair's own kind; the other may be of more."""

    def _check_one(self, actual, expected, others):
        own = self._supported_types  # type: ignore[attr-defined]
        either = (*own, *others)
        if not (
            (isinstance(actual, own) and isinstance(expected, either))
            or (isinstance(expected, own) and isinstance(actual, either))
        ):
            Pair._inputs_not_supported()


class RelaxedBooleanPair(_Relaxed, BooleanPair):
    """A boolean, and a boolean, a number or an array of one element."""

    _supported_number_types = (int, float, complex, np.number)

    def _process_inputs(self, actual, expected, *, id):
        self._check_one(actual, expected, (*self._supported_number_types, *_ARRAYS))
        return tuple(self._to_bool(value, id=id) for value in (actual, expected))

    def _to_bool(self, bool_like, *, id):
        if isinstance(bool_like, _ARRAYS):
            return bool(_only(bool_like, self, "boolean", id))
        return bool(bool_like)


class RelaxedNumberPair(_Relaxed, NumberPair):
    """A number, and a number of any type or an array of one element; with looser tolerances."""

    _TYPE_TO_DTYPE = {int: dtypes.int64, float: dtypes.float32, complex: dtypes.complex64}

    def __init__(self, actual, expected, *, rtol_override=0.0, atol_override=0.0, check_dtype=None, **other_parameters):
        super().__init__(actual, expected, check_dtype=False, **other_parameters)
        self.rtol, self.atol = max(self.rtol, rtol_override), max(self.atol, atol_override)

    def _process_inputs(self, actual, expected, *, id):
        self._check_one(actual, expected, _ARRAYS)
        return tuple(self._to_number(value, id=id) for value in (actual, expected))

    def _to_number(self, number_like, *, id):
        if isinstance(number_like, _ARRAYS):
            number = _only(number_like, self, "number", id)
            return int(number) if isinstance(number, bool) else number
        if isinstance(number_like, enum.Enum):
            return int(number_like)  # type: ignore[call-overload]
        number = super()._to_number(number_like, id=id)
        if type(number) not in self._TYPE_TO_DTYPE:
            self._inputs_not_supported()
        return number


class TensorOrArrayPair(TensorLikePair):
    """Tensors and arrays, in any combination."""

    _CLASSES: tuple[type, ...] = _ARRAYS

    def __init__(self, actual, expected, *, rtol_override=0.0, atol_override=0.0, **other_parameters):
        super().__init__(actual, expected, **other_parameters)
        self.rtol, self.atol = max(self.rtol, rtol_override), max(self.atol, atol_override)

    def _process_inputs(self, actual, expected, *, id, allow_subclasses):
        self._check_inputs_isinstance(actual, expected, cls=self._CLASSES)
        actual, expected = (self._to_tensor(value) for value in (actual, expected))
        for tensor in (actual, expected):
            self._check_supported(tensor, id=id)
        return actual, expected


class TypedStoragePair(TensorOrArrayPair):
    """Storages of elements."""

    _CLASSES = (torch.storage.TypedStorage,)

    def _to_tensor(self, tensor_like):
        stored = {
            dtypes.quint8: dtypes.uint8, dtypes.quint4x2: dtypes.uint8, dtypes.quint2x4: dtypes.uint8,
            dtypes.qint32: dtypes.int32, dtypes.qint8: dtypes.int8,
        }.get(tensor_like.dtype, tensor_like.dtype)
        return torch.tensor(tensor_like._untyped_storage, dtype=stored, device=tensor_like.device)


class UnittestPair(Pair):
    """What unittest compares, with its text."""

    CLS: type | tuple[type, ...]
    TYPE_NAME: str | None = None

    def __init__(self, actual, expected, **other_parameters):
        self._check_inputs_isinstance(actual, expected, cls=self.CLS)
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        try:
            unittest.TestCase().assertEqual(self.actual, self.expected)
            return
        except unittest.TestCase.failureException as error:
            text = str(error)
        name = self.TYPE_NAME or (self.CLS if isinstance(self.CLS, type) else self.CLS[0]).__name__
        self._fail(AssertionError, f"{name.title()} comparison failed: {text}")


class StringPair(UnittestPair):
    """Texts and bytes."""

    CLS = (str, bytes)
    TYPE_NAME = "string"


class SetPair(UnittestPair):
    """Sets."""

    CLS = set


class TypePair(UnittestPair):
    """Classes."""

    CLS = type


class ObjectPair(UnittestPair):
    """Anything."""

    CLS = object


PAIRS = (
    NonePair, RelaxedBooleanPair, RelaxedNumberPair, TensorOrArrayPair, TypedStoragePair, StringPair, SetPair, TypePair,
    ObjectPair,
)
