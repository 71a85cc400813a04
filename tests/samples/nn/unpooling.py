"""Samples of unpooling and fractional max pooling."""

import numpy as np

from tests.samples import S, T, register

from .pooling import distinct


def places(count, plane):
    """Distinct flat indices in each plane."""

    def make(rng, shape):
        rows = [rng.permutation(plane)[:count] for _ in range(shape[0] * shape[1])]
        return np.stack(rows).reshape(shape)

    return make


register(
    "max_unpool2d",
    S(T(2, 3, 2, 2), T(2, 3, 2, 2, dtype="int64", make=places(4, 20)), (4, 5)),
)
register(
    "max_unpool3d",
    S(T(2, 3, 2, 2, 1), T(2, 3, 2, 2, 1, dtype="int64", make=places(4, 40)), (4, 5, 2), (2, 2, 2),
      (0, 0, 0)),
)
for nd in (2, 3):
    space = (7, 6, 8)[:nd]
    samples = T(2, 3, nd, low=0.0, high=1.0, grad=False)
    register(
        f"fractional_max_pool{nd}d",
        S(T(2, 3, *space, make=distinct), (2,) * nd, (3, 4, 5)[:nd], samples),
        S(T(2, 3, *space, make=distinct), (2, 3, 2)[:nd], (1, 2, 3)[:nd], samples),
        S(T(3, *space, make=distinct), (2,) * nd, (3,) * nd, samples),
    )
