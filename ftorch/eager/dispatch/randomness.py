"""Randomness under transforms: what functions that draw random numbers do there.

A function that draws is marked by `randomized`. While a transform is active the innermost level runs
it on the tensors below, for all examples at once, so that the numbers are those that PyTorch draws.
"""

from __future__ import annotations

import functools

from ..call.op import special
from ..tensor import modes

# What a marked function draws: a new tensor of the shape that is its second argument, one like its
# first tensor, into its first tensor, or by each element (row) of its tensors.
NEW, LIKE, FILL, ELEMENT, ROWS = "new", "like", "fill", "element", "rows"


def randomized(kind: str):
    """Marks a function that draws random numbers, with what it draws (see the module)."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if special[0] and modes.levels:
                return modes.levels[-1].random(kind, call, args, kwargs)
            return function(*args, **kwargs)

        return call

    return decorate
