"""``torch.testing.assert_close``: values that are equal up to rounding, in containers of any depth.

Two values are taken apart into pairs of leaves; each kind of leaf has a class of pairs, which test suites derive from.
"""

from __future__ import annotations

import abc
import cmath
import collections.abc
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..eager.call.elements import elements
from ..eager.core import api as torch
from ..eager.core import dtype as dtypes
from ..eager.core import formats
from ..eager.tensor import Tensor
from ._comparison_texts import (
    is_bitwise,
    make_scalar_mismatch_msg,
    matches_of,
    tensor_text,
)

_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}


class UnsupportedInputs(Exception):  # noqa: N818  PyTorch's name
    """A class of pairs is not for these values: the next one is tried."""


class ErrorMeta(Exception):  # noqa: N818
    """What is wrong, and where: the error to be raised in the end.

    Args:
        type: the exception to raise.
        msg: its text.
        id: the indices and keys that lead to the item.
    """

    def __init__(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> None:
        super().__init__(
            "If you are a user and see this message during normal operation please file an issue: an ErrorMeta is to "
            "be turned into an exception by its method to_error()."
        )
        self.type, self.msg, self.id = type, msg, id

    def to_error(self, msg: str | Callable[[str], str] | None = None) -> Exception:
        """The exception; ``msg`` is its text, or makes it of the generated one."""
        if isinstance(msg, str):
            return self.type(msg)
        text = self.msg
        if self.id:
            text += f"\n\nThe failure occurred for item {''.join(str([item]) for item in self.id)}"
        return self.type(msg(text) if callable(msg) else text)


def default_tolerances(*inputs, dtype_precisions=None) -> tuple[float, float]:
    """The loosest (rtol, atol) of some tensors or dtypes; 0 for integers.

    Raises:
        TypeError: for anything else.
    """
    table = _TOLERANCES if dtype_precisions is None else dtype_precisions
    found = []
    for value in inputs:
        if not isinstance(value, (Tensor, dtypes.dtype)):
            raise TypeError(
                f"Expected a torch.Tensor or a torch.dtype, but got {type(value)} instead."
            )
        found.append(table.get(value.dtype if isinstance(value, Tensor) else value, (0.0, 0.0)))
    return max(r for r, _ in found), max(a for _, a in found)


def get_tolerances(*inputs, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()) -> tuple[float, float]:
    """The tolerances if both are given, `default_tolerances` if neither is.

    Raises:
        ErrorMeta: of ValueError, for only one.
    """
    if (rtol is None) != (atol is None):
        absent = "rtol" if rtol is None else "atol"
        text = f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {absent}."
        raise ErrorMeta(ValueError, text, id=id)
    if rtol is None or atol is None:
        return default_tolerances(*inputs)
    return rtol, atol


# --- pairs ---------------------------------------------------------------------------


class Pair(abc.ABC):
    """Two leaves to be compared. A class that is not for them raises from its constructor, by `_inputs_not_supported`.

    Attributes:
        actual, expected: the leaves, as they are compared.
        id: the indices and keys that lead to them.
    """

    def __init__(self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), **unknown_parameters: Any) -> None:
        self.actual, self.expected, self.id = actual, expected, id
        self._unknown_parameters = unknown_parameters

    @staticmethod
    def _inputs_not_supported() -> NoReturn:
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs: Any, cls: type | tuple[type, ...]) -> None:
        if not all(isinstance(value, cls) for value in inputs):
            Pair._inputs_not_supported()

    def _fail(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> NoReturn:
        raise ErrorMeta(type, msg, id=id or getattr(self, "id", ()))

    @abc.abstractmethod
    def compare(self) -> None:
        """Compares the leaves.

        Raises:
            ErrorMeta: if they differ.
        """

    def extra_repr(self) -> Sequence[str | tuple[str, Any]]:
        """The options to be shown: names of attributes, or names with values."""
        return []

    def __repr__(self) -> str:
        shown: list[tuple[str, Any]] = [("id", self.id), ("actual", self.actual), ("expected", self.expected)]
        shown += [(extra, getattr(self, extra)) if isinstance(extra, str) else extra for extra in self.extra_repr()]
        return "\n".join((f"{type(self).__name__}(", *(f"    {name}={value!s}," for name, value in shown), ")"))


class ObjectPair(Pair):
    """Any values, compared by ``==``."""

    def compare(self) -> None:
        try:
            equal = self.actual == self.expected
        except Exception as error:
            text = f"{self.actual} == {self.expected} failed with:\n{error}."
            raise ErrorMeta(ValueError, text, id=self.id) from error
        if not equal:
            self._fail(AssertionError, f"{self.actual} != {self.expected}")


class NonePair(Pair):
    """Values of which one is None."""

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        if actual is not None and expected is not None:
            self._inputs_not_supported()
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        if self.actual is not self.expected:
            self._fail(AssertionError, f"None mismatch: {self.actual} is not {self.expected}")


class BooleanPair(Pair):
    """Booleans, NumPy's among them."""

    def __init__(self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), **other_parameters: Any) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return bool, np.bool_

    def _process_inputs(self, actual, expected, *, id):
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return tuple(self._to_bool(value, id=id) for value in (actual, expected))

    def _to_bool(self, bool_like, *, id):
        if not isinstance(bool_like, (bool, np.bool_)):
            raise ErrorMeta(TypeError, f"Unknown boolean type {type(bool_like)}.", id=id)
        return bool(bool_like)

    def compare(self) -> None:
        if self.actual is not self.expected:
            self._fail(AssertionError, f"Booleans mismatch: {self.actual} is not {self.expected}")


