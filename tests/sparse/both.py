"""Programs with sparse tensors, run in both libraries."""

from __future__ import annotations

import warnings

import torch as pt

import ftorch as ft

from ..oracle import assert_same


def assert_gives_same(program):
    """Runs ``program(torch)`` in both libraries and compares results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = program(pt)
    assert_same(program(ft), theirs)


def check_error(program, words=60):
    """Both libraries refuse, with the same exception type and the same first words.

    Args:
        words: how many characters of the message are compared.
    """
    caught = []
    for library in (ft, pt):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program(library)
        except Exception as error:
            caught.append(error)
        else:
            caught.append(None)
    mine, theirs = caught
    assert theirs is not None, "PyTorch does not refuse"
    assert type(mine) is type(theirs), f"{mine!r} instead of {theirs!r}"
    assert str(mine)[:words] == str(theirs)[:words]
