"""``torch.nested``: batches of tensors whose sizes differ.

>>> import ftorch as torch
>>> n = torch.nested.nested_tensor([torch.ones(2), torch.ones(1)], layout=torch.jagged)
>>> (n * 2).to_padded_tensor(0.0)
tensor([[2., 2.],
        [2., 0.]])
"""

from __future__ import annotations

import numpy as np

from .._submodules import on_demand as _on_demand
from ..eager.call import op as _op
from ..eager.core import api as _torch
from ..eager.core import formats as _formats
from ..eager.tensor import Tensor as _Tensor
from ._extents import extent_of
from ._tensor import NestedTensor, made, to_padded

__getattr__ = _on_demand(globals(), "_internal")

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def _layout(layout):
    if layout is None or layout is _formats.strided:
        return _formats.strided
    if layout is not _formats.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return layout


def _build(parts, layout, is_view=False):
    if layout is _formats.strided:
        for i, x in enumerate(parts):
            if x.dim() != parts[0].dim():
                raise RuntimeError(
                    "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                    f"{x.dim()} for Tensor at index {i} and dimension {parts[0].dim()} for Tensor at "
                    "index 0."
                )
        return made(parts, is_view=is_view)
    if not parts:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    if len({x.dim() for x in parts}) != 1:
        raise RuntimeError(
            "When constructing a nested tensor, all tensors in list must have the same dim"
        )
    differing = [d for d in range(parts[0].dim()) if len({x.shape[d] for x in parts}) != 1] or [0]
    if len(differing) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout only "
            "allows for a single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim."
        )
    (ragged,) = differing
    offsets = np.concatenate([[0], np.cumsum([x.shape[ragged] for x in parts])]).astype(np.int64)
    return made([_torch.cat(parts, ragged)], _torch.from_numpy(offsets).to(parts[0].device), at=ragged + 1)


