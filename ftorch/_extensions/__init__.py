"""Operators that packages bring as libraries of compiled code against PyTorch, written in JAX.

``torch.ops.load_library`` asks here for a library by its place: torchvision's ``_C`` and ``image``, torchaudio's.
The files themselves are not opened.
"""

from __future__ import annotations

import importlib
import pathlib

# (the package's folder, how the file's name begins): the module here whose import registers the operators.
_MODULES = {
    ("torchvision", "_C"): "torchvision_ops",
    ("torchaudio", "_torchaudio"): "torchaudio_ops",
    ("torchaudio", "libtorchaudio"): "torchaudio_ops",
}


def load(path) -> bool:
    """Registers the operators of a library; False for one that is not known."""
    path = pathlib.Path(path)
    for (package, start), module in _MODULES.items():
        if package in path.parts[:-1] and path.name.partition(".")[0] == start:
            importlib.import_module(f"{__name__}.{module}")
            return True
    return False
