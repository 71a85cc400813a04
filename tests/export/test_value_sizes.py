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
        for made in (program, _exported(library, program.module(), example)):  # and of the exported program again
            value = made.module()(library.tensor(other))
            results.append(value.tolist() if isinstance(value, library.Tensor) else value)
    assert results[:2] == results[2:]


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


# Of a number of the program, and of integers as well as of floats.
COMPUTED = [
    "abs({n})", "-{n}", "{n} % 4 + 2", "{n} ** 2 - {n} * 7 + 5", "{n} / 2", "{n} // 2", "10 - {n}", "round({n})",
]


@pytest.mark.parametrize("text", COMPUTED)
def test_what_is_computed_of_a_number_holds_for_all_numbers(text, tmp_path):
    program = f"lambda x: x * ({text.format(n='x[1].item()')})"
    for example, others in (([2, 3], ([2, -5], [1, 0], [3, 12])), ([2.5, 3.5], ([2.5, -5.25], [1.0, 9.0]))):
        made, wanted = (_exported(lib, eval(program, {"torch": lib}), example) for lib in (ftorch, torch))
        path = str(tmp_path / "program.pt2")
        ftorch.export.save(made, path)
        loaded = ftorch.export.load(path)
        for other in others:
            expected = wanted.module()(torch.tensor(other)).tolist()
            assert made.module()(ftorch.tensor(other)).tolist() == expected
            assert loaded.module()(ftorch.tensor(other)).tolist() == expected


FILES = [
    "lambda x: x[x > 0].shape[0]", "lambda x: torch.zeros(x[0].long().item()).sum() + x", "lambda x: x * x[0].item() * 2",
    "lambda x: x * (x[1].long().item() / 2)", "lambda x: torch.arange(x[x > 0].shape[0] + 1) * x[1].item()",
]


@pytest.mark.parametrize("text", FILES)
def test_files_keep_the_numbers(text, tmp_path):
    path, other = str(tmp_path / "program.pt2"), [1.0, -1.0, 3.0]
    wanted = eval(text, {"torch": torch})(torch.tensor(other))
    wanted = wanted.tolist() if isinstance(wanted, torch.Tensor) else wanted
    for writer, readers in ((ftorch, (ftorch, torch)), (torch, (ftorch,))):
        program = _exported(writer, eval(text, {"torch": writer}), [2.0, -3.0, 1.0])
        __import__(f"{writer.__name__}.export")
        writer.export.save(program, path)
        for reader in readers:
            value = reader.export.load(path).module()(reader.tensor(other))
            assert (value.tolist() if isinstance(value, reader.Tensor) else value) == wanted
    loaded = ftorch.export.load(path)
    assert str(loaded.range_constraints).count("VR") == len(loaded.range_constraints)


UNDECIDED = [
    "1 if int(x[0]) < 1000 else 2", "1 if int(x[0].item()) < 1000 else 2", "1 if float(x[0].item()) < 1000 else 2",
    "1 if x[0].item() else 2", "1 if not x[0].item() else 2", "1 if x[0] else 2", "1 if len(x[x > 2]) < 1000 else 2",
    "1 if x[x > 2].shape[0] else 2", "1 if x[x > 2].nelement() < 5 else 2", "1 if (x[x > 2] * 2).shape[0] < 5 else 2",
    "1 if torch.cat([x[x > 2], x]).size(0) < 10 else 2", "1 if torch.zeros(x[x > 2].shape[0]).shape[0] < 5 else 2",
    "1 if torch.arange(x[0].item()).shape[0] < 50 else 2", "1 if x[: x[0].item()].shape[0] < 6 else 2",
    "1 if torch.numel(x[x > 2]) < 5 else 2", "1 if torch.is_same_size(x[x > 2], x[x < 2]) else 2",
    "1 if x[x > 2].is_same_size(x) else 2",
    "sum(t.sum() for t in x[x > 0].chunk(2))", "sum(t.sum() for t in x[x > 0].split(1))", "sum(x[x > 0].unbind())",
]


@pytest.mark.parametrize("text", UNDECIDED)
def test_branches_that_values_decide_are_refused(text):
    for library in (ftorch, torch):
        function = eval(f"lambda x: x * ({text})", {"torch": library})
        with pytest.raises(RuntimeError, match="data-dependent expression") as error:
            _exported(library, function, [3, 1, 4, 1, 5, 6])
        assert type(error.value).__name__ == "GuardOnDataDependentSymNode"


def test_calls_after_an_export_know_nothing_of_its_numbers():
    def function(x):
        k = x[0].item()
        y = ftorch.arange(6.0)
        return y.narrow(0, 0, k), y.topk(k)[0], ftorch.zeros(k, 2), y.view(k, -1).sum(0)

    x = ftorch.tensor([3, 1])
    _exported(ftorch, function, [3, 1])
    results = function(x)  # raised that a guard is undecided
    assert {type(n) for t in results for n in (*t.shape, *t.stride(), t.numel())} == {int}
    assert str(results[0].shape) == "torch.Size([3])"
