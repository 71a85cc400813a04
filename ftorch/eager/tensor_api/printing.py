"""Formatting of tensors: `tensor_repr` and the options of ``torch.set_printoptions``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from ..core import device as _device
from ..core import dtype as _dtype
from ..native.contexts import contextmanager, putting_back


@dataclasses.dataclass
class PrinterOptions:
    """The options in force: see `set_printoptions`."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


PRINT_OPTS = PrinterOptions()

_PROFILES = {
    "default": PrinterOptions(),
    "short": PrinterOptions(precision=2, edgeitems=2),
    "full": PrinterOptions(threshold=math.inf),
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None,
                     sci_mode=None):
    """Sets how tensors are printed. What is None stays, but for ``sci_mode``.

    Args:
        precision: digits after the point.
        threshold: the number of elements above which tensors are summarized.
        edgeitems: how many elements a summary shows at the beginning and end of each dimension.
        linewidth: characters per line.
        profile: "default", "short" or "full": sets all of these, before the others are looked at.
        sci_mode: whether to use scientific notation; None decides by the values.

    >>> import ftorch as torch
    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1.12345])
    tensor([1.12])
    >>> torch.set_printoptions(profile="default")
    """
    settings = dict(vars(_PROFILES[profile])) if profile in _PROFILES else {}
    given = {
        "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    settings.update({name: value for name, value in given.items() if value is not None})
    settings["sci_mode"] = sci_mode
    vars(PRINT_OPTS).update(settings)


def get_printoptions() -> dict:
    """The options in force, as keyword arguments of `set_printoptions`."""
    return dict(vars(PRINT_OPTS))


@contextmanager
def printoptions(**options):
    """`set_printoptions` for the time of a ``with`` block."""
    with putting_back(vars(PRINT_OPTS).update, get_printoptions()):
        set_printoptions(**options)
        yield


# --- numbers ---------------------------------------------------------------------------


def _number_format(values: np.ndarray) -> tuple[Callable, int]:
    """The function that prints each of these real numbers, and the width it pads them to."""
    if values.dtype.kind in "biu":
        width = max((len(str(v)) for v in values.ravel().tolist()), default=1)
        return lambda v: f"{v}".rjust(width), width
    precision, scientific = PRINT_OPTS.precision, False
    values = values.astype(np.float64).ravel()
    # Zeros, infinities and NaN have no say in the notation, nor in the width.
    values = values[np.isfinite(values) & (values != 0)]
    integral = bool((values == np.ceil(values)).all())
    width = 1
    if values.size:
        sizes = np.abs(values)
        least, largest = sizes.min(), sizes.max()
        with np.errstate(over="ignore"):
            scientific = largest / least > 1000 or largest > 1e8 or (not integral and least < 1e-4)
        if PRINT_OPTS.sci_mode is not None:
            scientific = PRINT_OPTS.sci_mode
        notation = "e" if scientific else "f"
        digits = 0 if integral and not scientific else precision
        width = max(len(f"{v:.{digits}{notation}}") for v in values.tolist())
        width += integral and not scientific  # for the point

    def text(v):
        if scientific:
            return f"{v:.{precision}e}".rjust(width)
        if integral:
            return (f"{v:.0f}." if math.isfinite(v) else f"{v:.0f}").rjust(width)
        return f"{v:.{precision}f}".rjust(width)

    return text, width


def _element_format(values: np.ndarray) -> tuple[Callable, int]:
    """`_number_format` for complex numbers, too."""
    if values.dtype.kind != "c":
        return _number_format(values)
    real, real_width = _number_format(values.real)
    imag, imag_width = _number_format(values.imag)

    def text(v):
        part = imag(v.imag).lstrip() + "j"
        return real(v.real) + (part if part[0] in "+-" else "+" + part)

    return text, real_width + imag_width + 1


# --- arrays ----------------------------------------------------------------------------


def _edges(array: np.ndarray) -> np.ndarray:
    """The elements that a summary shows."""
    count = PRINT_OPTS.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * count:
            array = array.take([*range(count), *range(size - count, size)], axis)
    return array


def _rows(array, text, width, indent, summarize):
    """The brackets of an array, over as many lines as it takes."""
    if array.ndim == 0:
        return text(array.item())
    count = PRINT_OPTS.edgeitems
    cut = summarize and len(array) > 2 * count
    if array.ndim == 1:
        if summarize and not count:
            parts = ["..."]
        elif cut:
            first, last = array[:count].tolist(), array[-count:].tolist()
            parts = [*map(text, first), " ...", *map(text, last)]
        else:
            parts = [text(v) for v in array.tolist()]
        per_line = max(1, (PRINT_OPTS.linewidth - indent) // (width + 2))
        lines = [", ".join(parts[i : i + per_line]) for i in range(0, len(parts), per_line)]
        separator = "\n"
    else:
        shown = [*range(count), *range(len(array) - count, len(array))] if cut else range(len(array))
        lines = [_rows(array[i], text, width, indent + 1, summarize) for i in shown]
        if cut:
            lines.insert(count, "...")
        separator = "\n" * (array.ndim - 1)
    return "[" + ("," + separator + " " * (indent + 1)).join(lines) + "]"


def _values(array: np.ndarray, indent: int) -> str:
    summarize = array.size > PRINT_OPTS.threshold
    if array.dtype.kind not in "biufc":
        array = array.astype(np.float32)  # bfloat16 and the 8-bit floats
    text, width = _element_format(_edges(array) if summarize else array)
    return _rows(array, text, width, indent, summarize)


def table(array: np.ndarray) -> tuple[list, list, list[list[str]]]:
    """A matrix as (row numbers, column numbers, texts of elements), as much of it as `tensor_repr` shows; "..." is left out.

    >>> table(np.eye(2))
    ([0, 1], [0, 1], [['1.', '0.'], ['0.', '1.']])
    """
    if array.dtype.kind not in "biufc":
        array = array.astype(np.float32)
    count, summarize = PRINT_OPTS.edgeitems, array.size > PRINT_OPTS.threshold
    shown = []
    for size in array.shape:
        numbers: list = list(range(size))
        if summarize and size > 2 * count:
            numbers[count : size - count] = ["..."]
        shown.append(numbers)
    text, _ = _element_format(_edges(array) if summarize else array)
    rows, columns = shown
    cells = [
        ["..." if "..." in (i, j) else text(array[i, j].item()).strip() for j in columns] for i in rows
    ]
    return rows, columns, cells


# --- tensors ---------------------------------------------------------------------------


def tensor_repr(array: np.ndarray, *, dtype: _dtype.dtype, device: _device.device,
                requires_grad: bool = False, grad_fn_name: str | None = None,
                prefix: str = "tensor(", contents: str | None = None) -> str:
    """PyTorch's text for a tensor with these values.

    Args:
        array: the values, in the tensor's shape.
        grad_fn_name: the name of its ``grad_fn``, if it has one.
        prefix: what opens the text: a subclass is printed under its own name.
        contents: printed in place of the values.
    """
    suffixes = []
    if device.type != "cpu":
        suffixes.append(f"device='{device}'")
    shape = _shape_and_dtype(array, dtype)
    suffixes += [f"size={array.shape}", *shape[-1:]] if device.type == "meta" and array.size else shape
    if contents is None:
        contents = _values(array, len(prefix)) if array.size else "[]"
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    return with_suffixes(prefix + contents, suffixes, len(prefix))


def _shape_and_dtype(array, dtype):
    default = _dtype.get_default_dtype()
    shape = [f"size={array.shape}"]
    if not array.size:
        # Without elements nothing tells integers or the shape.
        return (shape if array.ndim != 1 else []) + ([f"dtype={dtype}"] if dtype is not default else [])
    of_complex = _dtype.complex128 if default is _dtype.float64 else _dtype.complex64
    unsaid = (default, of_complex, _dtype.int64, _dtype.bool)
    return (shape if not PRINT_OPTS.edgeitems else []) + (
        [f"dtype={dtype}"] if dtype not in unsaid else []
    )


def with_suffixes(text: str, suffixes: list[str], indent: int, force_newline: bool = False) -> str:
    """``text`` and the suffixes, on a new line where one is full, and the closing bracket.

    Args:
        force_newline: begin a new line in any case.
    """
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or length + len(suffix) + 2 > PRINT_OPTS.linewidth:
            force_newline = False
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text + ")"
