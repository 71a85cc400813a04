"""Rows with small absolute sums (``torch.ao.pruning._experimental.pruner.saliency_pruner``)."""

from __future__ import annotations

from .base_structured_sparsifier import BaseStructuredSparsifier


def row_sums(weights):
    """The absolute sum of each row.

    Raises:
        Exception: for a vector, which has no rows (that type, as in PyTorch).
    """
    if weights.dim() <= 1:
        raise Exception("Structured pruning can only be applied to a 2+dim weight tensor!")  # noqa: TRY002
    return weights.norm(dim=tuple(range(1, weights.dim())), p=1)


class SaliencyPruner(BaseStructuredSparsifier):
    """Takes out the rows with the smallest absolute sums, ``sparsity_level`` of them all."""

    def update_mask(self, module, tensor_name, **kwargs):
        mask = getattr(module.parametrizations, tensor_name)[0].mask
        saliency = -row_sums(getattr(module, tensor_name))
        if saliency.shape != mask.shape:
            raise AssertionError(f"saliency shape ({saliency.shape}) must match mask shape ({mask.shape})")
        mask.data[saliency.topk(int(len(mask) * kwargs["sparsity_level"])).indices] = False
