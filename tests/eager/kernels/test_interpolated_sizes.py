"""What ``interpolate`` takes for the sizes of dimensions: Python's integers, NumPy's, tensors of integers (torchattacks)."""

import numpy as np
import pytest
import torch as reference

import ftorch

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
