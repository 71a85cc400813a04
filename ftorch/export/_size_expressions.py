"""Expressions in symbolic sizes that give the numbers that were seen."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from ..fx.experimental.symbolic_shapes import Expr


def fit(numbers, symbols: dict[str, list[int]]) -> Expr | None:
    """An expression in the symbols that has the given value in every trace, or None.

    >>> from ftorch.export._size_expressions import fit
    >>> print(fit([5, 7, 11], {"s0": [2, 3, 5]}), fit([6, 20, 42], {"s0": [2, 4, 6], "s1": [3, 5, 7]}))
    2*s0 + 1 s0*s1
    """
    if len(set(numbers)) == 1:
        return Expr.of(numbers[0])
    names = list(symbols)
    terms = [(Expr.symbol(n), symbols[n]) for n in names]
    for count in (2, 3):
        for chosen in itertools.combinations_with_replacement(names, count):
            expr = Expr.symbol(chosen[0])
            for name in chosen[1:]:
                expr = expr * Expr.symbol(name)
            terms.append((expr, [math.prod(v) for v in zip(*(symbols[n] for n in chosen))]))
    for expr, values in terms:
        found = _affine(numbers, expr, values)
        if found is not None:
            return found
    for (left, a), (right, b) in itertools.combinations(terms[: len(names)], 2):
        for p, q in itertools.product((1, 2, 3, -1), repeat=2):
            rest = {v - p * x - q * y for v, x, y in zip(numbers, a, b)}
            if len(rest) == 1:
                return left * p + right * q + rest.pop()
    return None


def _affine(numbers, expr, values):
    other = next((i for i, v in enumerate(values) if v != values[0]), None)
    if other is None:
        return None
    slope = Fraction(numbers[other] - numbers[0], values[other] - values[0])
    offset = numbers[0] - slope * values[0]
    if slope == 0 or any(slope * v + offset != n for v, n in zip(values, numbers)):
        return None
    denominator = math.lcm(slope.denominator, offset.denominator)
    if denominator != 1:
        return None  # that is `fit_floor`'s
    top = expr * int(slope * denominator)
    shift = int(offset * denominator)
    top = top + shift if shift >= 0 else top - -shift
    return top


def fit_floor(numbers, symbols) -> Expr | None:
    """``(s + c)//k + d``, or None."""
    for name, values in symbols.items():
        for k in range(2, 9):
            for c in range(-k, k + 1):
                rest = {n - (v + c) // k for n, v in zip(numbers, values)}
                if len(rest) == 1 and abs(d := rest.pop()) <= 2:
                    expr = Expr.symbol(name)
                    expr = expr + c if c >= 0 else expr - -c
                    expr = expr // k
                    return expr + d if d >= 0 else expr - -d
    return None


__all__ = ["fit", "fit_floor"]
