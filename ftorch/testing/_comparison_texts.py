"""What comparisons of numbers find, and the texts that say it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..eager.call.op import to_numpy
from ..eager.tensor import Tensor


def is_bitwise(tensor):
    return tensor.dtype.is_floating_point and tensor.dtype.itemsize == 1


def wide(array):
    """An array in which differences are exact enough and do not overflow."""
    if array.dtype.kind in "bui":
        return array.astype(np.int64)
    return array if array.dtype.kind in "fc" else array.astype(np.float32)


def matches_of(a, e, rtol, atol, equal_nan):
    with np.errstate(all="ignore"):
        equal = a == e
        if a.dtype.kind in "bui" and not (rtol or atol):
            return np.asarray(equal)
        x, y = wide(a), wide(e)
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


def header_of(what, identifier, rtol, atol):
    if identifier is not None:
        what = identifier(what) if callable(identifier) else identifier
    return f"{what} are not {'equal' if rtol == 0 and atol == 0 else 'close'}!\n\n"


def make_scalar_mismatch_msg(actual, expected, *, rtol: float, atol: float,
                             identifier: str | Callable[[str], str] | None = None) -> str:
    """The text for two numbers that differ.

    Args:
        actual, expected: the numbers.
        rtol, atol: the tolerances.
        identifier: what they are called, or a function that makes that of the usual name.
    """
    absolute = abs(actual - expected)
    relative = float("inf") if expected == 0 else absolute / abs(expected)
    return (
        f"{header_of('Scalars', identifier, rtol, atol)}Expected {expected} but got {actual}.\n"
        + _differences(lambda kind, d, _: f"{kind.title()} difference: {d}", (absolute, None),
                       (relative, None), rtol, atol)
    )


def make_tensor_mismatch_msg(actual: Tensor, expected: Tensor, matches: Tensor, *, rtol: float, atol: float,
                             identifier: str | Callable[[str], str] | None = None) -> str:
    """The text for two tensors that differ.

    Args:
        actual, expected: the tensors, of one shape and dtype.
        matches: which elements are close, a boolean of their shape.
        rtol, atol: the tolerances.
        identifier: what they are called, or a function that makes that of the usual name.
    """
    arrays = (to_numpy(t) for t in (actual, expected, matches))
    return tensor_text(*arrays, rtol, atol, identifier, is_bitwise(actual))


def tensor_text(a, e, matches, rtol, atol, identifier, is_bitwise=False):
    wrong, total = int((~matches).sum()), matches.size
    counts = f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})\n"
    if is_bitwise:  # of eight bits: differences say nothing
        first = tuple(int(i) for i in np.argwhere(~matches)[0])
        header = header_of("Tensor-likes", identifier, 0, 0).replace("equal", "'equal'")
        return f"{header}{counts}The first mismatched element is at index {first}."
    x, y = (wide(v) if v.dtype.kind in "bui" else v for v in (a, e))
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
        header_of("Tensor-likes", identifier, rtol, atol) + counts
        + _differences(lambda kind, d, i: f"Greatest {kind} difference: {d} at index {i}",
                       greatest(absolute), greatest(relative), rtol, atol)
    )
