"""``torch._VF``: the functions of ``torch`` as ``torch.nn`` calls them.

>>> import ftorch as torch
>>> torch._VF.chunk(torch.ones(4), 2)
(tensor([1., 1.]), tensor([1., 1.]))
"""

from __future__ import annotations


def __getattr__(name: str):
    import ftorch as torch

    return getattr(torch, name)
