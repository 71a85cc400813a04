"""Comparing models in floating point with quantized ones, layer by layer (``torch.ao.ns``)."""

from ..._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "_numeric_suite_fx fx")
