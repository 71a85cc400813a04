"""Indices out of range whose values are still being computed when the op is called."""

from __future__ import annotations

import pytest
import torch as pt

import ftorch as ft
from ftorch.eager.call import op as call_op
from ftorch.eager.runtime import value_checks

CALLS = {
    "index": lambda t, i: t.arange(5.0)[i],
    "index_put": lambda t, i: t.zeros(5).index_put((i,), t.tensor(1.0)),
    "embedding": lambda t, i: t.nn.functional.embedding(i, t.ones(3, 2)),
    "gather": lambda t, i: t.gather(t.ones(5), 0, i),
    "index_add": lambda t, i: t.zeros(5).index_add(0, i, t.ones(2)),
    "index_select": lambda t, i: t.ones(5).index_select(0, i),
    "cross_entropy": lambda t, i: t.nn.functional.cross_entropy(t.ones(2, 3), i),
}


def _expensive(t, count):
    """Indices that take too many elements to compute to have them at once."""
    return (t.tensor([9] * 5000) * 1)[:count]


@pytest.mark.parametrize("name", CALLS)
def test_raised_at_once_where_values_are_cheap(name):
    """A pending index of few elements is computed, so that the call itself raises, as in PyTorch."""
    for t in (pt, ft):
        with pytest.raises((IndexError, RuntimeError)) as raised:
            CALLS[name](t, t.ones(2, dtype=t.long) * 9)
        if t is pt:
            theirs = raised
    assert (raised.type, str(raised.value)) == (theirs.type, str(theirs.value))


@pytest.mark.parametrize("name", CALLS)
def test_raised_at_the_next_look(name):
    """The exception is PyTorch's; it names the line of the call, and the next look is free of it."""
    call = CALLS[name]
    with pytest.raises(Exception) as theirs:
        call(pt, pt.ones(2, dtype=pt.long) * 9)
    result = call(ft, _expensive(ft, 2))
    with pytest.raises(type(theirs.value)) as mine:
        result.sum().item()
    assert str(mine.value) == str(theirs.value)
    assert __file__ in mine.value.__notes__[0]
    assert ft.ones(1).item() == 1


def test_what_the_index_was_counts():
    """A later write to the index tensor changes nothing about the check."""
    i = (ft.tensor([2] * 5000) * 1)[:2]
    result = ft.arange(5.0)[i]
    i.fill_(9)
    assert result.tolist() == [2.0, 2.0]


def test_many_are_kept_in_bounds():
    """Without a look, the checks are made now and then."""
    i = _expensive(ft, 1)
    with pytest.raises(IndexError):
        for _ in range(1000):
            ft.arange(5.0)[i + 0]


