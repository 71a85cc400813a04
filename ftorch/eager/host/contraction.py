"""The rule of products of arrays."""

from __future__ import annotations

import math

import numpy as np

from .rules import is_narrow, rule

_matmul = np.matmul
_FEW = 1 << 12  # multiplications that are soon made one by one


def _product_of_integers(a, b):
    """A product in double precision, where that is exact: libraries multiply no integers."""
    terms = a.shape[-1]
    if a.size * b.shape[-1] < _FEW or not b.size:
        return _matmul(a, b)
    bounds = [max(-int(x.min()), int(x.max())) for x in (a, b)]
    if bounds[0] * bounds[1] * terms >= 1 << 53:
        return _matmul(a, b)
    return _matmul(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


@rule("dot_general")
def _(params, inputs, outputs):
    """A product of matrices, stacked along the batch dimensions; transposes are views."""
    (left_sum, right_sum), (left_batch, right_batch) = params["dimension_numbers"]
    left, right = inputs
    dtype = outputs[0].dtype
    inner = np.dtype(np.float32) if is_narrow(left.dtype) or is_narrow(right.dtype) else dtype
    if inner == np.float32 and not is_narrow(dtype):
        inner = dtype
    left_free = [d for d in range(left.ndim) if d not in (*left_sum, *left_batch)]
    right_free = [d for d in range(right.ndim) if d not in (*right_sum, *right_batch)]
    left_order = (*left_batch, *left_free, *left_sum)
    right_order = (*right_batch, *right_sum, *right_free)
    turn_left, turn_right = left_order != tuple(range(left.ndim)), right_order != tuple(range(right.ndim))
    cast_left, cast_right = left.dtype != inner, right.dtype != inner
    batch, frees, sums = len(left_batch), (len(left_free), len(right_free)), len(left_sum)
    is_plain = frees == (1, 1) and sums == 1

    def prepared(a, b):
        if cast_left:
            a = a.astype(inner)
        if cast_right:
            b = b.astype(inner)
        return a.transpose(left_order) if turn_left else a, b.transpose(right_order) if turn_right else b

    multiply = _product_of_integers if inner.kind in "iu" else _matmul
    end_left, end_right = batch + frees[0], batch + sums

    def matrices(a, b):
        if turn_left:
            a = a.transpose(left_order)
        if turn_right:
            b = b.transpose(right_order)
        if cast_left:
            a = a.astype(inner)
        if cast_right:
            b = b.astype(inner)
        return multiply(a, b)

    def general(a, b):
        a, b = prepared(a, b)
        rows, columns = a.shape[batch:end_left], b.shape[end_right:]
        stack, terms = a.shape[:batch], math.prod(a.shape[end_left:])
        a = a.reshape((*stack, math.prod(rows), terms))
        b = b.reshape((*stack, terms, math.prod(columns)))
        found = a * b if terms == 1 else multiply(a, b)
        return found.reshape((*stack, *rows, *columns))

    run = matrices if is_plain else general
    if inner != dtype:
        return lambda a, b: run(a, b).astype(dtype)
    return run


@rule("ftorch_multiply_weights8")
def _(params, inputs, outputs):
    return lambda x, weights: (
        _matmul(x.astype(np.float32, copy=False), weights.astype(np.float32).swapaxes(1, 2)),
    )


@rule("ftorch_multiply_weights4")
def _(params, inputs, outputs):
    group = params["group"]

    def multiply(x, packed, settings):
        settings = settings.astype(np.float32).swapaxes(1, 2)
        numbers = np.stack([_halves(own) for own in packed]).astype(np.float32) - 8
        numbers = numbers.reshape(*numbers.shape[:2], -1, group)
        weights = numbers * settings[..., :1] + settings[..., 1:]
        return (_matmul(x, weights.reshape(*weights.shape[:2], -1).swapaxes(1, 2)),)

    return multiply


def _halves(packed):
    """Two numbers of a byte as (rows, columns): of rows j and j + 32 in blocks of 64, of neighbours in the last, smaller
    block."""
    rows, columns = packed.shape[0], 2 * packed.shape[1]
    found = np.empty((rows, columns), np.uint8)
    for start in range(0, rows, 64):
        block = found[start : start + 64]
        count = len(block) // 2
        both = packed.reshape(-1)[start * columns // 2 :][: count * columns].reshape(columns, count).T
        low, high = (block[:count], block[count:]) if count == 32 else (block[::2], block[1::2])
        low[...], high[...] = both & 15, both >> 4
    return found
