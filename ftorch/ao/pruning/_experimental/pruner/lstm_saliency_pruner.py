"""Rows of recurrent weights, gate by gate (``torch.ao.pruning._experimental.pruner.lstm_saliency_pruner``)."""

from __future__ import annotations

from typing import Any

import ftorch as torch
from ftorch import nn

from .base_structured_sparsifier import BaseStructuredSparsifier
from .parametrization import FakeStructuredSparsity
from .saliency_pruner import row_sums


class LSTMSaliencyPruner(BaseStructuredSparsifier):
    """Takes out the rows with the smallest absolute sums of each of the four gates, as many of each."""

    def update_mask(self, module: nn.Module, tensor_name: str, **kwargs: Any) -> None:
        weights = getattr(module, tensor_name)
        for found in getattr(module.parametrizations, tensor_name):
            if isinstance(found, FakeStructuredSparsity):
                size = len(found.mask) // 4
                for mask, saliency in zip(found.mask.split(size), torch.split(row_sums(weights), size)):
                    count = int(len(mask) * kwargs["sparsity_level"])
                    mask.data[saliency.topk(count, largest=False, sorted=False).indices] = False
