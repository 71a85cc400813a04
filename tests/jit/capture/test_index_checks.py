"""Indices that come with a call of a compiled function: each call reads, or writes, where its own says.

One out of range raises what PyTorch raises, and nothing is written.
"""

from __future__ import annotations

import pytest
import torch as pytorch

import ftorch

FUNCTIONS = {
    "index_copy_": lambda t, c, i, r: c.index_copy_(1, i, r),
    "index_put": lambda t, c, i, r: c.__setitem__((slice(None), i), r),
    "index": lambda t, c, i, r: c[:, i] + 1,
    "index_add": lambda t, c, i, r: c.index_add(1, i, r),
    "index_fill": lambda t, c, i, r: c.index_fill(1, i, 3.0),
    "index_select": lambda t, c, i, r: c.index_select(1, i.int()),
    "gather": lambda t, c, i, r: c.gather(1, i.unsqueeze(0).expand(2, -1)),
    "scatter": lambda t, c, i, r: c.scatter(1, i[None].expand(2, -1), r),
    "take": lambda t, c, i, r: c.take(i),
    "remainder": lambda t, c, i, r: c[0][i * 1 % 7 - 0],
    "slice": lambda t, c, i, r: c[0][i[:1]],
    "embedding": lambda t, c, i, r: t.nn.functional.embedding(i, c),
    "part": lambda t, c, i, r: c[1].index_copy_(0, i, r[0]),
    "cross_entropy": lambda t, c, i, r: t.nn.functional.cross_entropy(c[:1], i),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_indices_out_of_range_raise(name):
    function = FUNCTIONS[name]
    compiled = ftorch.compile(function, fullgraph=True)

    def raised(torch, run, index):
        array = torch.arange(8.0).reshape(2, 4) + 0
        try:
            result = run(torch, array, torch.tensor([index]), torch.ones(2, 1))
        except Exception as error:
            result = type(error).__name__, str(error)
        return result.tolist() if hasattr(result, "tolist") else result, array.tolist()

    raised(ftorch, compiled, 1)
    for index in (0, 1, 3, 9, -1, -9, 1):
        expected, ours = raised(pytorch, function, index), raised(ftorch, compiled, index)
        if isinstance(expected[0], tuple):
            assert ours == expected, index
        else:
            assert ours[0] == pytest.approx(expected[0]) if isinstance(expected[0], float) else ours == expected


def test_what_another_program_computes_is_looked_at_later():
    make = ftorch.compile(lambda x: (x @ x).argmax(1)[:1] + 1000)
    read = ftorch.compile(lambda c, i: c[i] + 1)
    x, c = ftorch.rand(600, 600), ftorch.arange(4.0) + 0
    read(c, ftorch.tensor([1]))
    with pytest.raises(IndexError, match="out of bounds"):
        for _ in range(2):
            read(c, make(x))
        read(c, ftorch.tensor([1])).tolist()
        c.tolist()


# --- tensors of one integer as indices


def written(w, i):
    w[i] = 7.0
    return w + 0


def written_through(w, i):
    w[i].add_(1)
    return w + 0


def written_in_columns(w, i):
    w[:, i] = w[:, i - 1] * 2
    return w + 0


INDEXING = {
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


@pytest.mark.parametrize("name", INDEXING)
def test_each_call_has_its_own_index(name):
    function = INDEXING[name]
    compiled = ftorch.compile(function)
    for i in (1, 2, 0, -1):
        expected = function(pytorch.arange(12.0).reshape(4, 3) + 0, pytorch.tensor(i))
        found = compiled(ftorch.arange(12.0).reshape(4, 3) + 0, ftorch.tensor(i))
        assert found.tolist() == expected.tolist()
