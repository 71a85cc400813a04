"""Named results of ops in scripts: a variable holds them, and their names are attributes."""

import pytest
import torch as pt

import ftorch as ft
from tests.oracle import assert_same


def by_keyword(x):
    r = x.max(dim=0)
    return r.values, r.indices


def by_position(x):
    r = x.max(0)
    return r.values, r[1]


def of_a_function(x):
    r = x.sort(dim=1, descending=True)
    s = x.topk(2)
    return r.values, s.indices


def computed_with(x):
    r = x.median(0)
    y = r.values + 1
    if bool(y.sum() > 0):
        return y, r.indices
    return r.values, r.indices


def of_another_tensor(x):
    r = x.max(other=x * 2 - 3)
    return r.sum(), r


def least(x):
    r = x.aminmax()
    return r.min, r.max


@pytest.mark.parametrize(
    "function", [by_keyword, by_position, of_a_function, computed_with, of_another_tensor, least]
)
def test_names(function):
    mine, theirs = (t.jit.script(function)(t.arange(6.0).reshape(2, 3)) for t in (ft, pt))
    for a, b in zip(mine, theirs, strict=True):
        assert_same(a, b)
