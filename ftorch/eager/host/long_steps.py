"""Steps of NumPy's and SciPy's that may take seconds: with large operands they run beside the thread that waits for them.

Kernels of the package's own look for signals in between their pieces; one call of NumPy's does not, and a handler would run
when it is over.
"""

from __future__ import annotations

import math

import numpy as np

from ..native.waiting import Forked, beside
from .rules import RULES

_MATRICES, _RANKS, _FUNCTIONS, _PASSES = 1 << 15, 1 << 18, 1 << 18, 1 << 21  # elements for which some ms are needed

#: {primitive: from how many elements of an operand on a step runs beside}
LEAST: dict[str, int] = {
    **dict.fromkeys(
        "cholesky lu eigh eig svd geqrf householder_product qr triangular_solve".split(), _MATRICES
    ),
    **dict.fromkeys("sort top_k approx_top_k ftorch_select".split(), _RANKS),
    **dict.fromkeys(
        "erf erf_inv lgamma digamma polygamma zeta igamma igammac igamma_grad_a random_gamma_grad regularized_incomplete_beta "
        "bessel_i0e bessel_i1e exp exp2 expm1 log log1p tanh logistic erfc sin cos tan asin acos atan sinh cosh asinh acosh "
        "atanh pow cbrt atan2 sqrt rsqrt integer_pow".split(),
        _FUNCTIONS,
    ),
    **dict.fromkeys(
        "fft tridiagonal_solve reduce_window_sum reduce_window_max reduce_window_min reduce_window select_and_scatter_add "
        "conv_general_dilated ftorch_attention ftorch_attention_gradient ftorch_multiply_sparse ftorch_depthwise "
        "ftorch_depthwise_input ftorch_depthwise_weight".split(),
        _RANKS,
    ),
    **dict.fromkeys(
        "cumsum cumprod cummax cummin cumlogsumexp ftorch_cummax ftorch_cummin scatter scatter_add scatter-add "
        "scatter_mul scatter-mul scatter_min scatter-min scatter_max scatter-max concatenate pad tile reduce_prod "
        "argmax argmin".split(),
        _PASSES,
    ),
}
_MULTIPLICATIONS = 1 << 34  # of the operands' sizes: 10^8 operations where both are square


def _quietly(run, operands):
    with np.errstate(all="ignore"):  # a thread's own
        return run(*operands)


def _beside(run, operands):
    try:
        return beside(_quietly, run, operands)
    except Forked:
        return run(*operands)


def _by_size(run, least):
    def step(x, *operands):
        if x.size < least:
            return run(x, *operands)
        return _beside(run, (x, *operands))

    return step


def _by_sizes(run, least):
    def product(a, b):
        if a.size * b.size < least:
            return run(a, b)
        return _beside(run, (a, b))

    return product


def _by_gathered(run, least):
    def gather(x, indices, sizes):
        """What is read counts, not what it is read from: a few rows of a large table are no long step."""
        if indices.size * math.prod(sizes) < least * max(1, indices.shape[-1] if indices.ndim else 1):
            return run(x, indices, sizes)
        return _beside(run, (x, indices, sizes))

    return gather


class _Waited:
    """The ``make`` of a rule whose steps run beside where they are long."""

    __slots__ = ("_make", "_least", "_wrapped")

    def __init__(self, make, least, wrapped):
        self._make, self._least, self._wrapped = make, least, wrapped

    def __call__(self, params, inputs, outputs):
        run = self._make(params, inputs, outputs)
        if not any(x.ndim for x in inputs):
            return run
        step = self._wrapped(run, self._least)
        if getattr(run, "is_best", False):
            step.is_best = True
        return step


def install() -> None:
    """Puts these in the place of the rules; before `native_calls.install`, since kernels look for signals themselves."""
    for name, least in LEAST.items():
        if (rule := RULES.get(name)) is not None:
            RULES[name] = rule._replace(make=_Waited(rule.make, least, _by_size))
    rule = RULES["gather"]
    RULES["gather"] = rule._replace(make=_Waited(rule.make, _PASSES, _by_gathered))
    rule = RULES["dot_general"]
    RULES["dot_general"] = rule._replace(make=_Waited(rule.make, _MULTIPLICATIONS, _by_sizes))
