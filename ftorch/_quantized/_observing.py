"""The observing part of ``torch.fused_moving_avg_obs_fake_quant``."""

from __future__ import annotations

import math

from ..eager.core import api as torch
from ._creation import choose_parameters


def observe_moving_average(x, running_min, running_max, scale, zero_point, constant, ch_axis, per_row):
    """Moves the averages of the least and largest number towards those of ``x``."""
    if per_row:
        rows = x if ch_axis == 0 else x.transpose(0, ch_axis)
        least, largest = torch.aminmax(rows.reshape(rows.shape[0], -1), dim=1)
        if running_min.numel() == 0:
            count = least.shape[0]
            running_min.resize_(count).fill_(math.inf)
            running_max.resize_(count).fill_(-math.inf)
            scale.resize_(count)
            zero_point.resize_(count)
    else:
        least, largest = torch.aminmax(x)
    least, largest = least.reshape(running_min.shape), largest.reshape(running_max.shape)
    # What is infinite yet is replaced, be it at the start or by a number that was.
    least = torch.where(torch.isinf(running_min), least, running_min + constant * (least - running_min))
    largest = torch.where(torch.isinf(running_max), largest, running_max + constant * (largest - running_max))
    running_min.copy_(least)
    running_max.copy_(largest)


def choose_by_averages(running_min, running_max, scale, zero_point, quant_min, quant_max, symmetric):
    """The quantizers of averages."""
    pairs = [
        choose_parameters(low, high, quant_min, quant_max, preserve_sparsity=symmetric, single=True)
        for low, high in zip(running_min.reshape(-1).tolist(), running_max.reshape(-1).tolist())
    ]
    scale.copy_(torch.tensor([s for s, _ in pairs], dtype=scale.dtype))
    zero_point.copy_(torch.tensor([z for _, z in pairs], dtype=zero_point.dtype))