def nested_tensor(tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False,
                  pin_memory=False):
    """A nested tensor of copies, a leaf of the graph (``torch.nested.nested_tensor``).

    Args:
        tensor_list: tensors (or lists of numbers) of the same number of dimensions.
        layout: ``torch.strided`` (the default: any sizes) or ``torch.jagged`` (sizes differ in one
            dimension).

    Raises:
        RuntimeError: for components that do not fit together, and for other layouts.

    >>> import ftorch as torch
    >>> torch.nested.nested_tensor([torch.tensor([1.]), torch.tensor([2., 3.])])
    nested_tensor([
      tensor([1.]),
      tensor([2., 3.])
    ])
    """
    layout = _layout(layout)
    if layout is _formats.strided and not isinstance(tensor_list, list):
        raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
    parts = [x.detach().clone() if isinstance(x, _Tensor) else _torch.tensor(x) for x in tensor_list]
    if dtype is None and layout is _formats.strided and parts:
        dtype = parts[0].dtype  # that of all
    parts = [x.to(dtype=dtype, device=device) for x in parts]
    made_ = _build(parts, layout)
    if requires_grad and layout is _formats.strided and made_.dtype.category < 2:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    return made_.requires_grad_(requires_grad)


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor through which gradients flow to ``ts`` (``torch.nested.as_nested_tensor``).

    Args:
        ts: tensors, or one tensor whose first dimension is the batch.
    """
    layout = _layout(layout)
    if isinstance(ts, NestedTensor):
        return ts
    parts = ts.unbind(0) if isinstance(ts, _Tensor) else ts
    parts = [x.view_as(x) if x.requires_grad and x.is_leaf else x for x in parts]  # the result is no leaf
    return _build([x.to(dtype=dtype, device=device) for x in parts], layout, isinstance(ts, _Tensor))


def nested_tensor_from_jagged(values, offsets=None, lengths=None, jagged_dim=None, min_seqlen=None,
                              max_seqlen=None):
    """A nested tensor of the jagged layout of the rows of all components.

    Args:
        values: (rows, ...).
        offsets: where each component begins, and the end; or ``lengths``, that of each. With both there may
            be rows between the components that belong to none.
        jagged_dim: which dimension of the result is ragged, from 1 on (the default).

    Raises:
        RuntimeError: if both are missing. ValueError, IndexError: for a ``jagged_dim`` out of range.

    >>> import ftorch as torch
    >>> n = torch.nested.nested_tensor_from_jagged(torch.arange(3.), torch.tensor([0, 1, 3]))
    >>> n.unbind()
    (tensor([0.]), tensor([1., 2.]))
    """
    if offsets is None and lengths is None:
        raise RuntimeError(
            "nested_tensor_from_jagged(): At least one of offsets or lengths is required."
        )
    at = 1 if jagged_dim is None else jagged_dim
    if at < 1:
        raise ValueError(f"Expected jagged_dim >=1, but got {at}.")
    if at > values.dim():
        raise IndexError("tuple index out of range")
    if offsets is None:
        offsets = _torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    elif lengths is not None:
        steps = np.diff(np.asarray(_op.to_numpy(offsets)))
        if not np.array_equal(steps, np.asarray(_op.to_numpy(lengths))):
            return _with_holes(values, offsets, lengths, at)
    return made([values], offsets, at=at)


def _with_holes(values, offsets, lengths, at=1):
    """A jagged tensor whose `values` have rows between the components."""
    starts, counts = np.asarray(_op.to_numpy(offsets)), np.asarray(_op.to_numpy(lengths))
    rows = np.concatenate([np.arange(s, s + n) for s, n in zip(starts, counts)]).astype(np.int64)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    out = made([values.index_select(at - 1, _torch.from_numpy(rows))], _torch.from_numpy(ends), extent_of(lengths), at)
    out._holes = values, offsets, lengths
    return out


def to_padded_tensor(input, padding, output_size=None, out=None):
    """A dense tensor of the components, filled up at their ends (``torch.nested.to_padded_tensor``).

    Args:
        output_size: a larger size than that of the largest component.

    Raises:
        RuntimeError: if ``output_size`` is too small.
    """
    return to_padded(input, padding, output_size)


def narrow(tensor, dim, start, length, layout=None):
    """Parts of the rows of a batch, as a nested tensor (``torch.nested.narrow``).

    Args:
        dim: 1, of which each component gives a part (jagged layout); 0, the batch (strided).
        start, length: numbers; for the jagged layout also (batch,), for each component.

    Raises:
        RuntimeError: for another dimension, and for lengths that the strided layout cannot have.

    >>> import ftorch as torch
    >>> x = torch.arange(6.).reshape(2, 3)
    >>> torch.nested.narrow(x, 1, torch.tensor([0, 1]), torch.tensor([1, 2]),
    ...                     layout=torch.jagged).unbind()
    (tensor([0.]), tensor([4., 5.]))
    """
    if _layout(layout) is _formats.strided:
        if not (isinstance(start, int) and isinstance(length, int)):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        if dim != 0:
            raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
        return _build(list(tensor.narrow(0, start, length).unbind(0)), _formats.strided)
    if dim != 1:
        raise RuntimeError("narrow(): only dim=1 supported for nested tensors of the jagged layout")
    starts, lengths = (
        np.broadcast_to(np.asarray(_op.to_numpy(n) if isinstance(n, _Tensor) else n), len(tensor))
        for n in (start, length)
    )
    rows = tensor.shape[1]
    begins = np.append(starts + rows * np.arange(len(tensor)), rows * len(tensor)).astype(np.int64)
    return _with_holes(tensor.flatten(0, 1), _torch.from_numpy(begins),
                       _torch.from_numpy(np.array(lengths, np.int64)))


def masked_select(tensor, mask):
    """The rows of a batch where ``mask`` holds, as a jagged tensor (``torch.nested.masked_select``).

    >>> import ftorch as torch
    >>> x = torch.arange(4.).reshape(2, 2)
    >>> torch.nested.masked_select(x, x > 0).unbind()
    (tensor([1.]), tensor([2., 3.]))
    """
    mask = mask.expand(tensor.shape)
    lengths = mask.sum(-1).reshape(-1)
    return nested_tensor_from_jagged(tensor.masked_select(mask), lengths=lengths)
