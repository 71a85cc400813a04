"""Products of sparse matrices and dense ones (``sparse.cpp``)."""

from __future__ import annotations

import numpy as np

from .. import call

_INDICES = (np.dtype(np.int32), np.dtype(np.int64))


def product(eqn, inputs, origins):
    """The products of batches of sparse matrices, given row by row, and dense ones."""
    values, begins, columns, dense = inputs
    if begins.dtype != columns.dtype or begins.dtype not in _INDICES:
        return None
    sizes = (values.shape[0], begins.shape[1] - 1, values.shape[1], *dense.shape[1:])
    return [call("ftorch_multiply_sparse", eqn.outvars[0].aval, values, begins, columns, dense, sizes=sizes)]
