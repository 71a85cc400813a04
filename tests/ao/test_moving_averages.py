"""``fused_moving_avg_obs_fake_quant``: the quantizers that averages of ranges choose are PyTorch's, of any numbers."""

import itertools
import math

import numpy as np
import pytest
import torch

import ftorch

RANGES = [(-2.0, 2.0), (-1.6, 1.6), (-7.0, 3.0), (-1.875, 2.375), (0.0, 5.0), (-0.9375, 0.1875), (0.0, 0.0), (1.0, 2.0),
          (-2.0, -1.0)]
NO_NUMBERS = [(-math.inf, 1.0), (0.0, math.inf), (-math.inf, math.inf), (math.nan, 1.0), (1.0, math.nan), (-1e38, 3e38)]
LIMITS = [(0, 255), (-128, 127), (0, 127), (0, 15), (-8, 7), (-64, 63)]


def chosen(t, low, high, limits, symmetric, by_row, calls):
    """What some calls give and leave, or what they raise."""
    x = t.tensor([[low, high], [high / 2, low]]) if by_row else t.tensor([low, high])
    count = 1 + by_row
    least, largest = t.tensor([math.inf] * count), t.tensor([-math.inf] * count)
    scale, point, on = t.ones(count), t.zeros(count, dtype=t.int32), t.tensor([1])
    try:
        for factor in (1, 0.75)[:calls]:
            y = t.fused_moving_avg_obs_fake_quant(x * factor, on, on, least, largest, scale, point, 0.01, *limits, 0, by_row,
                                                  symmetric)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [np.array(v.tolist()) for v in (y, least, largest, scale, point)]


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("limits", LIMITS)
def test_quantizers_of_averages(limits, by_row):
    for (low, high), symmetric, calls in itertools.product(RANGES + NO_NUMBERS, (False, True), (1, 2)):
        given = low, high, limits, symmetric, by_row, calls
        expected, found = chosen(torch, *given), chosen(ftorch, *given)
        if isinstance(expected, str) or isinstance(found, str):
            assert found == expected, given
            continue
        for e, f in zip(expected, found):
            np.testing.assert_allclose(f, e, rtol=1e-6, err_msg=str(given))


def test_ranges_that_are_none():
    for t in (torch, ftorch):
        for low, high in ((math.nan, 1.0), (1.0, math.nan)):
            with pytest.raises(RuntimeError, match="In ChooseQuantizationParams, min should be less than or equal to max"):
                t._choose_qparams_per_tensor(t.tensor([low, high]))
