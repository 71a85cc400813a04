"""Gradients as the calls of ATen's ops that PyTorch's formulas make, for whoever sees calls (`rules` says how)."""

from . import elementwise, indexing, layers, reductions  # noqa: F401  (they declare rules)
from .rules import composing, of_op
from .views import of_view

__all__ = ["composing", "of_op", "of_view"]
