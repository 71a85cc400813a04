"""Programs run in both libraries: ``program(torch)`` with each of them, and whether they do the same."""

from __future__ import annotations

import re
import warnings

import torch as pt

import ftorch as ft

from .values import assert_same, plain

LIBRARIES = [ft, pt]


def outcome(function, *args, **kwargs):
    """(result, None) or (None, exception) of a call, warnings ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs), None
        except Exception as error:
            return None, error


def assert_same_outcome(mine, theirs, **options):
    """Both raise the same type of exception, or their results agree."""
    (a, mine_error), (b, their_error) = mine, theirs
    if their_error is None:
        if mine_error is not None:
            raise mine_error
        assert_same(a, b, **options)
    else:
        assert mine_error is not None, f"no {type(their_error).__name__}: {their_error}"
        assert type(mine_error).__name__ == type(their_error).__name__, (
            f"{type(mine_error).__name__} ({mine_error}) instead of "
            f"{type(their_error).__name__} ({their_error})"
        )


def both(function, **options):
    """Runs ``function(module)`` with ftorch and PyTorch; results or types of exceptions agree."""
    assert_same_outcome(outcome(function, ft), outcome(function, pt), **options)


def both_with_text(function):
    """Both libraries raise the same exception with the same text; gives the text."""
    (_, mine), (_, theirs) = outcome(function, ft), outcome(function, pt)
    assert theirs is not None, "PyTorch raises nothing"
    assert type(mine).__name__ == type(theirs).__name__, f"{mine!r} instead of {theirs!r}"
    assert str(mine) == str(theirs)
    return str(theirs)


def said(t, program, category=Warning):
    """(text of a program's result or exception, texts of its warnings) with one of the libraries."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            result = repr(program(t))
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
    return result, [str(w.message) for w in seen if issubclass(w.category, category)]


def assert_says_same(program):
    """A program's result, exception and warnings read the same with both libraries."""
    assert said(ft, program) == said(pt, program)


def neutral(value) -> str:
    """The text of a value without what differs between libraries and runs: the package's name, and addresses."""
    return re.sub("0x[0-9a-f]+", "0x", str(value)).replace("ftorch", "torch")


def unchanged(value):
    """For ``show`` of `shown`: results that compare with ``==`` themselves."""
    return value


def shown(t, program, show=repr, text=str, seed=None, ignored=Warning):
    """What a program gives with one of the libraries: ``show(result)``, or (the exception's type, its text).

    Args:
        show: what of a result is compared; `plain` for values of any containers.
        text: what of an exception is.
        seed: of the random generator, where the program draws.
        ignored: the category of warnings that may be given; None for those that the tests' settings ignore.
    """
    if seed is not None:
        t.manual_seed(seed)
    with warnings.catch_warnings():
        if ignored is not None:
            warnings.simplefilter("ignore", ignored)
        try:
            return show(program(t))
        except Exception as error:
            return type(error).__name__, text(error)


def shown_call(call, show=neutral, text=neutral, ignored=None):
    """What a call without arguments gives, as of `shown`: for programs that know their library."""
    return shown(None, lambda _: call(), show, text, ignored=ignored)


def assert_shows_same_values(program, **options):
    """As `assert_shows_same`, of results as numbers, names and containers (`plain`)."""
    return assert_shows_same(program, show=plain, **options)


def assert_shows_same(program, **options):
    """Raises AssertionError unless a program gives the same with both libraries (see `shown`); gives PyTorch's."""
    expected = shown(pt, program, **options)
    found = shown(ft, program, **options)
    assert found == expected
    return expected
