"""Infinities of whole numbers: PyTorch's arithmetic, and no trace of them in sympy's registry."""

import copy
import itertools
import operator
import pickle

import pytest
import sympy
from torch.utils._sympy import numbers as pytorchs
from torch.utils._sympy import value_ranges as pytorchs_ranges

from ftorch.utils._sympy import numbers, value_ranges

BINARY = [operator.eq, operator.lt, operator.le, operator.gt, operator.ge, operator.add, operator.sub,
          operator.mul, operator.truediv, operator.floordiv, sympy.Max, sympy.Min]
UNARY = [abs, str, repr, float, bool, operator.neg, lambda x: x**2, lambda x: x**3, lambda x: x**-1] + [
    lambda x, name=name: getattr(x, name)
    for name in ("is_integer", "is_infinite", "is_finite", "is_positive", "is_negative", "is_real", "is_number")
]


def table(int_oo):
    values = [int_oo, -int_oo, sympy.oo, -sympy.oo, sympy.Integer(0), sympy.Integer(3), sympy.Integer(-2)]
    values += [sympy.Float(2.5), sympy.Symbol("x")]
    found = []
    for (a, b), f in itertools.product(itertools.product(values, values), BINARY):
        if int_oo in (a, b) or -int_oo in (a, b):
            found.append((f.__name__, str(a), str(b), str(f(a, b))))
    return found + [str(f(x)) for f in UNARY for x in (int_oo, -int_oo)]


def test_arithmetic_is_pytorchs():
    assert table(numbers.int_oo) == table(pytorchs.int_oo)


def test_the_registry_of_sympy_is_left_alone():
    assert sympy.S.IntInfinity is pytorchs.int_oo and -pytorchs.int_oo is sympy.S.NegativeIntInfinity
    assert numbers.int_oo != pytorchs.int_oo and type(-(-numbers.int_oo)) is numbers.IntInfinity


@pytest.mark.parametrize("value", [numbers.int_oo, -numbers.int_oo])
def test_there_is_one_instance(value):
    assert pickle.loads(pickle.dumps(value)) is copy.deepcopy(value) is type(value)() is value


def test_ranges_are_pytorchs():
    def facts(kind, n):
        ranges = [kind(0, n), kind(2, n) & kind(0, 40), kind(2, 5) | kind(7, n), kind.unknown_int()]
        return [
            (str(r.lower), str(r.upper), r.is_int, r.is_singleton(), 5 in r, -5 in r, r.issubset(kind(0, n)))
            for r in ranges
        ]

    assert facts(value_ranges.ValueRanges, numbers.int_oo) == facts(
        pytorchs_ranges.ValueRanges, pytorchs.int_oo
    )
