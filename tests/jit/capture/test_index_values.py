"""Tensors of one integer as indices in compiled functions: each call reads, or writes, where its own says."""

from __future__ import annotations

import pytest
import torch as pytorch

import ftorch


def written(w, i):
    w[i] = 7.0
    return w + 0


def written_through(w, i):
    w[i].add_(1)
    return w + 0


def written_in_columns(w, i):
    w[:, i] = w[:, i - 1] * 2
    return w + 0


FUNCTIONS = {
    "row": lambda w, i: w[i],
    "row times": lambda w, i: w[i] * 2,
    "column": lambda w, i: w[:, i, None],
    "both": lambda w, i: w[i, i],
    "slices": lambda w, i: w[i, 1:] + w[..., i].sum(),
    "computed": lambda w, i: w[i + 0],
    "written": written,
    "written through": written_through,
    "columns": written_in_columns,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_call_has_its_own_index(name):
    function = FUNCTIONS[name]
    compiled = ftorch.compile(function)
    for i in (1, 2, 0, -1):
        expected = function(pytorch.arange(12.0).reshape(4, 3) + 0, pytorch.tensor(i))
        found = compiled(ftorch.arange(12.0).reshape(4, 3) + 0, ftorch.tensor(i))
        assert found.tolist() == expected.tolist()
