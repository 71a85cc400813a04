"""Quantization and pruning (``torch.ao``)."""

import importlib as _importlib

_PACKAGES = ("nn", "ns", "pruning", "quantization")


def __getattr__(name):
    if name in _PACKAGES:
        try:
            return _importlib.import_module(f".{name}", __name__)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
