"""``torch.backends.opt_einsum``: the order of contractions in ``torch.einsum``."""

from __future__ import annotations

import functools

from ..eager.functions.linalg import contraction_order
from . import make_flags


def is_available() -> bool:
    """Whether ``opt_einsum`` is installed; JAX needs it, so it always is."""
    return True


def get_opt_einsum():
    """The module ``opt_einsum``."""
    import opt_einsum

    return opt_einsum


make_flags(
    __name__, freezes=False, enabled=True, strategy="auto",
    acts={flag: functools.partial(contraction_order.__setitem__, flag) for flag in ("enabled", "strategy")},
)