class NumberPair(Pair):
    """Python's and NumPy's numbers.

    Args:
        rtol, atol: both or neither; by default they follow from the types.
        equal_nan: whether NaNs are equal.
        check_dtype: whether the types must be the same.
    """

    _TYPE_TO_DTYPE: dict[type, dtypes.dtype] = {
        int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128,
    }
    _NUMBER_TYPES = tuple(_TYPE_TO_DTYPE)

    def __init__(self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), rtol: float | None = None,
                 atol: float | None = None, equal_nan: bool = False, check_dtype: bool = False,
                 **other_parameters: Any) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id)
        super().__init__(actual, expected, id=id, **other_parameters)
        kinds = [self._TYPE_TO_DTYPE[type(value)] for value in (actual, expected)]
        self.rtol, self.atol = get_tolerances(*kinds, rtol=rtol, atol=atol, id=id)
        self.equal_nan, self.check_dtype = equal_nan, check_dtype

    @property
    def _supported_types(self) -> tuple[type, ...]:
        return *self._NUMBER_TYPES, np.number

    def _process_inputs(self, actual, expected, *, id):
        self._check_inputs_isinstance(actual, expected, cls=self._supported_types)
        return tuple(self._to_number(value, id=id) for value in (actual, expected))

    def _to_number(self, number_like, *, id):
        if isinstance(number_like, np.number):
            return number_like.item()
        if isinstance(number_like, self._NUMBER_TYPES):
            return int(number_like) if isinstance(number_like, bool) else number_like
        raise ErrorMeta(TypeError, f"Unknown number type {type(number_like)}.", id=id)

    def compare(self) -> None:
        actual, expected = self.actual, self.expected
        if self.check_dtype and type(actual) is not type(expected):
            self._fail(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.")
        if actual == expected or (self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
            return
        difference = abs(actual - expected)
        if not cmath.isfinite(difference) or difference > self.atol + self.rtol * abs(expected):
            self._fail(AssertionError, make_scalar_mismatch_msg(actual, expected, rtol=self.rtol, atol=self.atol))

    def extra_repr(self) -> Sequence[str]:
        return "rtol", "atol", "equal_nan", "check_dtype"


class TensorLikePair(Pair):
    """Tensors, and what `torch.as_tensor` makes into one.

    Args:
        allow_subclasses: False wants the very same types.
        rtol, atol: both or neither; by default they follow from the dtypes.
        equal_nan: whether NaNs are equal.
        check_device, check_dtype, check_layout, check_stride: what else must be equal.
    """

    def __init__(self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), allow_subclasses: bool = True,
                 rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
                 check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
                 check_stride: bool = False, **other_parameters: Any) -> None:
        actual, expected = self._process_inputs(actual, expected, id=id, allow_subclasses=allow_subclasses)
        super().__init__(actual, expected, id=id, **other_parameters)
        self.rtol, self.atol = get_tolerances(actual, expected, rtol=rtol, atol=atol, id=self.id)
        self.equal_nan, self.check_device, self.check_dtype = equal_nan, check_device, check_dtype
        self.check_layout, self.check_stride = check_layout, check_stride

    def _process_inputs(self, actual, expected, *, id, allow_subclasses):
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or (not allow_subclasses and type(actual) is not type(expected)):
            self._inputs_not_supported()
        actual, expected = (self._to_tensor(value) for value in (actual, expected))
        for tensor in (actual, expected):
            self._check_supported(tensor, id=id)
        return actual, expected

    def _to_tensor(self, tensor_like):
        if isinstance(tensor_like, Tensor):
            return tensor_like
        try:
            return torch.as_tensor(tensor_like)
        except Exception:
            self._inputs_not_supported()

    def _check_supported(self, tensor, *, id):
        if tensor.layout not in (formats.strided, formats.jagged, *_PARTS):
            raise ErrorMeta(ValueError, f"Unsupported tensor layout {tensor.layout}", id=id)

    def compare(self) -> None:
        actual, expected = self.actual, self.expected
        self._compare_attributes(actual, expected)
        if actual.device.type == "meta" or expected.device.type == "meta":
            return  # there are no values
        self._compare_values(*self._equalize_attributes(actual, expected))

    def _compare_attributes(self, actual, expected):
        strided = actual.layout is expected.layout is formats.strided
        checks = [
            ("shape", True, lambda t: t.shape), ("is_quantized", True, lambda t: t.is_quantized),
            ("qscheme()", actual.is_quantized, lambda t: t.qscheme()), ("layout", self.check_layout, lambda t: t.layout),
            ("stride()", self.check_stride and strided, lambda t: t.stride()),
            ("device", self.check_device, lambda t: t.device), ("dtype", self.check_dtype, lambda t: t.dtype),
        ]
        for name, is_wanted, get in checks:
            if is_wanted and get(actual) != get(expected):
                values = f"{get(actual)} != {get(expected)}"
                self._fail(AssertionError, f"The values for attribute '{name}' do not match: {values}.")

    def _equalize_attributes(self, actual, expected):
        if actual.device != expected.device:
            actual, expected = actual.cpu(), expected.cpu()
        if actual.dtype is not expected.dtype:
            wide = (dtypes.int64 if t.dtype in _UNSIGNED else t.dtype for t in (actual, expected))
            common = dtypes.promote_types(*wide)
            actual, expected = actual.to(common), expected.to(common)
        if actual.layout is not expected.layout:
            actual, expected = (t if t.layout is formats.strided else t.to_dense() for t in (actual, expected))
        return actual, expected

    def _compare_values(self, actual, expected):
        options: dict[str, Any] = {"rtol": self.rtol, "atol": self.atol, "equal_nan": self.equal_nan}
        if actual.is_quantized:
            self._compare_quantized_values(actual, expected, **options)
        elif actual.layout is formats.sparse_coo:
            self._compare_sparse_coo_values(actual, expected, **options)
        elif actual.layout in _PARTS:
            self._compare_sparse_compressed_values(actual, expected, **options)
        elif actual.layout is formats.jagged:
            self._compare_regular_values_close(actual.values(), expected.values(), **options)
        else:
            if is_bitwise(actual) and (self.rtol or self.atol):
                raise ErrorMeta(
                    AssertionError, f"Rtol={self.rtol} and atol={self.atol} are not supported for bitwise comparison of "
                    "low dimensional floats. Please use rtol=0.0 and atol=0.0.",
                )
            self._compare_regular_values_close(actual, expected, **options)

    def _compare_quantized_values(self, actual, expected, *, rtol, atol, equal_nan):
        self._compare_regular_values_close(
            actual.dequantize(), expected.dequantize(), rtol=rtol, atol=atol, equal_nan=equal_nan,
            identifier=lambda default: f"Quantized {default.lower()}",
        )

    def _compare_sparse_coo_values(self, actual, expected, *, rtol, atol, equal_nan):
        dimensions = actual.sparse_dim(), expected.sparse_dim()
        if dimensions[0] != dimensions[1]:
            text = "The number of sparse dimensions in sparse COO tensors does not match: {} != {}"
            self._fail(AssertionError, text.format(*dimensions))
        self._compare_parts(actual, expected, rtol, atol, equal_nan)

    def _compare_sparse_compressed_values(self, actual, expected, *, rtol, atol, equal_nan):
        self._compare_parts(actual, expected, rtol, atol, equal_nan)

    def _compare_parts(self, actual, expected, rtol, atol, equal_nan):
        kind, names = _PARTS[actual.layout]
        counts = actual._nnz(), expected._nnz()
        if counts[0] != counts[1]:
            text = f"The number of specified values in sparse {kind} tensors does not match: {counts[0]} != {counts[1]}"
            self._fail(AssertionError, text)
        for name in names:
            a, e = (getattr(t, name)().detach() for t in (actual, expected))
            what = f"Sparse {kind} {name.removeprefix('_')}"
            if name.endswith("indices"):
                common = dtypes.promote_types(a.dtype, e.dtype)
                self._compare_regular_values_equal(a.to(common), e.to(common), identifier=what)
            else:
                self._compare_regular_values_close(
                    a, e, rtol=rtol, atol=atol, equal_nan=equal_nan, identifier=what
                )

    def _compare_regular_values_equal(self, actual, expected, *, equal_nan=False, identifier=None):
        self._compare_regular_values_close(
            actual, expected, rtol=0, atol=0, equal_nan=equal_nan, identifier=identifier
        )

    def _compare_regular_values_close(self, actual, expected, *, rtol, atol, equal_nan, identifier=None):
        if any(t._ftorch_storage.error is not None and not t.is_meta for t in (actual, expected)):
            # What a class wraps is compared as it says itself.
            if torch.all(torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)):
                return
        a, e = elements(actual), elements(expected)
        matches = matches_of(a, e, float(rtol), float(atol), equal_nan)  # tensors of one element are taken, too
        if matches.all():
            return
        if a.ndim == 0:
            text = make_scalar_mismatch_msg(a.item(), e.item(), rtol=rtol, atol=atol, identifier=identifier)
        else:
            text = tensor_text(a, e, matches, rtol, atol, identifier, is_bitwise(actual))
        self._fail(AssertionError, text)

    def extra_repr(self) -> Sequence[str]:
        return "rtol", "atol", "equal_nan", "check_device", "check_dtype", "check_layout", "check_stride"


