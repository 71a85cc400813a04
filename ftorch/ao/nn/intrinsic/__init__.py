"""Layers that are to be quantized as one (``torch.ao.nn.intrinsic``)."""

from .modules import *  # noqa: F403
from .modules import __all__ as __all__
from .modules import _FusedModule as _FusedModule


def __getattr__(name):
    if name in ("qat", "quantized"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
