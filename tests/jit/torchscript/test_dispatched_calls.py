"""Calls in scripts that mean one of several functions: ``torch.unique``; constructors of sparse tensors."""

import io

import pytest
import torch as pt

import ftorch as ft
from tests.jit import dispatched_calls
from tests.jit.both import of_ftorch

MINE = of_ftorch("dispatched_calls")


def _told(results):
    results = results if isinstance(results, tuple) else (results,)
    return [(r.tolist(), str(r.dtype)) if hasattr(r, "tolist") else r for r in results]


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", [f.__name__ for f in dispatched_calls.FUNCTIONS])
def test_results_and_signatures(name):
    expected, found = pt.jit.script(getattr(dispatched_calls, name)), ft.jit.script(getattr(MINE, name))
    assert str(found.schema) == str(expected.schema)
    file = io.BytesIO()
    ft.jit.save(found, file)
    file.seek(0)
    numbers = [1, 1, 3, 2, 2, 1]
    for program in (found, ft.jit.load(file)):
        assert _told(program(ft.tensor(numbers))) == _told(expected(pt.tensor(numbers)))


@pytest.mark.parametrize("name", [f.__name__ for f in dispatched_calls.REFUSED])
def test_refusals(name):
    with pytest.raises(RuntimeError) as expected:
        pt.jit.script(getattr(dispatched_calls, name))
    with pytest.raises(RuntimeError) as found:
        ft.jit.script(getattr(MINE, name))
    assert str(found.value).splitlines()[:2] == str(expected.value).splitlines()[:2]


@pytest.mark.parametrize("name", ["sizes", "tuples_behind_lists"])
def test_printed_programs(name):
    """A tuple that is compared with a list, or added to one, is taken apart and is a list in the program."""
    expected, found = pt.jit.script(getattr(dispatched_calls, name)), ft.jit.script(getattr(MINE, name))
    assert found.code == expected.code