_ROWS, _COLUMNS = (
    ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
)
_PARTS = {  # layout -> (its name, the methods that give the parts of a tensor)
    formats.sparse_coo: ("COO", ("_indices", "_values")), formats.sparse_csr: ("CSR", _ROWS),
    formats.sparse_bsr: ("BSR", _ROWS), formats.sparse_csc: ("CSC", _COLUMNS),
    formats.sparse_bsc: ("BSC", _COLUMNS),
}
_UNSIGNED = (dtypes.uint16, dtypes.uint32, dtypes.uint64)  # they promote with nothing


# --- taking values apart -------------------------------------------------------------


def _unwrap_dtensor_for_comparison(actual, expected):
    """Two values that are compared: of two tensors laid out alike over a mesh the parts of this process.

    Raises:
        AssertionError: if they are laid out in different ways. TypeError: if only one is spread over a mesh.
    """
    import sys

    spread = sys.modules.get(f"{__package__.rpartition('.')[0]}.distributed.tensor")
    kinds = (False, False) if spread is None else (isinstance(actual, spread.DTensor), isinstance(expected, spread.DTensor))
    if not any(kinds):
        return actual, expected
    if not all(kinds):
        raise TypeError(
            "Comparing a DTensor to a non-DTensor is ambiguous. Call .full_tensor() to compare the full logical tensor "
            "or .to_local() to compare the local shard."
        )
    for name, plural in (("placements", "placements"), ("device_mesh", "device meshes")):
        one, other = getattr(actual, name), getattr(expected, name)
        if one != other:
            raise AssertionError(f"DTensor {plural} do not match: {one} != {other}")
    return actual.to_local(), expected.to_local()


