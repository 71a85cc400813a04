"""``torch.sparse_coo_tensor`` and the constructors of the compressed layouts."""

from __future__ import annotations

import inspect

import numpy as np

from ..eager.core import api as torch
from ..eager.core import formats
from ..eager.core.dtype import int64
from ..eager.core.geometry import Size
from ..eager.tensor import Tensor, new_leaf
from . import _invariants
from ._tensor import CompressedPattern, CooPattern, host

_COO_FORMS = (
    "sparse_coo_tensor() received an invalid combination of arguments - got ({}), but expected one "
    "of:\n * (object indices, object values, *, torch.dtype dtype = None, torch.device device = None, "
    "bool pin_memory = False, bool requires_grad = False, bool check_invariants = None, bool "
    "is_coalesced = None)\n * (object indices, object values, tuple of ints size, *, torch.dtype dtype "
    "= None, torch.device device = None, bool pin_memory = False, bool requires_grad = False, bool "
    "check_invariants = None, bool is_coalesced = None)\n * (tuple of ints size, *, torch.dtype dtype = "
    "None, torch.device device = None, bool requires_grad = False, bool check_invariants = None)\n"
)


def _values(values, dtype, device):
    if not isinstance(values, Tensor):
        return torch.tensor(values, dtype=dtype, device=device)
    return values.to(device=device, dtype=dtype)


def _finish(out, requires_grad):
    return new_leaf(out.detach()) if requires_grad else out


def _is_size(value):
    return isinstance(value, (tuple, list)) and all(isinstance(n, (int, np.integer)) for n in value)


