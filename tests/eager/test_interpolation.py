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
            options = {"size": size, "mode": mode, "antialias": antialias, "align_corners": align_corners}
            mine = ft.nn.functional.interpolate(ft.from_numpy(IMAGE), **options)
            theirs = pt.nn.functional.interpolate(pt.from_numpy(IMAGE), **options)
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy(), str(options))


@pytest.mark.parametrize("shape, mode", [((2, 3, 9), "linear"), ((1, 2, 3, 4, 5), "trilinear")])
def test_bytes_of_other_dimensions(shape, mode):
    both_with_text(lambda m: m.nn.functional.interpolate(m.zeros(shape, dtype=m.uint8), scale_factor=2, mode=mode))