def originate_pairs(actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]],
                    sequence_types: tuple[type, ...] = (collections.abc.Sequence,),
                    mapping_types: tuple[type, ...] = (collections.abc.Mapping,),
                    id: tuple[Any, ...] = (), **options: Any) -> list[Pair]:
    """The pairs of leaves of two values; each is of the first class that is for it.

    Args:
        actual, expected: the values.
        pair_types: the classes to try.
        sequence_types, mapping_types: the containers to be taken apart. Strings are leaves.
        id: the indices and keys that lead here.
        **options: for the constructors of the pairs.

    Raises:
        ErrorMeta: the containers differ, or no class is for a pair.
    """
    if all(isinstance(value, sequence_types) and not isinstance(value, str) for value in (actual, expected)):
        if len(actual) != len(expected):
            text = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise ErrorMeta(AssertionError, text, id=id)
        keys = range(len(actual))
    elif all(isinstance(value, mapping_types) for value in (actual, expected)):
        ours, theirs = set(actual.keys()), set(expected.keys())
        if ours != theirs:
            raise ErrorMeta(
                AssertionError,
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(theirs - ours)}\n"
                f"Additional keys in the actual mapping: {sorted(ours - theirs)}", id=id,
            )
        keys = actual.keys()
        try:
            keys = sorted(keys)
        except Exception:  # they have no order
            keys = list(keys)
    else:
        return [_originate_leaf(actual, expected, pair_types, id, options)]
    return [
        pair for key in keys
        for pair in originate_pairs(
            actual[key], expected[key], pair_types=pair_types, sequence_types=sequence_types,
            mapping_types=mapping_types, id=(*id, key), **options,
        )
    ]


