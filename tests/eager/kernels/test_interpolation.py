"""Interpolation of bytes: images as they come, resized as PyTorch (and Pillow) do, bit for bit."""

import numpy as np
import pytest
import torch as pt

import ftorch as ft
from tests.oracle import both_with_text

IMAGE = np.random.default_rng(0).integers(0, 256, (2, 3, 40, 50), np.uint8)
SIZES = [(30, 37), (80, 100), (40, 30), (20, 50), (7, 9)]


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_bytes(mode, antialias):
    for size in SIZES:
        for align_corners in False, True:
            options = {
                "size": size,
                "mode": mode,
                "antialias": antialias,
                "align_corners": align_corners,
            }
            mine = ft.nn.functional.interpolate(ft.from_numpy(IMAGE), **options)
            theirs = pt.nn.functional.interpolate(pt.from_numpy(IMAGE), **options)
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy(), str(options))


@pytest.mark.parametrize("shape, mode", [((2, 3, 9), "linear"), ((1, 2, 3, 4, 5), "trilinear")])
def test_bytes_of_other_dimensions(shape, mode):
    both_with_text(
        lambda m: m.nn.functional.interpolate(
            m.zeros(shape, dtype=m.uint8), scale_factor=2, mode=mode
        )
    )


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1, 30), (1, 2, 2, 30), (1, 1, 2, 1, 30)])
def test_nearest(mode, dtype, shape):
    """Positions are rounded to float32; an image of twice the size repeats, whatever the scale."""
    x = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    sizes = [{"size": (*shape[2:-1], n)} for n in (3, 11, 29, 60, 101)]
    scales = [{"scale_factor": (*(1.0 for _ in shape[2:-1]), s)} for s in (2.006, 1.003)]
    for options in sizes + scales:
        mine = ft.nn.functional.interpolate(ft.from_numpy(x), mode=mode, **options)
        theirs = pt.nn.functional.interpolate(pt.from_numpy(x), mode=mode, **options)
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy(), str(options))
