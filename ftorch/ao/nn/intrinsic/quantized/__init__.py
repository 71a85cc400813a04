"""Fused quantized layers (``torch.ao.nn.intrinsic.quantized``)."""

from .modules import *  # noqa: F403
from .modules import __all__ as __all__


def __getattr__(name):
    if name == "dynamic":
        import importlib

        return importlib.import_module(".dynamic", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
