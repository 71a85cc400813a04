"""Utilities (``torch.utils``). Submodules are imported when they are first used."""

from __future__ import annotations

import importlib

_FROM = {
    "swap_tensors": "_swap", "ThroughputBenchmark": "throughput_benchmark",
    "rename_privateuse1_backend": "backend_registration",
    "get_cpp_backtrace": "cpp_backtrace",
    "generate_methods_for_privateuse1_backend": "backend_registration",
}


def set_module(obj, mod):
    """Sets the module that printing shows for a class or function (``torch.utils.set_module``).

    Raises:
        TypeError: if ``mod`` is no str.
    """
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def __getattr__(name):
    if name in _FROM:
        return getattr(importlib.import_module(f"{__name__}.{_FROM[name]}"), name)
    if not name.startswith("__"):
        try:
            return importlib.import_module(f"{__name__}.{name}")
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{name}":
                raise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
