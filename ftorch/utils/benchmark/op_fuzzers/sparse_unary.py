"""Inputs of operators of one sparse tensor."""

from __future__ import annotations

from ....eager.core.dtype import float32
from ._sparse import SparseFuzzer

__all__ = ["UnaryOpSparseFuzzer"]


class UnaryOpSparseFuzzer(SparseFuzzer):
    """Draws a sparse ``x`` of one to three dimensions.

    >>> from ftorch.utils.benchmark.op_fuzzers.sparse_unary import UnaryOpSparseFuzzer
    >>> [(tensors, _, _)] = UnaryOpSparseFuzzer(seed=0).take(1)
    >>> tensors["x"].is_sparse
    True
    """

    def __init__(self, seed, dtype=None, cuda=False) -> None:
        super().__init__(seed, float32 if dtype is None else dtype, cuda)
