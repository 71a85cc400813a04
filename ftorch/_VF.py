"""``torch._VF``: the functions of ``torch`` as ``torch.nn`` calls them.

>>> import ftorch as torch
>>> torch._VF.chunk(torch.ones(4), 2)
(tensor([1., 1.]), tensor([1., 1.]))
"""

from __future__ import annotations

from .eager.core import api as _api

globals().update(vars(_api._VF))  # those in front of which `torch` has functions in Python


def __getattr__(name: str):
    import ftorch as torch

    if name == "unique_dim":
        return torch.ops.aten.unique_dim
    return getattr(torch, name)
