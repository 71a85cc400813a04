"""``torch.testing.assert_close``: values that are equal up to rounding, in containers of any depth."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Mapping, Sequence

import numpy as np

from ..eager.call.op import to_numpy
from ..eager.core import api as torch
from ..eager.core import dtype as dtypes
from ..eager.core import formats
from ..eager.tensor import Tensor

_TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}
_NUMBER_DTYPES = {int: dtypes.int64, float: dtypes.float64, complex: dtypes.complex128}


class _Mismatch(Exception):
    """What is wrong, and where.

    Attributes:
        kind: the exception to raise.
        path: the indices and keys that lead to the item.
        of_structure: whether the containers differ; then the user's message is not used.
    """

    def __init__(self, kind, text, path, of_structure=False):
        super().__init__(text)
        self.kind, self.text, self.path = kind, text, path
        self.of_structure = of_structure

    def to_error(self, msg):
        if self.of_structure:
            msg = None
        if isinstance(msg, str):
            return self.kind(msg)
        text = self.text
        if self.path:
            text += f"\n\nThe failure occurred for item {''.join(f'[{p!r}]' for p in self.path)}"
        return self.kind(msg(text) if callable(msg) else text)


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
    __tracebackhide__ = True  # of pytest
    comparison = _Comparison(
        allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride
    )
    try:
        comparison.compare(actual, expected, ())
    except _Mismatch as mismatch:
        error = mismatch.to_error(msg)
    else:
        return
    raise error


class _Comparison:
    """The options of one comparison, and its steps."""

    def __init__(self, allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype,
                 check_layout, check_stride):
        self.allow_subclasses = allow_subclasses
        self.rtol, self.atol, self.equal_nan = rtol, atol, equal_nan
        self.check_device, self.check_dtype = check_device, check_dtype
        self.check_layout, self.check_stride = check_layout, check_stride

    def compare(self, actual, expected, path):
        """Compares two values of any kind.

        Raises:
            _Mismatch: at the first difference.
        """
        if _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                raise _Mismatch(
                    AssertionError,
                    "The length of the sequences mismatch: "
                    f"{len(actual)} != {len(expected)}", path, of_structure=True,
                )
            for i, (a, e) in enumerate(zip(actual, expected)):
                self.compare(a, e, (*path, i))
        elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
            self._compare_mappings(actual, expected, path)
        else:
            self._compare_leaves(actual, expected, path)

    def _compare_mappings(self, actual, expected, path):
        missing, additional = expected.keys() - actual.keys(), actual.keys() - expected.keys()
        if missing or additional:
            raise _Mismatch(
                AssertionError,
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(missing)}\n"
                f"Additional keys in the actual mapping: {sorted(additional)}", path,
                of_structure=True,
            )
        try:
            keys = sorted(actual)
        except TypeError:
            keys = list(actual)
        for key in keys:
            self.compare(actual[key], expected[key], (*path, key))

    def _compare_leaves(self, actual, expected, path):
        if actual is None or expected is None:
            if actual is not expected:
                raise _Mismatch(
                    AssertionError, f"None mismatch: {actual} is not {expected}", path
                )
        elif _are(actual, expected, (bool, np.bool_)):
            if bool(actual) is not bool(expected):
                raise _Mismatch(
                    AssertionError, f"Booleans mismatch: {bool(actual)} is not {bool(expected)}", path
                )
        elif _are(actual, expected, (int, float, complex, np.number)):
            self._compare_numbers(_number(actual), _number(expected), path)
        elif self._is_related(actual, expected):
            try:
                a, e = torch.as_tensor(actual), torch.as_tensor(expected)
            except (TypeError, ValueError, RuntimeError):
                raise self._unsupported(actual, expected, path) from None
            self._compare_tensors(a, e, path)
        else:
            raise self._unsupported(actual, expected, path)

    @staticmethod
    def _unsupported(actual, expected, path):
        return _Mismatch(
            TypeError,
            "No comparison pair was able to handle inputs of type "
            f"{type(actual)} and {type(expected)}.", path, of_structure=True,
        )

    def _is_related(self, actual, expected):
        if not self.allow_subclasses:
            return type(actual) is type(expected)
        return isinstance(actual, type(expected)) or isinstance(expected, type(actual))

    def _tolerances(self, inputs, path):
        if (self.rtol is None) != (self.atol is None):
            absent = "rtol" if self.rtol is None else "atol"
            raise _Mismatch(
                ValueError,
                "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
                f"{absent}.", path,
            )
        return default_tolerances(*inputs) if self.rtol is None else (self.rtol, self.atol)

    def _compare_numbers(self, actual, expected, path):
        rtol, atol = self._tolerances([_NUMBER_DTYPES[type(v)] for v in (actual, expected)], path)
        if self.check_dtype and type(actual) is not type(expected):
            raise _Mismatch(
                AssertionError,
                f"The (d)types do not match: {type(actual)} != {type(expected)}.", path,
            )
        if actual == expected or (self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
            return
        difference = abs(actual - expected)
        if cmath.isfinite(difference) and difference <= atol + rtol * abs(expected):
            return
        raise _Mismatch(AssertionError, _scalar_text(actual, expected, rtol, atol), path)

    def _compare_tensors(self, actual, expected, path):
        rtol, atol = self._tolerances((actual, expected), path)
        self._compare_attributes(actual, expected, path)
        if actual.device.type == "meta" or expected.device.type == "meta":
            raise _Mismatch(
                NotImplementedError, "Comparing meta tensors is currently not supported", path
            )
        if actual.dtype is not expected.dtype:
            common = dtypes.promote_types(actual.dtype, expected.dtype)
            actual, expected = actual.to(common), expected.to(common)
        if actual.layout is not expected.layout:
            actual, expected = actual.to_dense(), expected.to_dense()
        if actual.layout in _PARTS:
            self._compare_sparse(actual, expected, rtol, atol, path)
        else:
            self._compare_values(actual, expected, rtol, atol, path)

    def _compare_values(self, actual, expected, rtol, atol, path, what="Tensor-likes"):
        a, e = to_numpy(actual), to_numpy(expected)
        matches = _matches(a, e, rtol, atol, self.equal_nan)
        if matches.all():
            return
        if a.ndim == 0:
            text = _scalar_text(a.item(), e.item(), rtol, atol)
        else:
            text = _tensor_text(a, e, matches, rtol, atol, what)
        raise _Mismatch(AssertionError, text, path)

    def _compare_sparse(self, actual, expected, rtol, atol, path):
        kind, names = _PARTS[actual.layout]
        if actual.layout is formats.sparse_coo:
            if not (actual.is_coalesced() and expected.is_coalesced()):
                actual, expected = actual.coalesce(), expected.coalesce()
        counts = actual._nnz(), expected._nnz()
        if counts[0] != counts[1]:
            text = (
                f"The number of specified values in sparse {kind} tensors does not match: "
                f"{counts[0]} != {counts[1]}"
            )
            raise _Mismatch(AssertionError, text, path)
        for name in names:
            a, e = (getattr(t, name)().detach() for t in (actual, expected))
            tolerances = (rtol, atol) if name == "values" else (0, 0)
            self._compare_values(a, e, *tolerances, path, f"Sparse {kind} {name}")

    def _compare_attributes(self, actual, expected, path):
        checks = [("shape", True, lambda t: t.shape),
                  ("layout", self.check_layout, lambda t: t.layout),
                  ("stride()", self.check_stride and actual.layout is formats.strided, lambda t: t.stride()),
                  ("device", self.check_device, lambda t: t.device),
                  ("dtype", self.check_dtype, lambda t: t.dtype)]
        for name, is_wanted, get in checks:
            if is_wanted and get(actual) != get(expected):
                raise _Mismatch(
                    AssertionError,
                    f"The values for attribute '{name}' do not match: {get(actual)} != "
                    f"{get(expected)}.", path,
                )


_ROWS, _COLUMNS = (
    ("crow_indices", "col_indices", "values"), ("ccol_indices", "row_indices", "values")
)
_PARTS = {  # layout -> (its name, the methods that give the parts of a tensor)
    formats.sparse_coo: ("COO", ("indices", "values")), formats.sparse_csr: ("CSR", _ROWS),
    formats.sparse_bsr: ("BSR", _ROWS), formats.sparse_csc: ("CSC", _COLUMNS),
    formats.sparse_bsc: ("BSC", _COLUMNS),
}


def _is_sequence(value):
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _are(actual, expected, kinds):
    return isinstance(actual, kinds) and isinstance(expected, kinds)


def _number(value):
    value = value.item() if isinstance(value, np.number) else value
    return int(value) if isinstance(value, bool) else value


def _wide(array):
    """An array in which differences are exact enough and do not overflow."""
    if array.dtype.kind in "bui":
        return array.astype(np.int64)
    return array if array.dtype.kind in "fc" else array.astype(np.float32)


def _matches(a, e, rtol, atol, equal_nan):
    with np.errstate(all="ignore"):
        equal = a == e
        if a.dtype.kind in "bui" and not (rtol or atol):
            return np.asarray(equal)
        x, y = _wide(a), _wide(e)
        allowed = atol + np.abs(rtol * y) if y.dtype.kind in "fc" else atol + rtol * np.abs(y)
        close = equal | (np.isfinite(y) & (np.abs(x - y) <= allowed))
        if equal_nan:
            close = close | (np.isnan(x) & np.isnan(y))
    return np.asarray(close)


def _differences(text_of, absolute, relative, rtol, atol):
    lines = []
    for kind, (difference, index), allowed in (
        ("absolute", absolute, atol), ("relative", relative, rtol)
    ):
        line = text_of(kind, difference, index)
        lines.append(line if rtol == 0 and atol == 0 else f"{line} (up to {allowed} allowed)")
    return "\n".join(lines)


def _header(what, rtol, atol):
    return f"{what} are not {'equal' if rtol == 0 and atol == 0 else 'close'}!\n\n"


def _scalar_text(actual, expected, rtol, atol):
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else absolute / abs(expected)
    return (
        f"{_header('Scalars', rtol, atol)}Expected {expected} but got {actual}.\n"
        + _differences(lambda kind, d, _: f"{kind.title()} difference: {d}", (absolute, None),
                       (relative, None), rtol, atol)
    )


def _tensor_text(a, e, matches, rtol, atol, what):
    wrong, total = int((~matches).sum()), matches.size
    x, y = (_wide(v) if v.dtype.kind in "bui" else v for v in (a, e))
    with np.errstate(all="ignore"):
        absolute = np.where(matches, 0, np.abs(x - y))
        relative = np.where(matches, 0, absolute / np.abs(y))

    def greatest(values):
        if values.dtype.kind not in "fiu":
            values = values.astype(np.float32)
        place = int(np.argmax(values))
        index = tuple(int(i) for i in np.unravel_index(place, values.shape))
        return values.reshape(-1)[place].item(), index

    if x.dtype.kind == "i":  # PyTorch divides integers in the default dtype
        with np.errstate(all="ignore"):
            quotient = absolute.astype(np.float32) / np.abs(y).astype(np.float32)
        relative = np.where(matches, np.float32(0), quotient)
    return (
        f"{_header(what, rtol, atol)}Mismatched elements: {wrong} / {total} "
        f"({wrong / total:.1%})\n"
        + _differences(lambda kind, d, i: f"Greatest {kind} difference: {d} at index {i}",
                       greatest(absolute), greatest(relative), rtol, atol)
    )


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
