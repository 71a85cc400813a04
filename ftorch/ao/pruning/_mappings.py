"""Which sparse quantized class a dense one becomes (``torch.ao.pruning._mappings``)."""

from __future__ import annotations

import ftorch as torch

__all__ = ["get_dynamic_sparse_quantized_mapping", "get_static_sparse_quantized_mapping"]


def get_static_sparse_quantized_mapping() -> dict:
    """{dense class: sparse class with static quantization}."""
    from ftorch.ao.nn.sparse import quantized

    return {torch.nn.Linear: quantized.Linear}


def get_dynamic_sparse_quantized_mapping() -> dict:
    """{dense class: sparse class with dynamic quantization}."""
    from ftorch.ao.nn.sparse import quantized

    return {torch.nn.Linear: quantized.dynamic.Linear}
