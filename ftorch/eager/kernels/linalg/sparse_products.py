"""Products of a sparse matrix, given row by row, and a dense one."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ...core.registry import op
from .._primitives import primitive


@op("_sparse_rows_mm(Tensor values, Tensor begins, Tensor columns, Tensor dense) -> Tensor")
def sparse_rows_mm(values, begins, columns, dense):
    """The product of a sparse matrix and a dense one.

    Args:
        values: (elements,), those of the sparse matrix row by row. begins: (m + 1,), where in them rows begin, and the last
            ends. columns: (elements,), where in its row each is. dense: (k, n) of the dtype of ``values``.
    """
    if values.dtype != np.float32:
        return _product(values, begins, columns, dense)
    return _PRODUCTS.bind(values[None], begins[None], columns[None], dense[None])[0][0]


def _product(values, begins, columns, dense):
    """Every element's row of the dense matrix, added to the result's."""
    rows = jnp.searchsorted(begins[1:], jnp.arange(values.shape[0], dtype=begins.dtype), side="right")
    taken = values[:, None] * jnp.take(dense, columns, axis=0, mode="clip")
    zeros = jnp.zeros((begins.shape[0] - 1, dense.shape[1]), taken.dtype)
    return zeros.at[rows].add(taken, mode="drop", indices_are_sorted=True)


_PRODUCTS = primitive(
    "multiply_sparse",
    jax.vmap(_product),
    lambda values, begins, columns, dense: [(dense.shape[0], begins.shape[1] - 1, dense.shape[2])],
)
