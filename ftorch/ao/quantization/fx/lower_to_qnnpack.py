"""Lowering to QNNPACK's operators (``torch.ao.quantization.fx.lower_to_qnnpack``)."""

from __future__ import annotations

from ._lower_to_native_backend import _lower_to_native_backend

__all__ = ["lower_to_qnnpack"]


def lower_to_qnnpack(model, qconfig_map, node_name_to_scope):
    """A reference graph module with quantized layers and operators."""
    return _lower_to_native_backend(model, qconfig_map, node_name_to_scope)
