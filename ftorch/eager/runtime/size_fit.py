"""Formulas in symbolic sizes, found from their values at a few sample sizes.

A formula is Python source in the names ``s0, s1, ...``. It has to give the value seen at every sample point;
the points are far apart and of mixed residues (`size_classes`), so that no wrong formula passes by chance.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

_MAX_FACTORS = 4  # of a product of sizes
_MAX_DIVISOR = 16  # of a division with rounding down


class NoFormula(LookupError):
    """The values at the sample points follow no formula known here."""


def fit(values, points) -> str:
    """A formula with ``values[i]`` at ``points[i]``.

    Args:
        values: integers.
        points: of each sample the sizes, in the order of the symbols.

    Raises:
        NoFormula: there is none.

    >>> fit([9, 15, 51, 203], [(4,), (7,), (25,), (101,)])
    '2*s0+1'
    >>> fit([6, 35, 403, 4141], [(2, 3), (5, 7), (31, 13), (41, 101)])
    's0*s1'
    """
    first = values[0]
    if all(v == first for v in values):
        return repr(first)
    columns = list(zip(*points))
    for i, column in enumerate(columns):
        if all(v == c for v, c in zip(values, column)):
            return f"s{i}"
    names = [f"s{i}" for i in range(len(columns))]
    return _affine(values, columns, names) or _product(values, columns, names) or _rounded(values, columns, names)


def _affine(values, columns, names):
    """``a*s0 + b*s1 + c`` with integers, or None."""
    solution = _solve([[1, *row] for row in zip(*columns)], values)
    if solution is None or any(x.denominator != 1 for x in solution):
        return None
    constant, *slopes = map(int, solution)
    return _sum([(a, n) for a, n in zip(slopes, names) if a], constant)


def _sum(terms, constant):
    text = "+".join(n if a == 1 else f"{a}*{n}" for a, n in terms)
    if constant or not text:
        text += f"{constant:+d}" if text else str(constant)
    return text


def _solve(rows, values):
    """The exact solution of an overdetermined linear system, with 0 for what it does not decide; or None."""
    table = [[Fraction(x) for x in row] + [Fraction(v)] for row, v in zip(rows, values, strict=True)]
    width, at, pivots = len(rows[0]), 0, []
    for column in range(width):
        pivot = next((r for r in range(at, len(table)) if table[r][column]), None)
        if pivot is None:
            continue
        table[at], table[pivot] = table[pivot], table[at]
        head = table[at][column]
        table[at] = [x / head for x in table[at]]
        for r in range(len(table)):
            if r != at and table[r][column]:
                factor = table[r][column]
                table[r] = [x - factor * y for x, y in zip(table[r], table[at])]
        pivots.append(column)
        at += 1
    if any(row[-1] for row in table[at:]) or len(pivots) < width:
        return None
    return [table[pivots.index(c)][-1] for c in range(width)]


def _product(values, columns, names):
    """``c*s0*s1``, ``s0*s1//c`` where that divides, or either plus a constant; or None."""
    for count in range(2, _MAX_FACTORS + 1):
        for chosen in itertools.combinations_with_replacement(range(len(columns)), count):
            products = [math.prod(row) for row in zip(*(columns[i] for i in chosen))]
            found = _line(values, products)
            if found is not None:
                slope, constant = found
                text = "*".join(names[i] for i in chosen)
                if slope.denominator == 1:
                    text = text if slope == 1 else f"{slope.numerator}*{text}"
                else:
                    text = f"({slope.numerator}*{text})//{slope.denominator}"
                return f"{text}{constant:+d}" if constant else text
    return None


def _line(values, xs):
    """(slope, integer constant) of the line through all points, or None."""
    other = next((i for i, x in enumerate(xs) if x != xs[0]), None)
    if other is None:
        return None
    slope = Fraction(values[other] - values[0], xs[other] - xs[0])
    constant = values[0] - slope * xs[0]
    if not slope or constant.denominator != 1 or any(slope * x + constant != v for v, x in zip(values, xs)):
        return None
    return slope, int(constant)


def _rounded(values, columns, names):
    """``(a*s + b)//k + c`` or ``c + (s + b)%k`` of one symbol.

    Raises:
        NoFormula: there is none.
    """
    spans = [max(column) - min(column) for column in columns]
    for i, column in enumerate(columns):
        if not spans[i]:
            continue
        low, high = column.index(min(column)), column.index(max(column))
        # Rounding hides at most 1 of the difference, so that the slope is known to 1/span.
        for k in range(1, _MAX_DIVISOR + 1):
            a = round((values[high] - values[low]) * k / spans[i])
            if not a or math.gcd(a, k) != 1:
                continue
            for b in range(k):
                rest = {v - (a * s + b) // k for v, s in zip(values, column)}
                if len(rest) == 1:
                    inner = _sum([(a, names[i])], b)
                    constant = rest.pop()
                    return f"({inner})//{k}" + (f"{constant:+d}" if constant else "")
        # What is left over, as the padding of a strided convolution's gradient.
        for k in range(2, _MAX_DIVISOR + 1):
            for b, sign in itertools.product(range(k), (1, -1)):
                rest = {v - sign * ((s + b) % k) for v, s in zip(values, column)}
                if len(rest) == 1:
                    return f"{rest.pop()}{'-' if sign < 0 else '+'}({_sum([(1, names[i])], b)})%{k}"
    raise NoFormula
