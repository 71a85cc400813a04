"""What errors of TorchScript's compiler mark of statements that it does not know, as in PyTorch."""

from __future__ import annotations

import warnings

import pytest
import torch as pt

import ftorch as ft


def generator(x):
    yield x


def guarded(x):
    try:
        return x
    except ValueError:
        return x


def shared(x):
    global _something
    _something = x
    return x


def nameless(x):
    g = lambda y: y + 1  # noqa: E731
    return g(x)


def importing(x):
    import math  # noqa: F401

    return x


def classed(x):
    class Inner:
        pass

    return x


def several(x, *rest):
    return x


def named(x, **options):
    return x


def a_set(x):
    s = {1, 2}  # noqa: F841
    return x


def message(library, function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as caught:
            library.jit.script(function)
    return type(caught.value).__name__, str(caught.value)


@pytest.mark.parametrize(
    "function",
    [generator, guarded, shared, nameless, importing, classed, several, named, a_set],
    ids=lambda f: f.__name__,
)
def test_marked_places(function):
    assert message(ft, function) == message(pt, function)


def one_branch(x):
    if x.sum() > 0:
        y = 1
    return y


def two_types(x):
    if x.sum() > 0:
        y = 1
    else:
        y = "a"
    return y


def either(x: int):
    return x if x > 0 else "a"


@pytest.mark.parametrize("function", [one_branch, two_types, either], ids=lambda f: f.__name__)
def test_marked_branches(function):
    assert message(ft, function) == message(pt, function)
