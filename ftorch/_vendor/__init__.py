"""Packages that PyTorch has a copy of (``torch._vendor``): here those that are installed."""

from .._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "packaging")
