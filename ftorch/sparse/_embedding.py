"""Rows of a table whose gradient is sparse: ``nn.Embedding(sparse=True)`` and its bags."""

from __future__ import annotations

from ..eager.core import api as torch
from ..eager.core.dtype import int64
from ._tensor import CooPattern, record


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False):
    """``torch.embedding`` whose gradient for ``weight`` is a tensor of coordinates."""
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    out = torch.embedding(weight.detach(), indices, padding_idx)
    shape = tuple(weight.shape)
    indices = indices.detach()

    def backward(grad):
        rows, values = indices.reshape(-1), grad.reshape(indices.numel(), shape[1])
        if padding_idx != -1:
            kept = (rows != padding_idx).nonzero().reshape(-1)
            rows, values = rows.index_select(0, kept), values.index_select(0, kept)
        return [CooPattern(rows.to(int64).unsqueeze(0), shape).build(values)]

    return record("Embedding", [weight], out, backward)


def embedding_bag(weight, indices, offsets, mode, scale_grad_by_freq, per_sample_weights,
                  include_last_offset, padding_idx):
    """Sums and means of bags of rows; the gradient for ``weight`` is a tensor of coordinates."""
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_bag_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    with_check = torch._embedding_bag(
        weight.detach(), indices, offsets, mode, False,
        None if per_sample_weights is None else per_sample_weights.detach(), include_last_offset,
        padding_idx,
    )
    if not indices.numel():
        shape = tuple(weight.shape)
        pattern = CooPattern(torch.empty(1, 0, dtype=int64, device=weight.device), shape)
        nothing = torch.empty(0, shape[1], dtype=weight.dtype, device=weight.device)
        return record("EmbeddingBag", [weight], with_check, lambda grad: [pattern.build(nothing)])
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    rows = embedding(weight, indices, padding)
    if padding_idx is not None:
        kept = (indices != padding).to(weight.dtype)
        if mode == "mean":
            bags = offsets.shape[0] - bool(include_last_offset)
            places = torch.arange(indices.shape[0], dtype=offsets.dtype, device=offsets.device)
            number = torch.searchsorted(offsets[:bags].contiguous(), places, right=True) - 1
            count = torch.zeros(bags, dtype=weight.dtype).index_add(0, number, kept)
            kept = kept / count.index_select(0, number).clamp(min=1)
            mode = "sum"
        per_sample_weights = kept if per_sample_weights is None else per_sample_weights * kept
    each = torch.arange(indices.shape[0], dtype=indices.dtype, device=indices.device)
    return torch._embedding_bag(
        rows, each, offsets, mode, False, per_sample_weights, include_last_offset, None
    )
