"""Products of matrices in groups (``torch.nn.functional.grouped_mm``): rows, columns or terms of a sum by group."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...core.dtype import from_numpy
from ...core.registry import op
from .._common import product, up

_KINDS = {"float32", "bfloat16", "float16"}


def _check(a, b, offs):
    for name, given in (("mat_a", a), ("mat_b", b)):
        if given.dtype.name not in _KINDS:
            kind = from_numpy(given.dtype).scalar_name
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {kind}")
    for name, given in (("mat_a", a), ("mat_b", b)):
        if given.ndim not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d")
    if a.ndim == b.ndim == 3 and a.shape[0] != b.shape[0]:
        raise RuntimeError("batched dimension has to match")
    if (a.ndim == b.ndim == 3) != (offs is None):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if offs is not None:
        if offs.ndim != 1:
            raise RuntimeError("offs has to be 1D")
        if offs.dtype != np.int32:
            raise RuntimeError("Offsets have to be int32")
        for given in (a, b):
            if given.ndim == 3 and given.shape[0] != offs.shape[0]:
                raise RuntimeError("matrix batch sizes have to match")


def _members(offs, n):
    """Which group each of ``n`` rows, columns or terms is of: (groups, n), all false for those of no group."""
    number = jnp.searchsorted(offs, jnp.arange(n, dtype=np.int32), side="right")
    return number == jnp.arange(offs.shape[0])[:, None]


def _by_row(a, b, offs):
    """Each row of ``a`` times its group's matrix.

    Not ``lax.ragged_dot``: it has no batching rule, and a ``custom_vmap`` around it no gradient. Away from TPUs it
    computes all groups' products, too, and there a value that is not finite spreads into the other groups.
    """
    return jnp.where(_members(offs, a.shape[0])[..., None], product(a, b), 0).sum(0)


@op("_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, "
    "ScalarType? out_dtype=None) -> Tensor", forms="function")
def _grouped_mm(self, mat2, offs, bias, out_dtype):
    """The products; ``offs`` says where the groups end. Rows or columns of no group are zeros."""
    _check(self, mat2, offs)
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and np.dtype(out_dtype) != self.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    a, b = up(self), up(mat2)
    if offs is None:
        return product(a, b).astype(self.dtype)
    if b.ndim == 3:  # groups of rows
        out = _by_row(a, b, offs)
    elif a.ndim == 3:  # groups of columns
        out = _by_row(b.T, a.swapaxes(1, 2), offs).T
    else:  # groups of terms
        mine = _members(offs, a.shape[1])
        out = product(jnp.where(mine[:, None], a, 0), jnp.where(mine[..., None], b, 0))
    return out.astype(self.dtype)
