"""Samples of the losses other than cross entropy."""

import numpy as np

from tests.samples import S, T, register


def signs(rng, shape):
    return rng.choice([-1.0, 1.0], shape)


def distribution(rng, shape):
    p = rng.random(shape)
    return p / p.sum(-1, keepdims=True) if p.ndim else p


REDUCTIONS = ("none", "mean", "sum")
SIGNS8 = T(3, dtype="int8", values=[1, -1, 1])
UNIT = {"low": 0.01, "high": 0.99}

for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
    register(
        name,
        *(S(T(3, 4), T(3, 4), reduction=r) for r in REDUCTIONS),
        S(T(), T()),
        S(T(3, 4), T(3, 1)),
        S(T(3, 4, dtype="bfloat16"), T(3, 4, dtype="bfloat16")),
    )
for name in ("mse_loss", "l1_loss", "smooth_l1_loss"):
    register(name, S(T(3, 4), T(3, 4, dtype="float64", grad=False)))
for name in ("mse_loss", "l1_loss", "huber_loss"):
    register(
        name, *(S(T(3, 4), T(3, 4), reduction=r, weight=T(3, 4, low=0.1, grad=False))
                for r in REDUCTIONS)
    )
register("mse_loss", S(T(3, 4), T(3, 4), False), S(T(3, 4), T(3, 4), None, False))
register("l1_loss", S(T(3, 4, dtype="int64"), T(3, 4, dtype="int64"), reduction="sum"))
register("l1_loss", S(T(3, dtype="complex64"), T(3, dtype="complex64")))
register("smooth_l1_loss", S(T(3, 4), T(3, 4), beta=0.3), S(T(3, 4), T(3, 4), beta=0.0))
register("huber_loss", S(T(3, 4), T(3, 4), delta=0.3))

for r in REDUCTIONS:
    register(
        "binary_cross_entropy",
        S(T(3, 4, **UNIT), T(3, 4, **UNIT), reduction=r),
        S(T(3, 4, **UNIT), T(3, 4, **UNIT), T(4, grad=False, **UNIT), reduction=r),
    )
    register(
        "binary_cross_entropy_with_logits",
        S(T(3, 4), T(3, 4, **UNIT), reduction=r),
        S(T(3, 4), T(3, 4, **UNIT), T(4, grad=False, **UNIT), reduction=r, pos_weight=T(4, grad=False, **UNIT)),
    )
    register(
        "kl_div",
        S(T(3, 4, high=0.0), T(3, 4, make=distribution), reduction=r),
        S(T(3, 4, high=0.0), T(3, 4, high=0.0), reduction=r, log_target=True),
    )
    register(
        "poisson_nll_loss",
        S(T(3, 4), T(3, 4, low=0, high=5), reduction=r),
        S(T(3, 4, low=0.1), T(3, 4, low=0, high=5), False, True, reduction=r),
    )
    register(
        "hinge_embedding_loss",
        S(T(3, 4), T(3, 4, make=signs, grad=False), reduction=r),
        S(T(3, 4), T(3, 4, make=signs, grad=False), 0.3, reduction=r),
    )
    register(
        "margin_ranking_loss",
        S(T(3, 4), T(3, 4), T(3, 4, make=signs, grad=False), reduction=r),
        S(T(3), T(3), T(3, make=signs, grad=False), 0.5, reduction=r),
        S(*[T(3, dtype="uint8", values=v) for v in ([1, 0, 9], [3, 4, 0])], SIGNS8, 0.5, reduction=r),
        S(*[T(3, dtype="int8", values=v) for v in ([1, 0, 100], [3, 4, -100])], SIGNS8, reduction=r),
        S(T(3, dtype="bool"), T(3, dtype="bool"), T(3, dtype="bool"), reduction=r),
        S(T(3), T(3), T(3, dtype="bool"), reduction=r),
    )
    register("soft_margin_loss", S(T(3, 4), T(3, 4, make=signs, grad=False), reduction=r))
    target = T(3, dtype="int64", values=[0, 4, 2])
    register(
        "multi_margin_loss",
        S(T(3, 5), target, reduction=r),
        S(T(3, 5), target, 2, 0.4, T(5, grad=False, **UNIT), reduction=r),
        S(T(5), T(dtype="int64", values=3), reduction=r),
    )
    labels = T(3, 4, dtype="int64", values=[[0, 2, -1, 1], [3, -1, 2, 1], [-1, 0, 0, 0]])
    register(
        "multilabel_margin_loss",
        S(T(3, 4), labels, reduction=r),
        S(T(4), T(4, dtype="int64", values=[3, 1, -1, 0]), reduction=r),
    )
    register(
        "multilabel_soft_margin_loss",
        S(T(3, 4), T(3, 4, grad=False, **UNIT), reduction=r),
        S(T(3, 4), T(3, 4, grad=False, **UNIT), T(4, grad=False, **UNIT), reduction=r),
    )
    register(
        "cosine_embedding_loss",
        S(T(3, 4), T(3, 4), T(3, make=signs, grad=False), reduction=r),
        S(T(3, 4), T(3, 4), T(3, make=signs, grad=False), 0.3, reduction=r),
        S(T(4), T(4), T(make=signs, grad=False), reduction=r),
    )
    register(
        "triplet_margin_loss",
        S(T(3, 4), T(3, 4), T(3, 4), reduction=r),
        S(T(3, 4), T(3, 4), T(3, 4), 0.5, 1, swap=True, reduction=r),
        S(T(3, 4), T(3, 4), T(3, 4), 2.0, 3.0, reduction=r),
        S(T(3, 4), T(3, 4), T(3, 4), 2.0, np.inf, reduction=r),
    )
register("kl_div", S(T(3, 4, high=0.0), T(3, 4, make=distribution), reduction="batchmean"))
register("binary_cross_entropy", S(T(4, values=[0.0, 1.0, 0.0, 1.0]), T(4, values=[0, 1, 1, 0])))
