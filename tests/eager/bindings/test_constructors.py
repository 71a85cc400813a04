"""Whose constructor an error speaks of: the same class's as in PyTorch."""

from __future__ import annotations

import importlib

import pytest

PLACES = ("nn", "distributions", "distributions.constraints", "optim", "optim.lr_scheduler", "nn.utils.prune",
          "ao.nn.quantized", "ao.nn.qat")
OTHERS = {"LogSigmoid", "Softsign", "Tanhshrink"}  # which have none of their own in PyTorch, and take nothing here, too


@pytest.mark.parametrize("place", PLACES)
def test_constructors_have_pytorchs_names(place):
    mine, theirs = (importlib.import_module(f"{library}.{place}") for library in ("ftorch", "torch"))
    names = [n for n, c in vars(mine).items() if isinstance(c, type) and isinstance(vars(theirs).get(n), type)]
    assert names
    wrong = {}
    for name in names:
        here, there = (getattr(getattr(m, name).__init__, "__qualname__", "") for m in (mine, theirs))
        if here != there and name not in OTHERS and name in (getattr(theirs, "__all__", None) or names):
            wrong[name] = here, there
    assert not wrong
