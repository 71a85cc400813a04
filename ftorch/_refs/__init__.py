"""Operators as functions that others are compared with (``torch._refs``).

PyTorch has a second implementation of each, made of primitives. Here the operators themselves are of that kind, arrays in and
arrays out, so a reference is the function of its name.

>>> import ftorch as torch
>>> torch._refs.rpow(torch.tensor([1., 2.]), 2), torch._refs.special.entr(torch.ones(1))
(tensor([2., 4.]), tensor([-0.]))
"""

from . import _conversions, fft, linalg, nn, special  # noqa: F401
from ._find import finder

__getattr__, __all__ = finder(__name__, "")
