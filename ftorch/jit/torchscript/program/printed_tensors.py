"""Tensors as programs print them: as C++ does, columns of numbers and a line with type and sizes."""

from __future__ import annotations

import math

__all__ = ["printed_tensor"]

_LINE = 80  # columns of a line


def printed_tensor(x) -> str:
    """The text of a tensor."""
    dtype = str(x.dtype).partition(".")[2]
    shown = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}.get(x.device.type, x.device.type.upper())
    end = f"[ {shown}{_TYPES.get(dtype, dtype.capitalize())}Type{{{','.join(map(str, x.shape))}}} ]"
    values = x.detach().cpu()
    if values.is_complex():
        return str(x)
    if x.dim() == 0:
        return f"{_plain(float(values.item()))}\n{end}"
    if x.numel() == 0:
        return end
    rows = values.tolist()
    if x.dim() == 1:
        return "\n".join([*_column(rows), end])
    if x.dim() == 2:
        return "\n".join([*_matrix(rows), end])
    parts = []
    for index, matrix in _matrices(rows, x.dim() - 2, ()):
        parts.append("\n".join([f"({','.join(map(str, index))},.,.) = ", *_matrix(matrix, True)]))
    return "\n\n".join(parts) + f"\n{end}"


_TYPES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16",
          "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte",
          "bool": "Bool"}


def _plain(value: float) -> str:
    return f"{value:.6g}"


def _format(values):
    """(scale, function that writes a number, its width) for all numbers of a matrix."""
    finite = [abs(v) for v in values if math.isfinite(v)]
    whole = all(v == math.ceil(v) for v in values if math.isfinite(v))
    low, high = (_exponent(f(finite)) if finite else 1 for f in (min, max))
    if whole:
        if high > 9:
            return 1.0, lambda v: f"{v:.4e}", 11
        return 1.0, _plain, high + 1
    if high - low > 4:
        return 1.0, lambda v: f"{v:.4e}", 12 if max(abs(high), abs(low)) > 99 else 11
    if high > 5 or high < 0:
        return 10.0 ** (high - 1), lambda v: f"{v:.4f}", 7
    return 1.0, lambda v: f"{v:.4f}", 7 if high == 0 else high + 6


def _exponent(value) -> int:
    return math.floor(math.log10(value)) + 1 if value else 1


def _column(row):
    values = [float(v) for v in row]
    scale, write, width = _format(values)
    head = [f"{_plain(scale)} *"] if scale != 1 else []
    return [*head, *(write(v / scale).rjust(width) for v in values)]


def _matrix(rows, deep=False):
    """The lines of a matrix; one that stands ``deep`` in others is indented."""
    rows = [[float(v) for v in row] for row in rows]
    scale, write, width = _format([v for row in rows for v in row])
    fit = max(1, _LINE // (width + 1))
    count = len(rows[0])
    lines = []
    head, indent = "", " " * deep
    for first in range(0, count, fit):
        last = min(first + fit, count)
        if fit < count:
            if first:
                lines.append("")
            head = f"Columns {first + 1} to {last}"
        if scale != 1:
            lines.append(f"{_plain(scale)} *")
        for i, row in enumerate(rows):
            lines.append((indent if i else head) + " ".join(write(v / scale).rjust(width) for v in row[first:last]))
    return lines


def _matrices(value, depth, index):
    if not depth:
        yield index, value
        return
    for i, part in enumerate(value):
        yield from _matrices(part, depth - 1, (*index, i + 1))
