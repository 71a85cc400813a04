"""Warnings that follow from a call's sizes and arguments: with every call, and once."""

from __future__ import annotations

import warnings

import pytest
import torch as pt

import ftorch as ft

CALLS = {
    "sizes": lambda lib, n: lib.nn.functional.mse_loss(lib.ones(n, 3), lib.ones(3)),
    "flags": lambda lib, n: lib.nn.functional.l1_loss(lib.ones(n), lib.ones(n), size_average=False),
    "kl_div": lambda lib, n: lib.nn.functional.kl_div(lib.zeros(n), lib.ones(n)),
    "align_corners": lambda lib, n: lib.nn.functional.affine_grid(lib.ones(n, 2, 3), (n, 1, 2, 2)),
    "freedom": lambda lib, n: lib.var(lib.ones(n, 1), 1),
    "correction": lambda lib, n: lib.std_mean(lib.ones(n), correction=5),
    "cov": lambda lib, n: lib.cov(lib.ones(n, 1)),
    "none": lambda lib, n: lib.nn.functional.mse_loss(lib.ones(n, 3), lib.ones(n, 3)),
}


def said(library, call):
    found = []
    for n in (2, 2, 3):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call(library, n)
        found.append([(w.category, str(w.message).split(" (Triggered")[0]) for w in seen])
    return found


@pytest.mark.parametrize("name", CALLS)
def test_each_call_warns_once(name):
    assert said(ft, CALLS[name]) == said(pt, CALLS[name])


def test_a_notice_names_arguments_of_the_op():
    from ftorch.eager.core.registry import OPS, RegistrationError

    with pytest.raises(RegistrationError, match="nonsense"):
        OPS["mse_loss"].notice(lambda nonsense: None)
