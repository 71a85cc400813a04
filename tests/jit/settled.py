"""Conditions that the compiler settles: what they exclude is no TorchScript."""

# ruff: noqa: UP006, UP045
import types
import typing
from typing import List, Optional, Tuple  # noqa: UP035

import torch

NOTHING = object
ABSENT = "???"
GLOBAL = False


def any_of(x, flag: bool = False):
    if flag or not typing.TYPE_CHECKING or flag:
        return x + 1
    return NOTHING.ops.foo(x)


def all_of(x, flag: bool = True):
    if flag is not None and x.dim() == 1 and typing.TYPE_CHECKING and not flag:
        return NOTHING.ops.foo(x)
    return x - 1


def other_class(x, attr: Optional[torch.Tensor] = None, n: Optional[int] = None):
    if isinstance(attr, int):
        n = attr
        attr = ABSENT
    return x if n is None else x + n


def none(x, wanted: types.NoneType = None) -> torch.Tensor:
    return (x, x) if isinstance(wanted, bool) else x


def asked_at_run_time(x, n: Optional[int] = None):
    return x + n if isinstance(n, int) else x


def by_global(x):
    if x is None or GLOBAL:
        return NOTHING.ops.foo(x)
    return x


class Items(torch.nn.Module):
    found: List[Optional[Tuple[str, int]]]

    def __init__(self):
        super().__init__()
        self.nones = [None, None]
        self.found = [None, ("a", 1)]

    def forward(self, x, i: int):
        if self.nones[i] is None:
            x = x * 2
        else:
            _, j = self.nones[i]
            x = x + j
        item = self.found[i]
        if item is not None:
            _, j = item
            x = x + j
        return x
