"""Indices of sparse tensors as arrays, and sums of rows that belong to the same place."""

from __future__ import annotations

import numpy as np

from ..eager.call import op as _op
from ..eager.core import api as torch
from ..eager.core.dtype import bool as bool_
from ..eager.core.dtype import int64


def host(t) -> np.ndarray:
    """The elements of a dense tensor as an array that nobody writes to."""
    return np.asarray(_op.to_numpy(t))


def index_tensor(array, like=None):
    """A tensor of indices, on the device of another."""
    array = np.ascontiguousarray(array)
    t = torch.from_numpy(array if array.flags.writeable else array.copy())
    return t if like is None else t.to(like.device)


def accumulated(values, target, count):
    """The sums of the rows of ``values`` that have the same ``target``: (count, ...)."""
    zeros = torch.zeros((count, *values.shape[1:]), dtype=values.dtype, device=values.device)
    if values.dtype is bool_:
        ints = zeros.to(int64).index_add(0, target, values.to(int64))
        return ints > 0
    return zeros.index_add(0, target, values)