CHANGES = {  # what changes an index after a call that it passed
    "a write": lambda t, i: i.fill_(9),
    "a write through a view": lambda t, i: i[1:].fill_(9),
    "NumPy": lambda t, i: i.numpy().fill(9),
    "other data": lambda t, i: i.set_(t.tensor([1, 9])),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", CALLS)
def test_an_index_that_passed_is_checked_when_it_changes(name, change):
    found = []
    for t in (pt, ft):
        i = t.tensor([1, 2])
        for _ in range(2):
            CALLS[name](t, i)
        CHANGES[change](t, i)
        with pytest.raises(Exception) as raised:
            CALLS[name](t, i).sum().item()
        found.append((raised.type, str(raised.value)))
    assert found[0] == found[1]


def test_another_part_of_an_index_that_passed_is_checked():
    index = ft.tensor([[1, 2], [3, 9]])
    for _ in range(2):
        assert ft.arange(5.0)[index[0]].tolist() == [1.0, 2.0]
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        ft.arange(5.0)[index[1]]


def test_integers_are_checked_only_where_some_do_not_fit():
    op = call_op.op_named("fill.Scalar")
    for dtype, checked in (("int64", False), ("int32", True), ("uint8", True), ("float64", False)):
        op.inplace_plans.clear()
        x = ft.zeros(3, dtype=getattr(ft, dtype))
        x.fill_(7)
        (plan,) = op.inplace_plans.values()
        assert (plan.checks is not None) == checked
    for t in (pt, ft):
        for target in (t.zeros(3, dtype=t.int64), t.zeros(1 << 17, dtype=t.int64)[:1]):
            with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without overflow"):
                target.fill_(1 << 63)


# What bounds decide: (call, index or divisor that passes, ones that do not).
BOUNDED = {
    "index": (lambda t, i: t.arange(10.0).reshape(5, 2)[i], [[0, 4, -5]], [[5], [-6], [0, 9]]),
    "indices": (lambda t, i: t.arange(10.0).reshape(5, 2)[i, t.tensor([1, -2])], [[3, -5]], [[5, 0], [0, -6]]),
    "embedding": (lambda t, i: t.nn.functional.embedding(i, t.ones(3, 2)), [[0, 2]], [[-1], [3]]),
    "index_select": (lambda t, i: t.arange(10.0).reshape(5, 2).index_select(1, i), [[1, 0]], [[2], [-1]]),
    "gather": (lambda t, i: t.arange(5.0).gather(0, i), [[0, 4]], [[5], [-1]]),
    "index_add": (lambda t, i: t.zeros(5).index_add(-1, i, t.ones(2)), [[0, 4]], [[5, 0], [-1, 0]]),
    "index_copy": (lambda t, i: t.zeros(5).index_copy(0, i, t.ones(2)), [[0, 4]], [[5, 0], [-1, 0]]),
    "divisor": (lambda t, i: t.tensor([7, -8]) // i, [3, -3, 2.5, 1 << 40], [0]),
    "divisor of a byte": (lambda t, i: t.tensor([7, 9], dtype=t.uint8) % i, [3, 127, 255], [0]),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_and_checks_agree(name):
    """Few values that are known are looked at in C; PyTorch says which pass, and what is said of the others."""
    call, right, wrong = BOUNDED[name]

    def error_of(t, value):
        given = t.tensor(value) if isinstance(value, list) else value
        try:
            return call(t, given).tolist()
        except (IndexError, RuntimeError) as error:
            return error.__class__, str(error)

    for value in (*right, *wrong, *right):
        for _ in range(3):  # the plan is known from the second on
            assert error_of(ft, value) == error_of(pt, value)


@pytest.mark.skipif(call_op.in_c is None, reason="without a compiler")
def test_few_known_indices_are_checked_without_python(monkeypatch):
    def calls(n):
        index = ft.tensor([n, 3])
        return x[index], x.gather(0, index), ft.nn.functional.embedding(index, table), x.long() // (n + 1)

    x, table = ft.arange(10.0), ft.ones(5, 2)
    calls(0)  # plans are made
    looked, given = [], value_checks._given
    monkeypatch.setattr(value_checks, "_given", lambda *values: looked.append(values) or given(*values))
    for n in range(5):
        calls(n)
    assert not looked


KNOWN = {  # indices whose bounds are known before they are computed, for `n` rows
    "argsort": lambda t, n: t.arange(float(n)).flip(0).argsort(),
    "sort": lambda t, n: t.arange(float(n)).sort(descending=True).indices,
    "topk": lambda t, n: t.arange(float(n)).topk(2).indices,
    "argmax": lambda t, n: t.arange(2.0 * n).reshape(2, n).argmax(1, keepdim=True),
    "argmin of all": lambda t, n: (-t.arange(float(n))).argmin(),
    "max": lambda t, n: t.arange(2.0 * n).reshape(n, 2).max(0).indices,
    "kthvalue": lambda t, n: t.arange(float(n)).kthvalue(n).indices,
    "median": lambda t, n: t.arange(float(n)).median(0).indices,
    "mode": lambda t, n: t.arange(float(n)).mode(0).indices,
    "arange": lambda t, n: t.arange(1, n, 2),
    "arange backwards": lambda t, n: t.arange(n - 1, -n - 1, -3),
    "a view": lambda t, n: t.arange(float(n)).argsort()[1:, None],
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("size", [8, 37])
def test_indices_within_known_bounds_are_not_computed_for_a_check(name, size, monkeypatch):
    rows = pt.arange(2.0 * size)
    monkeypatch.setattr(value_checks.trace_slice, "cheap_value_of", lambda *given: pytest.fail("it is computed"))
    assert ft.arange(2.0 * size)[KNOWN[name](ft, size)].tolist() == rows[KNOWN[name](pt, size)].tolist()


@pytest.mark.parametrize("name", KNOWN)
def test_indices_beyond_known_bounds_raise_as_in_pytorch(name):
    for size in (9, 10, 11, 40):
        found = []
        for t in (pt, ft):
            try:
                found.append(t.arange(9.0)[KNOWN[name](t, size)].tolist())
            except IndexError as error:
                found.append(str(error))
        assert found[0] == found[1]


def test_a_written_index_has_no_bounds_of_what_it_was():
    for t in (pt, ft):
        i = t.arange(4)
        i[1:].add_(7)
        with pytest.raises(IndexError, match="index 8 is out of bounds for dimension 0 with size 5"):
            t.arange(5.0)[i]
        i = t.arange(4).add_(7)
        with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 5"):
            t.arange(5.0)[i]


def test_bounds_say_nothing_of_sizes_but_the_sizes():
    n = value_checks.Extent(0, 1)
    assert (-n).key == (0, 1, -1)
    for use in (lambda: n - 1, lambda: n == 3, lambda: max(n, 1), lambda: bool(n), lambda: n * 2):
        with pytest.raises(TypeError):
            use()
