"""Exports of programs with numbers and sizes that values decide: ``item``, masks, ``nonzero``."""

from __future__ import annotations

import pytest
import torch

import ftorch

PROGRAMS = {
    "lambda x: x[x > 0].sum() / x[x > 0].shape[0]": ("[1., -1., 2.]", "[1., 1., 2.]"),
    "lambda x: (x[x > 0] * 2).shape[0]": ("[1., -1., 2.]", "[1., 1., 2.]"),
    "lambda x: torch.unique(x)": ("[1., -1., 2.]", "[1., 1., 2.]"),
    "lambda x: x * x.sum().item()": ("[1., -1., 2.]", "[1., 1., 2.]"),
    "lambda x: x.sum().item() * 2 + 1": ("[1., -1., 2.]", "[1., 1., 2.]"),
    "lambda x: torch.ones(x[0].item() + 1) * x[1].item()": ("[1, 5]", "[3, 2]"),
    "lambda x: torch.ones(x[0].item(), x[1].item())": ("[2, 5]", "[3, 2]"),
    "lambda x: torch.ones(x.tolist())": ("[2, 5]", "[3, 2]"),
    "lambda x: torch.masked_select(x, x > 0).sum()": ("[1., -1., 2.]", "[1., 1., 2.]"),
    "lambda x: x.nonzero().sum()": ("[1., 0., 2.]", "[1., 1., 2.]"),
    "lambda x: torch.arange(6)[x[0]]": ("[1, 5]", "[3, 2]"),
    "lambda x: torch.arange(6.)[: x[0].item()]": ("[1, 5]", "[3, 2]"),
    "lambda x: torch.arange(6.)[x[0].item() :]": ("[1, 5]", "[3, 2]"),
    "lambda x: torch.arange(6).view(x[0].item(), -1)": ("[2, 5]", "[3, 2]"),
    "lambda x: torch.arange(6.).topk(x[0].item())[0]": ("[2, 5]", "[3, 2]"),
    "lambda x: x.sum().item() > 4": ("[2, 5]", "[1, 2]"),
    "lambda x: x.new_zeros(2) + torch.zeros(2)": ("[2., 5.]", "[1., 2.]"),
}
CHECKED = """
def checked(x):
    n = x[0].item()
    torch._check(n >= 0)
    torch._check(n <= 5)
    return torch.zeros(n) + x[1]
"""


def _exported(library, function, example):
    class M(library.nn.Module):
        def forward(self, x):
            return function(x)

    export = __import__(f"{library.__name__}.export", fromlist=["export"]).export
    return export(M(), (library.tensor(example),))


@pytest.mark.parametrize("text", PROGRAMS)
def test_other_values_give_what_pytorchs_program_gives(text):
    example, other = map(eval, PROGRAMS[text])
    results = []
    for library in (ftorch, torch):
        program = _exported(library, eval(text, {"torch": library}), example)
        value = program.module()(library.tensor(other))
        results.append(value.tolist() if isinstance(value, library.Tensor) else value)
    assert results[0] == results[1]


def _checked(library):
    scope = {"torch": library}
    exec(CHECKED, scope)
    return _exported(library, scope["checked"], [2, 5])


def test_checks_are_ranges_and_assertions():
    mine, theirs = _checked(ftorch), _checked(torch)
    assert str(mine.range_constraints) == str(theirs.range_constraints)
    assert str(mine.graph).replace("ftorch", "torch") == str(theirs.graph)
    for program, library in ((mine, ftorch), (theirs, torch)):
        assert program.module()(library.tensor([4, 1])).tolist() == [1.0] * 4
        with pytest.raises(RuntimeError, match="Runtime assertion failed for expression u0 <= 5"):
            program.module()(library.tensor([6, 1]))


def test_a_decision_by_a_number_is_refused():
    def decide(x):
        return x + 1 if x[0].item() > 3 else x

    for library in (ftorch, torch):
        with pytest.raises(Exception, match="Could not guard on data-dependent expression u0 > 3") as found:
            _exported(library, decide, [2, 5])
        assert type(found.value).__name__ == "GuardOnDataDependentSymNode"
