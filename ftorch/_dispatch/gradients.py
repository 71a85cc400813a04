"""Gradients as the calls of ATen's ops that PyTorch's formulas make, for whoever sees calls (`gradient_rules` says how)."""

from . import elementwise_gradients, indexing_gradients, layer_gradients, reduction_gradients  # noqa: F401  (they declare rules)
from .gradient_rules import composing, of_op
from .view_gradients import of_view

__all__ = ["composing", "of_op", "of_view"]
