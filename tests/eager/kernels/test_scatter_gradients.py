"""Gradients of `scatter` and its reductions by an index smaller than the source, and those PyTorch has none of."""

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import assert_shows_same, said

SIZES = [
    ((2, 2), (4, 4)),
    ((2, 3), (2, 4)),
    ((2,), (4,)),
    ((0,), (3,)),
    ((0,), (1,)),
    ((0, 2), (1, 3)),
    ((2, 2), (2, 2)),
]
CALLS = {
    "scatter": lambda x, i, y: x.scatter(0, i, y),
    "scatter_add": lambda x, i, y: x.scatter_add(0, i, y),
    "old add": lambda x, i, y: x.scatter(0, i, y, reduce="add"),
    "old number": lambda x, i, y: x.scatter(0, i, 2.0, reduce="multiply"),
    **{
        how: lambda x, i, y, how=how: x.scatter_reduce(0, i, y, how)
        for how in ("sum", "mean", "prod", "amax", "amin")
    },
    "without self": lambda x, i, y: x.scatter_reduce(0, i, y, "mean", include_self=False),
}


@pytest.mark.parametrize("wants", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("call", CALLS)
def test_an_index_smaller_than_the_source(call, wants):
    def program(t):
        given = []
        for index, source in SIZES:
            x = t.full((5,) * len(index), 0.5, requires_grad=wants[0])
            y = (
                (t.arange(float(t.Size(source).numel())) + 1)
                .reshape(source)
                .requires_grad_(wants[1])
            )
            try:
                CALLS[call](x, t.zeros(index, dtype=t.long), y).sum().backward()
                given += [g if g is None else g.tolist() for g in (x.grad, y.grad)]
            except RuntimeError as error:
                given.append(str(error))
        return given

    assert_shows_same(program)


def test_what_reduces_by_a_source_is_said_to_be_old(monkeypatch):
    monkeypatch.setattr("ftorch.eager.core.user_warnings._given", set())
    warns = pt.is_warn_always_enabled()

    def program(t):
        return (
            t.zeros(3, 7)
            .scatter_(0, t.zeros(2, 7, dtype=t.long), t.ones(2, 7), reduce="add")
            .sum()
            .item()
        )

    pt.set_warn_always(True)
    try:
        (mine, warned), (theirs, their_warnings) = said(ft, program), said(pt, program)
    finally:
        pt.set_warn_always(warns)
    assert mine == theirs
    assert set(warned) == {text.partition(" (Triggered")[0] for text in their_warnings}
