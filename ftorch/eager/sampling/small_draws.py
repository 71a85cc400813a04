"""Scalar samplers in C: each function gives the array, or None where it is for others to draw."""

from __future__ import annotations

import math

import numpy as np

from .. import native
from ..native.codes import Draw
from .arithmetic import F32, F64

MOST = 1024  # numbers; for more of them NumPy's vectors and XLA's programs are as quick
_WITHOUT_GROUPS = 16  # numbers below which PyTorch draws normal ones two at a time

_UNIFORM32, _UNIFORM64 = int(Draw.UNIFORM32), int(Draw.UNIFORM64)
_INTEGER, _PERMUTATION, _COIN = int(Draw.INTEGER), int(Draw.PERMUTATION), int(Draw.COIN)
_module = native.module


def _is_few(count):
    return _module is not None and 0 < count <= MOST


def uniform(generator, shape, low: float, high: float, dtype) -> np.ndarray | None:
    if not _is_few(math.prod(shape)) or (dtype is not F32 and dtype is not F64):
        return None
    generator._ftorch_fresh = False
    return _module.draw(generator._ftorch_capsule, _UNIFORM32 if dtype is F32 else _UNIFORM64, shape, low, high)


def normal(generator, shape, mean: float, std: float, dtype, is_dense: bool, blocks_are_exact) -> np.ndarray | None:
    """Args:
    blocks_are_exact: asked whether groups of 16 come out of C bit for bit.
    """
    count = math.prod(shape)
    if not _is_few(count) or (dtype is not F32 and dtype is not F64):
        return None
    if count < _WITHOUT_GROUPS or not is_dense:
        generator._ftorch_fresh = False
        drawn, generator.cached_normal = _module.draw_normals(
            generator._ftorch_capsule, shape, dtype is F64, mean, std, generator.cached_normal
        )
        return drawn
    if dtype is F64 or not blocks_are_exact():
        return None
    generator._ftorch_fresh = False
    return _module.draw_normal_blocks(generator._ftorch_capsule, shape, mean, std)


def integers(generator, shape, low: int, span: int) -> np.ndarray | None:
    """int64 numbers of [low, low + span), for a span below 2^28."""
    if not _is_few(math.prod(shape)):
        return None
    generator._ftorch_fresh = False
    return _module.draw(generator._ftorch_capsule, _INTEGER, shape, low, span)


def permutation(generator, count: int) -> np.ndarray | None:
    """The int64 numbers below ``count``, of at least two, in random order."""
    if not _is_few(count):
        return None
    generator._ftorch_fresh = False
    return _module.draw(generator._ftorch_capsule, _PERMUTATION, (count,), 0, 0)


def coins(generator, shape, p: float) -> np.ndarray | None:
    """float32 ones with probability ``p``, else zeros."""
    if not _is_few(math.prod(shape)):
        return None
    generator._ftorch_fresh = False
    return _module.draw(generator._ftorch_capsule, _COIN, shape, p, 0)
