"""Samples of the CTC loss."""

import numpy as np

from tests.samples import S, T, register


def log_softmax(rng, shape):
    x = rng.standard_normal(shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def lengths(*values):
    return T(len(values), dtype="int64", values=values)


_labels = T(3, 4, dtype="int64", values=[[1, 2, 2, 4], [3, 3, 1, 0], [4, 1, 2, 3]])
for reduction in ("none", "mean", "sum"):
    register(
        "_ctc_loss",
        S(
            T(9, 3, 5, make=log_softmax),
            _labels,
            lengths(9, 7, 8),
            lengths(4, 2, 3),
            0,
            reduction,
            False,
        ),
        S(
            T(9, 3, 5, make=log_softmax),
            T(7, dtype="int64", values=[1, 2, 3, 1, 1, 2, 4]),
            lengths(9, 7, 8),
            lengths(4, 0, 3),
            0,
            reduction,
            False,
        ),
        S(
            T(9, 3, 5, make=log_softmax),
            _labels,
            lengths(9, 2, 8),
            lengths(4, 3, 3),
            0,
            reduction,
            True,
        ),
        S(
            T(9, 5, make=log_softmax),
            T(3, dtype="int64", values=[0, 1, 1]),
            T(dtype="int64", values=8),
            T(dtype="int64", values=3),
            4,
            reduction,
            False,
        ),
    )
