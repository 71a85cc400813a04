"""Inputs of operators of two sparse tensors."""

from __future__ import annotations

from ....eager.core.dtype import float32
from ._sparse import SparseFuzzer

__all__ = ["BinaryOpSparseFuzzer"]


class BinaryOpSparseFuzzer(SparseFuzzer):
    """Draws sparse ``x`` and ``y`` of the same sizes.

    >>> from ftorch.utils.benchmark.op_fuzzers.sparse_binary import BinaryOpSparseFuzzer
    >>> [(tensors, _, _)] = BinaryOpSparseFuzzer(seed=0).take(1)
    >>> tensors["x"].shape == tensors["y"].shape
    True
    """

    _names = ("x", "y")

    def __init__(self, seed, dtype=float32, cuda=False) -> None:
        super().__init__(seed, dtype, cuda)
