"""Histograms of observers: joining two of different ranges, and the search for the best range of one."""

from __future__ import annotations

import numpy as np

import ftorch as torch


def combined_histogram(old, old_min, old_max, update, new_min, new_max, bins, upsample):
    """The sum of a histogram of an old range and one of the range that holds both.

    Each old bin is cut into ``upsample`` parts, which go where their middles are.
    """
    if float(old_min) == float(old_max):
        alone = torch.histc(old_min, bins=bins, min=float(new_min), max=float(new_max))
        return alone * torch.sum(old) + update
    parts = old.repeat_interleave(upsample) / upsample
    width = (old_max - old_min) / (bins * upsample)
    middles = torch.linspace(float(old_min), float(old_max), bins * upsample + 1)[:-1] + 0.5 * width
    bounds = torch.linspace(float(new_min), float(new_max), bins + 1)
    places = torch.clamp(torch.bucketize(middles, bounds, right=True) - 1, 0, bins - 1)
    moved = torch.bincount(places, weights=parts, minlength=bins)
    return moved + update


class HistogramSearch:
    """The search for the bins between which quantization loses least.

    Args:
        levels: how many numbers the quantized dtype has.
    """

    def __init__(self, histogram, low, high, bins, levels):
        self.histogram = np.asarray(histogram.detach().cpu().numpy(), np.float32)
        self.bins, self.levels = bins, levels
        self.width = (high - low) / bins

    def best(self):
        """(first, last) bin of the range."""
        counts = np.asarray(torch.cumsum(torch.from_numpy(self.histogram.copy()), dim=0).numpy())
        total = float(np.asarray(torch.sum(torch.from_numpy(self.histogram.copy())).item()))
        step, alpha, beta = 1e-5, 0.0, 1.0
        first, last, least = 0, self.bins - 1, float("inf")
        while alpha < beta:
            next_alpha, next_beta = alpha + step, beta - step
            left, right = first, last
            # What is compared are single-precision counts.
            below, above = np.float32(next_alpha * total), np.float32(next_beta * total)
            while left < last and counts[left] < below:
                left += 1
            while right > first and counts[right] > above:
                right -= 1
            next_first, next_last = first, last
            if left - first > last - right:
                next_first, alpha = left, next_alpha
            else:
                next_last, beta = right, next_beta
            if (next_first, next_last) == (first, last):
                continue
            loss = self.loss(next_first, next_last)
            if loss > least:
                break
            least, first, last = loss, next_first, next_last
        return first, last

    def loss(self, first, last):
        """The squared error of numbers spread evenly over each bin, quantized between two bins."""
        f32 = np.float32
        width = self.width
        level = width * (last - first + 1) / self.levels
        if level == 0.0:
            return 0.0
        begin = (np.arange(self.bins) - first).astype(f32) * f32(width)
        end = begin + f32(width)
        low_level = np.clip(np.floor(begin / f32(level)), 0, self.levels - 1)
        low_center = (low_level + f32(0.5)) * f32(level)
        high_level = np.clip(np.floor(end / f32(level)), 0, self.levels - 1)
        high_center = high_level * f32(level) + f32(level / 2)
        density = self.histogram / f32(width)
        half = f32(level / 2)
        error = _cubes(begin - low_center, half, density)
        error = error + (high_level - low_level - 1) * _cubes(-half, half, density)
        error = error + _cubes(-half, end - high_center, density)
        return float(error.sum())


def _cubes(begin, end, density):
    return density * ((end * end * end - begin * begin * begin) / np.float32(3))
