"""What the older exporter had under ``torch.onnx.utils``."""

from __future__ import annotations

import inspect

from ..nn import Module
from . import export, select_model_mode_for_export
from ._symbolic import register_custom_op_symbolic, unregister_custom_op_symbolic

__all__ = [
    "export", "model_signature", "register_custom_op_symbolic", "select_model_mode_for_export",
    "unregister_custom_op_symbolic",
]


def model_signature(model) -> inspect.Signature:
    """The signature of a module's ``forward``, or of a function.

    >>> import ftorch as torch
    >>> str(torch.onnx.utils.model_signature(lambda x, y=2: x))
    '(x, y=2)'
    """
    return inspect.signature(model.forward if isinstance(model, Module) else model)