def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, device=None,
                      pin_memory=False, requires_grad=False, check_invariants=None,
                      is_coalesced=None):
    """A sparse tensor of coordinates (``torch.sparse_coo_tensor``).

    Args:
        indices: (sparse dimensions, n) places; the same place may occur more than once (a sum).
        values: (n, dense dimensions...); gradients flow to it.
        size: that of the tensor; by default as large as the places need. Alone, the size of a tensor
            without elements.
        check_invariants: look whether all places are inside of ``size``.
        is_coalesced: the places are known to be sorted and different.

    Raises:
        RuntimeError: for parts that do not fit together.

    >>> import ftorch as torch
    >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    if values is None:
        size = indices if size is None else size
        if isinstance(size, Tensor):
            raise TypeError(
                "sparse_coo_tensor(): argument 'size' (position 1) must be tuple of ints, not Tensor"
            )
        if not _is_size(size):
            got = "" if size is None else type(size).__name__
            raise TypeError(_COO_FORMS.format(got))
        values = torch.zeros(0, dtype=dtype, device=device)
        indices = torch.zeros((len(size), 0), dtype=int64, device=values.device)
        return _finish(CooPattern(indices, size, True).build(values), requires_grad)
    if size is not None and not _is_size(size):
        got = ", ".join(type(a).__name__ for a in (indices, values, size))
        raise TypeError(_COO_FORMS.format(got))
    values = _values(values, dtype, device)
    if not isinstance(indices, Tensor):
        indices = torch.tensor(indices)
    indices = indices.detach().to(device=values.device, dtype=int64)
    if values.dim() == 0:
        values = values.unsqueeze(0)
    if values.numel() == 0 and indices.dim() == 1 and indices.numel() == 0:
        indices = indices.reshape(1, 0)
    _invariants.check_coo_shapes(indices, values, size)
    if size is None:
        size = _inferred(indices, values)
    if any(n < 0 for n in size):
        raise RuntimeError("numel: integer multiplication overflow")
    if _invariants.wanted(check_invariants):
        _invariants.check_coo(indices, values, size, is_coalesced)
    return _finish(CooPattern(indices, size, is_coalesced).build(values), requires_grad)


def _inferred(indices, values):
    at = host(indices)
    if not at.shape[1]:
        return Size((0,) * at.shape[0] + tuple(values.shape[1:]))
    low = at.min(1)
    for d in range(at.shape[0]):
        if low[d] < 0:
            raise RuntimeError(f"found negative index {low[d]} for dim {d}")
    return Size((*(int(n) + 1 for n in at.max(1)), *values.shape[1:]))


_COMPRESSED = (formats.sparse_csr, formats.sparse_csc, formats.sparse_bsr, formats.sparse_bsc)


def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None,
                             layout=None, device=None, pin_memory=False, requires_grad=False,
                             check_invariants=None):
    """A sparse tensor of a compressed layout (``torch.sparse_compressed_tensor``).

    Args:
        compressed_indices: (batch..., lines + 1): where in ``plain_indices`` each line begins.
        plain_indices: (batch..., n): where in its line each element (or block) is.
        values: (batch..., n, [block rows, block columns], dense dimensions...).
        layout: ``torch.sparse_csr``, ``sparse_csc``, ``sparse_bsr`` or ``sparse_bsc``.

    Raises:
        RuntimeError: for another layout, or parts that do not fit together.

    >>> import ftorch as torch
    >>> torch.sparse_csr_tensor([0, 1, 2], [1, 0], [5., 6.], (2, 2)).to_dense()
    tensor([[0., 5.],
            [6., 0.]])
    """
    if layout not in _COMPRESSED:
        given = "none" if layout is None else _invariants.name_of_layout(layout)
        raise RuntimeError(
            f"sparse_compressed_tensor expected sparse compressed tensor layout but got {given}"
        )
    values = _values(values, dtype, device)
    parts = []
    for part in (compressed_indices, plain_indices):
        part = part.detach() if isinstance(part, Tensor) else torch.tensor(part)
        parts.append(part.to(values.device))
    compressed, plain = parts
    blocked = layout in (formats.sparse_bsr, formats.sparse_bsc)
    batch = compressed.dim() - 1
    block = tuple(values.shape[batch + 1 : batch + 3]) if blocked else None
    if size is None:
        lines = compressed.shape[-1] - 1
        at = host(plain)
        across = int(at.max()) + 1 if at.size else 0
        by_row = layout in (formats.sparse_csr, formats.sparse_bsr)
        r, c = block or (1, 1)
        pair = (lines * r, across * c) if by_row else (across * r, lines * c)
        size = (*compressed.shape[:-1], *pair, *values.shape[batch + 1 + 2 * blocked :])
    if _invariants.wanted(check_invariants):
        _invariants.check_compressed(compressed, plain, values, tuple(size), layout)
    pattern = CompressedPattern(compressed, plain, size, layout, block)
    return _finish(pattern.build(values, "SparseCompressedTensor"), requires_grad)


def _of_layout(name, layout, compressed, plain):
    def make(compressed_indices, plain_indices, values, size=None, *, dtype=None, device=None,
             pin_memory=False, requires_grad=False, check_invariants=None):
        return sparse_compressed_tensor(
            compressed_indices, plain_indices, values, size, dtype=dtype, layout=layout,
            device=device, requires_grad=requires_grad, check_invariants=check_invariants,
        )

    def constructor(*args, **kwargs):
        if len(args) < 3 and len(args) + len({compressed, plain, "values"} & {*kwargs}) < 3:
            got = ", ".join(
                [type(a).__name__ for a in args] + [f"{k}={v}" for k, v in kwargs.items()]
            )
            line = (
                f" * (object {compressed}, object {plain}, object values, {{}}*, torch.dtype dtype = "
                "None, torch.layout layout = None, torch.device device = None, bool pin_memory = False, "
                "bool requires_grad = False, bool check_invariants = None)\n"
            )
            raise TypeError(
                f"{name}() received an invalid combination of arguments - got ({got}), but expected one "
                f"of:\n{line.format('tuple of ints size, ')}{line.format('')}"
            )
        for own, general in ((compressed, "compressed_indices"), (plain, "plain_indices")):
            if own in kwargs:
                kwargs[general] = kwargs.pop(own)
        return make(*args, **kwargs)

    constructor.__name__ = constructor.__qualname__ = name
    first, second, *others = inspect.signature(make).parameters.values()
    constructor.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [first.replace(name=compressed), second.replace(name=plain), *others]
    )
    constructor.__doc__ = (
        f"``torch.{name}``: `sparse_compressed_tensor` of layout {layout}, its indices named "
        f"``{compressed}`` and ``{plain}``."
    )
    return constructor


_ROWS, _COLUMNS = ("crow_indices", "col_indices"), ("ccol_indices", "row_indices")
sparse_csr_tensor = _of_layout("sparse_csr_tensor", formats.sparse_csr, *_ROWS)
sparse_csc_tensor = _of_layout("sparse_csc_tensor", formats.sparse_csc, *_COLUMNS)
sparse_bsr_tensor = _of_layout("sparse_bsr_tensor", formats.sparse_bsr, *_ROWS)
sparse_bsc_tensor = _of_layout("sparse_bsc_tensor", formats.sparse_bsc, *_COLUMNS)
