"""Tracing models to be quantized (``torch.ao.quantization.fx.tracer``)."""

from __future__ import annotations

from collections.abc import Callable

import ftorch as torch
from ftorch._alias import is_own
from ftorch.ao.nn.intrinsic import _FusedModule
from ftorch.fx import Tracer
from ftorch.fx.proxy import Scope
from ftorch.fx.proxy import ScopeContextManager as _ScopeContextManager

__all__ = ["QuantizationTracer"]


class ScopeContextManager(_ScopeContextManager):
    """Puts a module in the place of a scope for a while."""

    def __init__(self, scope, current_module, current_module_path):
        super().__init__(scope, Scope(current_module_path, type(current_module)))


class QuantizationTracer(Tracer):
    """Traces a model; layers, and what is named, are recorded as calls.

    Args:
        skipped_module_names, skipped_module_classes: what is not traced into.
    """

    def __init__(self, skipped_module_names: list[str], skipped_module_classes: list[Callable]) -> None:
        super().__init__()
        self.skipped_module_names = skipped_module_names
        self.skipped_module_classes = skipped_module_classes

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        """Whether calls of a module are recorded, rather than traced into."""
        home = type(m).__module__
        layer = (is_own(home, "nn") or is_own(home, "ao.nn")) and not isinstance(m, torch.nn.Sequential)
        named = module_qualified_name in self.skipped_module_names or type(m) in self.skipped_module_classes
        return layer or named or isinstance(m, _FusedModule)
