"""Samples of pooling."""

import numpy as np

from tests.samples import S, T, register


def distinct(rng, shape):
    """Values without ties, so that a maximum is one element."""
    return rng.permutation(int(np.prod(shape))).reshape(shape) / 7.0 - 3


def ties(rng, shape):
    return rng.integers(0, 3, shape)


_EXTENT = (7, 6, 5)

for nd in (1, 2, 3):
    space = _EXTENT[:nd]
    calls = [
        S(T(2, 3, *space, make=distinct), 2),
        S(T(3, *space, make=distinct), 3, 2, 1),
        S(T(2, 3, *space, make=ties), 3, 1, 1),
        S(T(2, 3, *space, make=ties), (2,) * nd),
        S(T(2, 3, *space, make=distinct), 3, 2, 1, 1, True),
        S(T(2, 3, *space, make=distinct), 2, 3, 1, 2),
        S(T(2, 3, *space, make=ties), 2, 3, 1),
        S(T(0, 3, *space), 2),
        S(T(1, 2, *space, dtype="float64", make=distinct), 2, stride=1),
    ]
    register(f"max_pool{nd}d", *calls)
    register(f"max_pool{nd}d_with_indices", *calls)
    register(
        f"avg_pool{nd}d",
        S(T(2, 3, *space), 2),
        S(T(3, *space), 3, 2, 1),
        S(T(2, 3, *space), 3, 2, 1, True),
        S(T(2, 3, *space), 3, 2, 1, True, False),
        S(T(2, 3, *space), space),
        S(T(2, 3, *space, dtype="float64" if nd == 3 else "bfloat16"), 2),
    )
    if nd > 1:
        register(f"avg_pool{nd}d", S(T(2, 3, *space), 3, 2, 1, divisor_override=5))

register("max_pool1d", S(T(2, 3, 200, make=distinct), 70, 20, 30))
register("max_pool1d_with_indices", S(T(2, 3, 200, make=distinct), 70, 20, 30, 1, True))
register("avg_pool1d", S(T(2, 3, 200), 70, 20, 30))
register("max_pool2d", S(T(2, 3, 6, 6, dtype="int64", low=-9, high=9), 2))
