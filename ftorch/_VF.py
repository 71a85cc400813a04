"""Functions of variables, under PyTorch's private name (``torch._VF``)."""

from __future__ import annotations

import ftorch as torch


def __getattr__(name: str):
    found = getattr(torch.eager.api._VF, name, None)
    return getattr(torch, name) if found is None else found
