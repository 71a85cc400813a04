"""Samples of cross entropy and negative log likelihood."""

import numpy as np

from tests.samples import S, T, register


def classes(*shape, n=5, ignore=None):
    def make(rng, shape):
        drawn = rng.integers(0, n, shape)
        return np.where(rng.random(shape) < 0.3, ignore, drawn) if ignore is not None else drawn

    return T(*shape, dtype="int64", make=make)


def probabilities(rng, shape):
    p = rng.random(shape) + 0.1
    return p / p.sum(1 if p.ndim > 1 else 0, keepdims=True)


for name in ("nll_loss", "cross_entropy"):
    register(
        name,
        S(T(3, 5), classes(3)),
        S(T(5), classes()),
        S(T(6, 5), classes(6, ignore=-100)),
        S(T(6, 5), classes(6, ignore=2), T(5, low=0.1, grad=False), None, 2),
        S(T(2, 5, 3), classes(2, 3), T(5, low=0.1, grad=False), reduction="none"),
        S(T(2, 5, 3, 4), classes(2, 3, 4), T(5, low=0.1, grad=False), reduction="sum"),
        S(T(2, 5, 2, 3, 2), classes(2, 2, 3, 2)),
        S(T(0, 5), classes(0), reduction="sum"),
        S(T(3, 5, dtype="float64"), classes(3)),
        S(T(3, 5, dtype="bfloat16"), classes(3)),
    )
register(
    "cross_entropy",
    S(T(6, 5), classes(6), label_smoothing=0.2),
    S(T(6, 5), classes(6, ignore=1), T(5, low=0.1, grad=False), None, 1, label_smoothing=0.3),
    S(T(2, 5, 3), classes(2, 3), T(5, low=0.1, grad=False), reduction="none", label_smoothing=0.1),
    S(T(6, 5), classes(6, ignore=1), T(5, low=0.1, grad=False), None, 1, reduction="sum", label_smoothing=0.3),
    S(T(6, 5), T(6, 5, make=probabilities)),
    S(T(5), T(5, make=probabilities), T(5, low=0.1)),
    S(T(2, 5, 3), T(2, 5, 3, make=probabilities), reduction="none", label_smoothing=0.1),
    S(T(2, 5, 3), T(2, 5, 3, make=probabilities), T(5, low=0.1), reduction="sum"),
)
