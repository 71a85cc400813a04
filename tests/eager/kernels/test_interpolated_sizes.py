"""What ``interpolate`` takes for the sizes of dimensions: Python's integers, NumPy's, tensors of integers (torchattacks)."""

import numpy as np
import pytest
import torch as reference

import ftorch
from ftorch.eager.kernels.nn import interpolation

SIZES = {
    "tensors": lambda t: [t.tensor([2]), t.tensor(3)], "NumPy": lambda t: (np.int64(2), np.int32(3)),
    "mixed": lambda t: [t.tensor(2), 3], "fractions": lambda t: (t.tensor(2.0), 3),
}


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area", "nearest-exact"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_sizes(size, mode):
    def shape(t):
        try:
            return list(t.nn.functional.interpolate(t.ones(1, 1, 4, 4), size=size(t), mode=mode).shape)
        except TypeError as error:
            return str(error).replace("ftorch", "torch")

    assert shape(ftorch) == shape(reference)


def test_large_tables_are_not_kept():
    """Their parts are made anew: a table of a million rows has 64 MB."""
    interpolation._kept_table.cache_clear()
    kept = interpolation._kept_table.cache_info
    for size in (300, 310, interpolation._MOST_ROWS + 1):
        before = kept().currsize
        index, _ = interpolation._made(7, size, None, "bicubic", False, np.float32, False)
        assert len(index) == size and (kept().currsize > before) == (size <= interpolation._MOST_ROWS)
