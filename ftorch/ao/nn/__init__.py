"""Layers of quantized models (``torch.ao.nn``)."""

from ..._submodules import on_demand as _on_demand

__all__ = ["intrinsic", "qat", "quantizable", "quantized", "sparse"]

__getattr__ = _on_demand(globals(), "intrinsic qat quantizable quantized sparse")
