"""Quantization and pruning (``torch.ao``)."""

from .._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "nn ns pruning quantization")
