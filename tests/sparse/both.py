"""Programs with sparse tensors, run in both libraries."""

from __future__ import annotations

import warnings

import torch as pt

import ftorch as ft

from ..oracle import assert_same, name_of

_PARTS = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "values"),
    "sparse_bsr": ("crow_indices", "col_indices", "values"),
    "sparse_csc": ("ccol_indices", "row_indices", "values"),
    "sparse_bsc": ("ccol_indices", "row_indices", "values"),
}


def assert_agree(mine, theirs, where=""):
    """Raises AssertionError unless results agree: sparse tensors in layout and all their parts."""
    if isinstance(theirs, pt.Tensor) and theirs.layout is not pt.strided:
        assert name_of(mine.layout) == name_of(theirs.layout), where
        assert tuple(mine.shape) == tuple(theirs.shape), where
        layout = name_of(theirs.layout)
        if layout == "sparse_coo":
            assert mine.is_coalesced() or not theirs.is_coalesced(), where
        for part in _PARTS[layout]:
            a, b = getattr(mine.detach(), part)(), getattr(theirs.detach(), part)()
            assert_same(a, b, where=f"{where}.{part}")
    elif isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs), where
        for i, (a, b) in enumerate(zip(mine, theirs)):
            assert_agree(a, b, f"{where}[{i}]")
    else:
        assert_same(mine, theirs, where=where)


def check(program):
    """Runs ``program(torch)`` in both libraries and compares results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = program(pt)
    assert_agree(program(ft), theirs)


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
