"""Materialization: the elements of any tensor as an array."""

from __future__ import annotations

import numpy as np

from .op import to_numpy


def elements(t) -> np.ndarray:
    """The elements as an array; of a subclass that wraps other tensors one by one, as it gives them."""
    storage = t._ftorch_storage
    if storage.error is None or storage.array is not None or t.is_meta:
        return to_numpy(t)
    return np.array([x.item() for x in t.reshape(-1)], t.dtype.numpy).reshape(tuple(t.shape))
