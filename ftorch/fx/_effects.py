"""Which functions do more than compute their result: they write, or draw random numbers."""

from __future__ import annotations

import operator

from .._ops import OpOverload
from . import _targets

# Ops that draw from a generator; names of the top level and of `torch.ops.aten`.
_RANDOM = frozenset(
    "bernoulli binomial cauchy exponential geometric log_normal multinomial native_dropout normal "
    "poisson rand rand_like randint randint_like randn randn_like random randperm rrelu "
    "rrelu_with_noise uniform _sample_dirichlet _standard_gamma".split()
)
_WRITES = (operator.setitem, operator.delitem)


def has_effect(target, random: bool) -> bool:
    """Whether calls of a function are kept although nobody uses their result.

    Args:
        random: whether drawing random numbers counts.
    """
    if isinstance(target, OpOverload):
        name = target.overloadpacket.__name__
        return target._form == "inplace" or (random and name.removesuffix("_") in _RANDOM)
    if target in _WRITES or getattr(target, "writes", False):
        return True
    owner, _, name = (_targets.public_path(target) or "").rpartition(".")
    return random and owner == "torch" and name in _RANDOM
