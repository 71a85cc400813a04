"""The same program traced by ftorch and by PyTorch."""

from __future__ import annotations

import importlib
import re

import torch as pt

import ftorch as ft

# What PyTorch binds in C has no public path there.
_PATHS = [
    (r"torch\._C\._nn\.", "torch.nn.functional."),
    (r"torch\._C\._special\.special_", "torch.special."),
    (r"torch\._C\._linalg\.linalg_", "torch.linalg."),
    (r"torch\._C\._fft\.fft_", "torch.fft."),
    (r"torch\.functional\.", "torch."),
]


def in_both(program):
    """``program(torch)`` for PyTorch and for ftorch."""
    return program(pt), program(ft)


def module(torch, path):
    """A submodule of either library: ``module(torch, "fx.passes.shape_prop")``."""
    return importlib.import_module(f"{torch.__name__}.{path}")


def normal(text) -> str:
    """Printed graphs and code with the paths that ftorch has."""
    text = str(text)
    for pattern, path in _PATHS:
        text = re.sub(pattern, path, text)
    return text.replace("ftorch.", "torch.")


def assert_same_text(mine, theirs):
    assert normal(mine) == normal(theirs)
