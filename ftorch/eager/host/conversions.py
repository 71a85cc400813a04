"""The rule of conversions between dtypes, with XLA's rounding and bounds."""

from __future__ import annotations

import numpy as np

from .rules import is_extended, is_narrow, rule

_asarray, _least = np.asarray, np.minimum.reduce


@rule("convert_element_type")
def _(params, inputs, outputs):
    return converter(inputs[0].dtype, outputs[0].dtype)


def converter(source, target):
    """A function that converts arrays as XLA does: floats beyond an integer's range become its bounds."""
    if source == target:
        return lambda x: x
    if source.kind == "c" and target.kind != "c":
        inner = converter(np.dtype(f"f{source.itemsize // 2}"), target)
        if target == np.bool_:
            return lambda x: np.not_equal(x, 0)
        return lambda x: inner(x.real)
    if target.kind in "iu" and source.kind not in "biu":
        return _float_to_integer(source, target)
    if source.name == "bfloat16" and target == np.float32:
        return _widened
    if is_extended(source) and target.kind in "fc" and target != np.float32:
        return lambda x: x.astype(np.float32).astype(target)
    if is_extended(source) and target == np.bool_:
        return lambda x: np.not_equal(x, source.type(0))
    return lambda x: x.astype(target)


def _widened(x):
    """A bfloat16 array as float32: its bits, followed by zeros."""
    wide = _asarray(x).view(np.uint16).astype(np.uint32)  # of no dimension, too, an array and no number
    return np.left_shift(wide, 16, out=wide).view(np.float32)


def _float_to_integer(source, target):
    low, high = int(np.iinfo(target).min), int(np.iinfo(target).max)
    widen = is_narrow(source)
    by_processor = target in (np.int32, np.int64)
    beyond = float(high) + 1.0 if target.itemsize == 8 else float(high)

    def saturated(x):
        if not x.size:
            return x.astype(target)
        clipped = np.where(np.isnan(x), 0, x)
        inside = np.clip(clipped, low, np.nextafter(beyond, 0) if target.itemsize == 8 else high)
        if x.dtype == np.float32 and target.itemsize >= 4:  # bounds that float32 does not have
            inside = np.clip(clipped.astype(np.float64), low, np.nextafter(beyond, 0) if target.itemsize == 8
                             else high)
        found = inside.astype(target)
        return np.where(clipped >= beyond, target.type(high), found)

    def convert(x):
        if widen:
            x = x.astype(np.float32)
        if not by_processor:
            return _asarray(saturated(x))
        found = x.astype(target)  # what does not fit becomes the least number
        if x.size and _least(found, None) == low:
            return _asarray(saturated(x))
        return found

    return convert
