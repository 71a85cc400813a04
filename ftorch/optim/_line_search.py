"""A line search for the strong Wolfe conditions.

Positions and slopes are NumPy scalars of the gradient's dtype, so that they round as PyTorch's, which are
tensors; losses are Python numbers there, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..eager.core import dtype as dtypes

_SCALARS = {dtypes.float32: np.float32, dtypes.float64: np.float64}


@dataclass
class _Point:
    """A place on the line: its position, the loss, the gradient and the slope there."""

    t: float
    loss: float
    gradient: Any
    slope: float


def cubic_minimum(a: _Point, b: _Point, bounds=None) -> float:
    """Where the cubic through two points (with their slopes) is least, within the bounds."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1**2 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    d2 = np.sqrt(square)
    if a.t > b.t:
        a, b = b, a
    position = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(position, low), high)


def cubic_between(x1, f1, g1, x2, f2, g2, bounds=None) -> float:
    """`cubic_minimum` of two positions with their losses and slopes."""
    return cubic_minimum(_Point(x1, f1, None, g1), _Point(x2, f2, None, g2), bounds)


def scalar(x):
    """A tensor's one element as a NumPy scalar, whose arithmetic rounds to its dtype."""
    return _SCALARS.get(x.dtype, float)(x.item())


def strong_wolfe(
    evaluate, t, direction, loss, gradient, slope, c1=1e-4, c2=0.9, tolerance_change=1e-9,
    max_ls=25,
):
    """Finds a step with a sufficient decrease and a flat enough slope.

    Args:
        evaluate: ``evaluate(t) -> (loss, gradient)`` on the line.
        t: the first step to try.
        loss, gradient, slope: at zero.
        c1, c2: the constants of the two conditions.
        max_ls: how many further evaluations there may be.

    Returns:
        ``(loss, gradient, t, number of evaluations)``.
    """
    longest = scalar(direction.abs().max())
    start = _Point(0, loss, gradient, slope)

    def at(t):
        new_loss, new_gradient = evaluate(t)
        return _Point(t, new_loss, new_gradient, scalar(new_gradient.dot(direction)))

    def is_too_high(point):
        return point.loss > loss + c1 * point.t * slope

    def is_flat(point):
        return abs(point.slope) <= -c2 * slope

    previous, current = start, at(t)
    evaluations, iteration, done = 1, 0, False
    bracket = None
    while iteration < max_ls:
        if is_too_high(current) or (iteration > 1 and current.loss >= previous.loss):
            bracket = [previous, current]
            break
        if is_flat(current):
            bracket, done = [current], True
            break
        if current.slope >= 0:
            bracket = [previous, current]
            break
        bounds = (current.t + 0.01 * (current.t - previous.t), current.t * 10)
        following = cubic_minimum(previous, current, bounds)
        previous, current = current, at(following)
        evaluations += 1
        iteration += 1
    if bracket is None:
        bracket = [start, current]

    stalled = False
    low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
    while not done and iteration < max_ls:
        left, right = sorted(point.t for point in bracket)
        if (right - left) * longest < tolerance_change:
            break
        t = cubic_minimum(*bracket)
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:  # too near an end: go on only once
            if stalled or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stalled = False
            else:
                stalled = True
        else:
            stalled = False
        current = at(t)
        evaluations += 1
        iteration += 1
        if is_too_high(current) or current.loss >= bracket[low].loss:
            bracket[high] = current
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
        else:
            if is_flat(current):
                done = True
            elif current.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = current
    best = bracket[low if len(bracket) > 1 else 0]
    return best.loss, best.gradient, best.t, evaluations
