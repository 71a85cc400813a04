"""Rejection sampling: each value takes as many numbers as it needs, one by one."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import numpy as np

from .arithmetic import F64, cast, locked


def _each(generator, sample: Callable, *parameters: np.ndarray) -> np.ndarray:
    """``sample(uniforms, *values)`` for each element, in C order, in float64."""
    lists = [p.astype(F64).ravel().tolist() for p in parameters]
    with generator.uniforms() as uniforms:
        values = [sample(uniforms, *each) for each in zip(*lists, strict=True)]
    return np.array(values, F64).reshape(parameters[0].shape)


@locked
def poisson(generator, rate: np.ndarray) -> np.ndarray:
    """Poisson numbers with the rates given."""
    return cast(_each(generator, _poisson, rate), rate.dtype)


def _poisson(uniforms: Iterator[float], rate: float) -> float:
    if rate == 0:
        return 0.0
    if rate >= 10:
        return _poisson_large(uniforms, rate)
    limit, count, product = math.exp(-rate), 0, 1.0  # Knuth's
    while True:
        product *= next(uniforms)
        if product <= limit:
            return count
        count += 1


def _poisson_large(uniforms, rate):
    """Hörmann's transformed rejection with squeeze (PTRS)."""
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = next(uniforms) - 0.5, next(uniforms)
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= quick:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        envelope = _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if envelope <= -rate + k * log_rate - math.lgamma(k + 1):
            return k


def _log(x):
    return math.log(x) if x > 0 else -math.inf


@locked
def binomial(generator, count: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The number of successes in ``count`` trials of probability ``p`` (of one shape and dtype)."""
    return cast(_each(generator, _binomial, count, p), count.dtype)


def _binomial(uniforms, count: float, p: float) -> float:
    if math.isnan(count) or math.isnan(p):
        return math.nan
    if count <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return count
    if p > 0.5:
        return count - _binomial(uniforms, count, 1 - p)
    return (_binomial_large if count * p >= 10 else _binomial_small)(uniforms, count, p)


def _binomial_small(uniforms, count, p):
    """Adds the waiting times between successes until the trials are over."""
    trials, successes, log_failure = 0.0, 0, math.log1p(-p)
    while True:
        trials += math.ceil(max(_log(next(uniforms)), -1e300) / log_failure)
        if trials > count:
            return successes
        successes += 1


def _binomial_large(uniforms, count, p):
    """Hörmann's transformed rejection with squeeze (BTRS)."""
    deviation = math.sqrt(count * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre = count * p + 0.5
    quick = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = math.floor((count + 1) * p)
    while True:
        u, v = next(uniforms) - 0.5, next(uniforms)
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + centre)
        if us >= 0.07 and v <= quick:
            return k
        if k < 0 or k > count:
            continue
        bound = (
            (mode + 0.5) * math.log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * math.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + _stirling(mode) + _stirling(count - mode) - _stirling(k) - _stirling(count - k)
        )
        if _log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


@functools.cache
def _stirling_table():
    """log(k!) less Stirling's approximation, for k below ten."""
    return [
        math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
        for k in range(10)
    ]


def _stirling(k):
    if k <= 9:
        return _stirling_table()[int(k)]
    square = (k + 1) ** 2
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


@locked
def standard_gamma(generator, shape_parameter: np.ndarray) -> np.ndarray:
    """Gamma numbers of scale one; never 0, but the dtype's smallest normal number."""
    dtype = shape_parameter.dtype
    values = cast(_gamma_values(generator, shape_parameter), dtype)
    return np.maximum(values, np.array(_tiny(dtype), dtype))


def _gamma_values(generator, shape_parameter):
    normals = _Normals(generator)
    # What PyTorch computes of the parameter alone has the parameter's precision.
    alpha = shape_parameter
    with np.errstate(divide="ignore"):
        inverse = alpha.dtype.type(1) / alpha
    third = np.float32(1 / 3)
    d = np.where(alpha < 1, alpha + alpha.dtype.type(1), alpha) - third
    return _each(generator, functools.partial(_gamma, normals), alpha, inverse, d)


def _tiny(dtype):
    return float(np.finfo(dtype).tiny) if dtype.kind == "f" else 2.0**-126  # bfloat16


class _Normals:
    """Standard normals out of an iterator of uniforms, two by two, as the generator caches them."""

    def __init__(self, generator):
        self._generator = generator

    def next(self, uniforms):
        cached = self._generator.cached_normal
        if cached is not None:
            self._generator.cached_normal = None
            return cached
        angle = 2.0 * math.pi * next(uniforms)
        radius = math.sqrt(-2.0 * math.log1p(-next(uniforms)))
        self._generator.cached_normal = radius * math.sin(angle)
        return radius * math.cos(angle)


_SQUEEZE = float(np.float32(0.0331))


def _gamma(normals: _Normals, uniforms, alpha: float, inverse: float, d: float) -> float:
    """Marsaglia and Tsang's, with constants that PyTorch has in single precision."""
    scale = 1.0
    if alpha < 1:
        if alpha == 0:
            return 0.0
        scale = (1 - next(uniforms)) ** inverse
    c = 1 / math.sqrt(9 * d)
    while True:
        y = 0.0
        while y <= 0:
            x = normals.next(uniforms)
            y = 1 + c * x
        v = y * y * y
        u = 1 - next(uniforms)
        square = x * x
        if u < 1 - _SQUEEZE * square * square:
            return scale * d * v
        if math.log(u) < 0.5 * square + d * (1 - v + math.log(v)):
            return scale * d * v


@locked
def dirichlet(generator, concentration: np.ndarray) -> np.ndarray:
    """Points of the simplex along the last axis: normalised gamma numbers, kept off its border."""
    dtype = concentration.dtype
    gammas = standard_gamma(generator, concentration.astype(F64))
    values = cast(gammas / gammas.sum(-1, keepdims=True), dtype)
    below_one = 1 - 2.0 ** (-53 if dtype == F64 else -24)
    return np.clip(values, np.array(_tiny(dtype), dtype), np.array(below_one, dtype))
