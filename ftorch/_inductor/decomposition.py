"""Decompositions that compiled functions use (``torch._inductor.decomposition``)."""

from __future__ import annotations

import functools

from .. import _decomp
from ..ao.quantization.fx import _decomposed as _quantized_decomposed  # noqa: F401  its operators are registered

decompositions = dict(_decomp.core_aten_decompositions())


def register_decomposition(ops):
    """A decorator: the function stands for ops in compiled functions' graphs.

    >>> import ftorch as torch
    >>> from ftorch._inductor.decomposition import decompositions, register_decomposition
    >>> @register_decomposition([torch.ops.aten.relu6.default])
    ... def relu6(x):
    ...     return x.clamp(0, 6)
    >>> decompositions[torch.ops.aten.relu6.default] is relu6
    True
    """
    return _decomp.register_decomposition(ops, decompositions)


@functools.cache
def fast_random_decomps():
    """The same without those that draw random numbers one way only."""
    return dict(decompositions)


def select_decomp_table():
    """The decompositions in force."""
    return decompositions
