"""What must hold of indices and values, and whether that is looked at when tensors are made."""

from __future__ import annotations

import functools
import math

import numpy as np

from .._old_names import place_in
from ..eager.core import formats
from ..eager.core.dtype import int32, int64
from ..eager.core.user_warnings import warn_once
from ..eager.native.contexts import repeatable
from ._tensor import _LAYOUT_NAME, host

_enabled: list[bool | None] = [None]  # None where nobody has said it
_UNSAID = (
    "Sparse invariant checks are implicitly disabled. Memory errors (e.g. SEGFAULT) will occur when operating on a "
    "sparse tensor which violates the invariants, but checks incur performance overhead. To silence this warning, "
    "explicitly opt in or out. See `torch.sparse.check_sparse_tensor_invariants.__doc__` for guidance."
)


class check_sparse_tensor_invariants:  # noqa: N801
    """Whether indices are checked whenever a sparse tensor is made: a switch, a context, a decorator.

    Args:
        enable: what holds inside the context.

    >>> import ftorch as torch
    >>> with torch.sparse.check_sparse_tensor_invariants():
    ...     torch.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    def __init__(self, enable=True):
        self.state = enable
        self.saved_state = None

    @staticmethod
    def is_enabled() -> bool:
        """Whether checks are on."""
        return bool(_enabled[0])

    @staticmethod
    def enable() -> None:
        """Switches the checks on."""
        _enabled[0] = True

    @staticmethod
    def disable() -> None:
        """Switches the checks off."""
        _enabled[0] = False

    def __enter__(self):
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context manager "
                "instance for context nesting."
            )
        self.saved_state, _enabled[0] = self.is_enabled(), self.state

    @repeatable
    def __exit__(self, *_):
        if self.saved_state is not None:
            _enabled[0], self.saved_state = self.saved_state, None

    def __call__(self, function):
        @functools.wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def wanted(check_invariants) -> bool:
    """Whether to check, given the argument of a constructor."""
    if check_invariants is not None:
        return bool(check_invariants)
    if _enabled[0] is None:
        warn_once(_UNSAID)
    return bool(_enabled[0])


def _require(condition, message):
    if not condition:
        raise RuntimeError(message)


def check_coo_shapes(indices, values, size):
    """Raises RuntimeError unless indices, values and size fit together."""
    _require(
        indices.dim() == 2,
        f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}",
    )
    nnz = values.shape[0]
    _require(
        indices.shape[1] == nnz,
        "indices and values must have same nnz, but got nnz from indices: "
        f"{indices.shape[1]}, nnz from values: {nnz}",
    )
    if size is None:
        return
    sparse, dense = indices.shape[0], values.dim() - 1
    _require(
        len(size) == sparse + dense,
        f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim "
        f"= {sparse}, dense_dim = {dense}",
    )
    _check_dense_size(values, size, sparse)


def _check_dense_size(values, size, sparse):
    _require(
        tuple(size[sparse:]) == tuple(values.shape[1:]),
        f"values has incorrect size, expected {[values.shape[0], *size[sparse:]]}, got "
        f"{list(values.shape)}",
    )


def check_coo(indices, values, size, coalesced):
    """Raises RuntimeError for indices outside of the size, or values of another dense size."""
    sparse = indices.shape[0]
    _check_dense_size(values, size, sparse)
    at = host(indices)
    if at.size:
        low, high = at.min(1), at.max(1)
        for d in range(sparse):
            _require(low[d] >= 0, f"found negative index {low[d]} for dim {d}")
            _require(
                high[d] < size[d],
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found index "
                f"{high[d]}",
            )
    if coalesced and at.shape[1] > 1:
        keys = np.ravel_multi_index(tuple(at), tuple(size[:sparse])) if sparse else at[0]
        _require(
            bool((np.diff(keys) > 0).all()),
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor",
        )


def check_compressed(compressed, plain, values, size, layout):
    """Raises RuntimeError unless the parts make a tensor of a compressed layout, in PyTorch's words."""
    row = layout in (formats.sparse_csr, formats.sparse_bsr)
    block = layout in (formats.sparse_bsr, formats.sparse_bsc)
    c, p = ("crow_indices", "col_indices") if row else ("ccol_indices", "row_indices")
    along, across = ("row", "column") if row else ("column", "row")
    ncross = "ncols" if row else "nrows"
    _require(compressed.dim() >= 1, f"{c} must have dimensionality >= 1 but got {compressed.dim()}")
    _require(plain.dim() >= 1, f"{p} must have dimensionality >= 1 but got {plain.dim()}")
    _require(
        compressed.dim() == plain.dim(),
        f"number of dimensions of {c} and {p} must be the same but got {compressed.dim()} and "
        f"{plain.dim()}, respectively",
    )
    batch = compressed.dim() - 1
    dense = values.dim() - batch - (3 if block else 1)
    _require(dense >= 0, f"values must have dimensionality > sum of batch and block dimensionalities (="
             f"{batch} + {2 if block else 0}) but got {values.dim()}")
    _require(
        len(size) == batch + 2 + dense,
        "tensor dimensionality must be sum of batch, base, and dense dimensionalities (="
        f"{batch} + 2 + {dense}) but got {len(size)}",
    )
    r, k = tuple(values.shape[batch + 1 : batch + 3]) if block else (1, 1)
    rows, cols = size[batch], size[batch + 1]
    if block:
        _require(rows % r == 0, f"tensor shape[{batch}] (={rows}) must be divisible with blocksize[0] "
                 f"(={r}) as defined by values shape")
        _require(cols % k == 0, f"tensor shape[{batch + 1}] (={cols}) must be divisible with "
                 f"blocksize[1] (={k}) as defined by values shape")
    rows, cols = rows // r, cols // k
    n, m = (rows, cols) if row else (cols, rows)
    what = f"{along} block" if block else along
    _require(
        compressed.shape[-1] == n + 1,
        f"{c}.shape[-1] must be equal to the number of {what}s + 1 (={n + 1}), but got "
        f"{compressed.shape[-1]}",
    )
    nnz = values.shape[batch]
    _require(
        plain.shape[-1] == nnz,
        f"{p}.shape[-1] must be equal to nnz (={nnz}) as defined by values.shape[{batch}], but got "
        f"{plain.shape[-1]}",
    )
    _require(
        compressed.dtype is plain.dtype,
        f"{c} and {p} must have the same dtype, bot got {compressed.dtype.scalar_name} and "
        f"{plain.dtype.scalar_name}, respectively",
    )
    _require(
        compressed.dtype in (int32, int64),
        f"{c} and {p} must be an int32 or int64 type, but got {compressed.dtype.scalar_name} and "
        f"{plain.dtype.scalar_name}, respectively",
    )
    batches = math.prod(compressed.shape[:-1])
    counts, at = host(compressed).reshape(batches, -1), host(plain).reshape(batches, -1)
    steps = np.diff(counts)
    _require((counts[:, 0] == 0).all(), f"`{c}[..., 0] == 0` is not satisfied.")
    _require((counts[:, -1] == nnz).all(), f"`{c}[..., -1] == nnz` is not satisfied.")
    _require(
        ((steps >= 0) & (steps <= m)).all(),
        f"`0 <= {c}[..., 1:] - {c}[..., :-1] <= {ncross}` is not satisfied.",
    )
    _require(((at >= 0) & (at < m)).all(), f"`0 <= {p} < {ncross}` is not satisfied.")
    for begin, line in zip(counts, at):
        inside = np.ones(max(nnz - 1, 0), bool)
        ends = begin[1:-1]
        inside[ends[(ends > 0) & (ends < nnz)] - 1] = False
        _require(
            (np.diff(line)[inside] > 0).all(),
            f"`{p}[..., {c}[..., i - 1]:{c}[..., i]] for all i = 1, ..., {'nrows' if row else 'ncols'} "
            "are sorted and distinct along the last dimension values` is not satisfied.",
        )


def name_of_layout(layout) -> str:
    """``"SparseCsr"``."""
    return _LAYOUT_NAME.get(layout, str(layout))

place_in("sparse", check_sparse_tensor_invariants)
