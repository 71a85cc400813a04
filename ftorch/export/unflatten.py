"""Programs as trees of modules again: the names of ``torch.export.unflatten``."""

from __future__ import annotations

from ._unflatten import FlatArgsAdapter, InterpreterModule, UnflattenedModule, unflatten

__all__ = ["FlatArgsAdapter", "InterpreterModule", "UnflattenedModule", "unflatten"]