def _originate_leaf(actual, expected, pair_types, id, options):
    for pair_type in pair_types:
        try:
            return pair_type(actual, expected, id=id, **options)
        except UnsupportedInputs:
            continue
        except ErrorMeta:
            raise
        except Exception as error:
            raise RuntimeError(
                f"Originating a {pair_type.__name__}() at item {''.join(str([item]) for item in id)} with\n\n"
                f"{type(actual).__name__}(): {actual}\n\nand\n\n{type(expected).__name__}(): {expected}\n\n"
                "resulted in the unexpected exception above."
            ) from error
    text = f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
    raise ErrorMeta(TypeError, text, id=id)


def not_close_error_metas(actual: Any, expected: Any, *, pair_types: Sequence[type[Pair]] = (ObjectPair,),
                          sequence_types: tuple[type, ...] = (collections.abc.Sequence,),
                          mapping_types: tuple[type, ...] = (collections.abc.Mapping,),
                          **options: Any) -> list[ErrorMeta]:
    """What differs between two values: none of it is raised.

    Args:
        actual, expected, pair_types, sequence_types, mapping_types, **options: as of `originate_pairs`.

    Raises:
        AssertionError: the containers differ. TypeError: for what cannot be compared.
    """
    __tracebackhide__ = True  # of pytest
    try:
        pairs = originate_pairs(
            actual, expected, pair_types=pair_types, sequence_types=sequence_types, mapping_types=mapping_types,
            **options,
        )
    except ErrorMeta as found:
        raise found.to_error() from None
    errors = []
    for pair in pairs:
        try:
            pair.compare()
        except ErrorMeta as found:
            errors.append(found.with_traceback(None))  # which would keep the values alive
        except Exception as error:
            raise RuntimeError(f"Comparing\n\n{pair}\n\nresulted in the unexpected exception above.") from error
    return errors


def assert_close(actual, expected, *, allow_subclasses=True, rtol=None, atol=None, equal_nan=False,
                 check_device=True, check_dtype=True, check_layout=True, check_stride=False,
                 msg=None) -> None:
    """Asserts that ``|actual - expected| <= atol + rtol * |expected|``, element by element.

    Args:
        actual, expected: tensors, arrays, numbers, or sequences and mappings of them.
        allow_subclasses: False wants the very same types.
        rtol, atol: both or neither; by default they follow from the dtype.
        equal_nan: whether NaNs are equal.
        check_device, check_dtype, check_layout, check_stride: what else must be equal.
        msg: the error's text, or a function that makes it of the generated text.

    Raises:
        AssertionError: if they differ. TypeError: for what cannot be compared. ValueError: for only
            one tolerance.

    >>> import ftorch as torch
    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    Traceback (most recent call last):
    ...
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 2 (50.0%)
    Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)
    Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)
    """
    __tracebackhide__ = True
    actual, expected = _unwrap_dtensor_for_comparison(actual, expected)
    errors = not_close_error_metas(
        actual, expected, pair_types=(NonePair, BooleanPair, NumberPair, TensorLikePair),
        allow_subclasses=allow_subclasses, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device,
        check_dtype=check_dtype, check_layout=check_layout, check_stride=check_stride,
    )
    if errors:
        raise errors[0].to_error(msg)


# --- numbers and texts ---------------------------------------------------------------


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg="") -> None:
    """The older form of `assert_close`, with looser tolerances and no check of dtypes."""
    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future "
        "release. Please use `torch.testing.assert_close()` instead. You can find detailed upgrade "
        "instructions in https://github.com/pytorch/pytorch/issues/61844.", FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, Tensor):
        actual = torch.tensor(actual)
    if not isinstance(expected, Tensor):
        expected = torch.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = default_tolerances(
            actual, expected, dtype_precisions={
                dtypes.float16: (1e-3, 1e-3), dtypes.float32: (1e-4, 1e-5),
                dtypes.float64: (1e-5, 1e-8),
            },
        )
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None
    )
