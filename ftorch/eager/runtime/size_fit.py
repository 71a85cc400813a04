"""Symbolic shapes: formulas in sizes, found from their values at a few sample sizes; operands and parameters that have some.

A formula is Python source in the names ``s0, s1, ...``. It has to give the value seen at every sample point;
the points are far apart and of mixed residues (`size_classes`), so that no wrong formula of sums and products passes
by chance. Of divisions with rounding several may pass, which differ at a few sizes only: then a sample is wanted where
they do (`Ambiguous`).
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import math
import re
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..core import jaxprs

_MAX_FACTORS = 4  # of a product of sizes
_MAX_DIVISOR = 16  # of a division with rounding down
_MAX_HELD = 2048  # of one by a size that stays
_MOST_OF_HELD = 2  # of the multiples of a size that are divided so
_MOST_KNOWN = 64  # formulas that a number is tried as a product with


_LARGE_CONSTANT = 1 << 20  # bytes; larger constants of a kernel are not kept with its class


class NotGeneral(Exception):
    """The jaxprs differ by more than sizes, or have a step without a rule."""


class Formula(NamedTuple):
    """A number that depends on sizes: Python source in ``s0, s1, ...``."""

    source: str


class Constant(NamedTuple):
    """An operand that is the same at all sizes."""

    value: Any


class Number(NamedTuple):
    """An operand that is a formula of the sizes, as a scalar of a dtype."""

    formula: Formula
    dtype: Any


class NoFormula(LookupError):
    """The values at the sample points follow no formula known here."""


class Ambiguous(Exception):
    """Several formulas give the values at the sample points.

    Attributes:
        first: one of them; ``values_at``: what they give at the points.
        symbol: which size they differ in.
        most: (its value) -> how many of the formulas agree there at most.
        count: of the formulas.
        span: how far from any size there is one at which they differ.
    """

    values_at: tuple = ()

    def __init__(self, first, symbol, most, count, span):
        super().__init__(f"several formulas of s{symbol}")
        self.first, self.symbol, self.most, self.count, self.span = first, symbol, most, count, span

    def values(self, near):
        """Values near one at which the formulas differ, those first that tell most."""
        for step in (max(self.span // 32, 1), 1):  # many formulas differ at many values: a few are looked at first
            found = [(self.most(n), n) for n in range(max(near - self.span, 1), near + self.span + 1, step)]
            yield from [n for most, n in sorted(found) if most < self.count]


def fit(values, points) -> str:
    """A formula with ``values[i]`` at ``points[i]``.

    Args:
        values: integers.
        points: of each sample the sizes, in the order of the symbols.

    Raises:
        NoFormula: there is none.
        Ambiguous: there are several.

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
    return (
        _affine(values, columns, names) or _product(values, columns, names) or _extremum(values, columns)
        or _of_two(values, columns) or _rounded(values, columns)
    )


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
    """``c*s0*s1``, or that plus a constant; or None. Of a fraction of it, that is whole at all points, nobody knows how it is
    rounded elsewhere."""
    for count in range(2, _MAX_FACTORS + 1):
        for chosen in itertools.combinations_with_replacement(range(len(columns)), count):
            products = [math.prod(row) for row in zip(*(columns[i] for i in chosen))]
            found = _line(values, products)
            if found is not None and found[0].denominator == 1:
                slope, constant = found
                text = "*".join(names[i] for i in chosen)
                text = text if slope == 1 else f"{slope.numerator}*{text}"
                return f"{text}{constant:+d}" if constant else text
    return None


def _extremum(values, columns):
    """The less or greater of two sizes, each with a constant added, or None. Of two points each has to be the one that decides,
    if there are constants; to a size that stays nothing is added, since that would be any number."""
    for (i, one), (j, other) in itertools.combinations(enumerate(columns), 2):
        for name, choose, nearest in (("min", min, max), ("max", max, min)):
            a, b = (nearest([v - n for v, n in zip(values, column)]) for column in (one, other))
            pairs = [(n + a, m + b) for n, m in zip(one, other)]
            if any((shift and len(set(column)) == 1) for shift, column in ((a, one), (b, other))):
                continue
            if any(v != choose(pair) for v, pair in zip(values, pairs)):
                continue
            firsts = {(n, m) for n, m in pairs if choose(n, m) != m}
            seconds = {(n, m) for n, m in pairs if choose(n, m) != n}
            if min(len(firsts), len(seconds)) > (1 if a or b else 0):
                return f"{name}({_sum([(1, f's{i}')], a)},{_sum([(1, f's{j}')], b)})"
    return None


def _of_two(values, columns):
    """``(s0 + a)*(s1 + b)`` as a sum, of which there are integers of each, or ``s*(s + a)//2``; or None."""
    for (i, one), (j, other) in itertools.combinations_with_replacement(enumerate(columns), 2):
        rows = [[1, a, a * b] if i == j else [1, a, b, a * b] for a, b in zip(one, other)]
        if len(rows) < len(rows[0]) + 2 or (found := _solve(rows, values)) is None:
            continue
        *terms, product = found
        if all(x.denominator == 1 for x in found):
            names = [f"s{i}*s{j}", f"s{i}"] if i == j else [f"s{i}*s{j}", f"s{i}", f"s{j}"]
            slopes = map(int, (product, *terms[1:]))
            return _sum([(a, n) for a, n in zip(slopes, names) if a], int(terms[0]))
        twice = [2 * x for x in (product, *terms[1:])]
        if i == j and terms[0].denominator == 1 and all(x.denominator == 1 for x in twice) and sum(twice) % 2 == 0:
            text = _sum([(int(a), n) for a, n in zip(twice, [f"s{i}*s{i}", f"s{i}"]) if a], 0)
            return f"({text})//2{int(terms[0]):+d}"
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


def _rounded(values, columns):
    """``(a*s + b)//k + c`` or ``c + (s + b)%k`` of one symbol, or the former with another added or taken away.

    Raises:
        NoFormula: there is none.
        Ambiguous: there are several.
    """
    # A size that stays, as how far the windows of a spectrogram are apart, may be what others are divided by.
    held = sorted({c[0] for c in columns if len(set(c)) == 1 and _MAX_DIVISOR < c[0] <= _MAX_HELD})
    for i, column in enumerate(columns):
        for divisors in (range(1, _MAX_DIVISOR + 1), *([k] for k in held)):
            found = _divisions(values, column, divisors) or _remainders(values, column, divisors)
            if found:
                return _only(found, i, column, divisors[-1])
    # A size without what is left over: where the last step of a stride ends.
    for i, column in enumerate(columns):
        rest = [v - n for v, n in zip(values, column)]
        if found := _remainders(rest, column, range(2, _MAX_DIVISOR + 1)):
            return _only(found, i, column, _MAX_DIVISOR, f"+s{i}")
    # What a size and a division of another have between them, as the half of a spectrum and the signal that is wanted.
    for (i, column), (j, other), sign in itertools.product(enumerate(columns), enumerate(columns), (-1, 1)):
        rest = [v - sign * n for v, n in zip(values, other)]
        found = [] if i == j or len(set(rest)) == 1 else _divisions(rest, column, range(2, _MAX_DIVISOR + 1))
        if found:
            term = f"{'+' if sign > 0 else '-'}s{j}"
            return _only(found, i, column, _MAX_DIVISOR, term)
    raise NoFormula


def _divisions(values, column, divisors):
    """All ``(a*s + b)//k + c`` that fit, k being one of the divisors."""
    span = max(column) - min(column)
    low, high = column.index(min(column)), column.index(max(column))
    # Rounding hides at most 1 of the difference, so that the slope is known to 1/span.
    found = []
    for k in divisors if span else ():
        a = round((values[high] - values[low]) * k / span)
        # Of a size that stays and multiples of another there is a formula for about everything.
        if not a or math.gcd(a, k) != 1 or (k > _MAX_DIVISOR and abs(a) > _MOST_OF_HELD):
            continue
        for b in range(k):
            rest = {v - (a * s + b) // k for v, s in zip(values, column)}
            if len(rest) == 1:
                constant = rest.pop()
                found.append(f"({_sum([(a, 's')], b)})//{k}" + (f"{constant:+d}" if constant else ""))
    return found


def _remainders(values, column, divisors):
    """All ``c + (s + b)%k`` that fit: what is left over, as the padding of a strided convolution's gradient."""
    found = []
    for k in divisors:
        for b, sign in itertools.product(range(k), (1, -1)):
            rest = {v - sign * ((s + b) % k) for v, s in zip(values, column)}
            if len(rest) == 1:
                found.append(f"{rest.pop()}{'-' if sign < 0 else '+'}({_sum([(1, 's')], b)})%{k}")
    return found


def _only(found, symbol, column, span, term="") -> str:
    """The one formula among those of ``s`` that fit, of the symbol with a number.

    Args:
        column: the values of the symbol at the sample points; near them formulas are compared.
        span: how far from them.
        term: what comes behind.

    Raises:
        Ambiguous: they differ at some size.
    """
    first = found[0].replace("s", f"s{symbol}", 1) + term
    if len(found) > 1:
        evaluate = eval(f"lambda s: [{','.join(found)}]")  # noqa: S307  (formulas of this module's)
        agree = lambda n: max(collections.Counter(evaluate(n)).values())  # noqa: E731
        several = Ambiguous(first, symbol, agree, len(found), span)
        if any([next(several.values(n), None) is not None for n in column]):
            raise several
    return first


# --- operands and parameters of several traces


class Merge:
    """Merges numbers seen at the sample points into formulas.

    Args:
        same: numbers at the points whose several formulas (`Ambiguous`) agree at all sizes that there may be.
    """

    def __init__(self, points, same=()):
        self.points, self.same = points, same
        self._known: dict[tuple, Any] = {}

    def numbers(self, values):
        first = values[0]
        if all(v == first for v in values):
            return first
        found = self._known.get(key := tuple(values))
        if found is None:
            try:
                found = Formula(fit(values, self.points))
            except Ambiguous as several:
                if key not in self.same:
                    several.values_at = key
                    raise
                found = Formula(several.first)
            except NoFormula:
                found = self._of_known(values) or self._halvings(values)
            self._known[key] = found
        return found

    def _of_known(self, values):
        """A product of a formula that was found before and of another, or of one of `_affine`; or None."""
        columns = list(zip(*self.points))
        names = [f"s{i}" for i in range(len(columns))]
        for known, formula in list(self._known.items())[:_MOST_KNOWN]:
            if formula.__class__ is not Formula or not all(k and v % k == 0 for v, k in zip(values, known)):
                continue
            rest = tuple([v // k for v, k in zip(values, known)])
            other = self._known.get(rest)
            source = other.source if other.__class__ is Formula else _affine(rest, columns, names)
            if source is not None:
                return Formula(f"({formula.source})*({source})")
        return None

    def _halvings(self, values):
        """How often a size can be halved: the steps of a binary search."""
        for i in range(len(self.points[0])):
            column = [p[i] for p in self.points]
            found = [
                f"(s{shift:+d}).bit_length()" for shift in (0, -1, 1)
                if all(v == (s + shift).bit_length() for v, s in zip(values, column, strict=True))
            ]
            if found:
                return Formula(_only(found, i, column, max(column)))
        raise NotGeneral(f"no formula for {values} at {self.points}") from None

    def params(self, values):
        """A template of a parameter: itself where all are equal, with formulas in the places of integers."""
        first = values[0]
        kind = first.__class__
        if any(v.__class__ is not kind for v in values):
            raise NotGeneral(f"parameters {values}")
        if kind is int or isinstance(first, np.integer):
            return self.numbers([int(v) for v in values])
        if kind is float and any(repr(v) != repr(first) for v in values):
            return self.floats(values)
        if kind is float:
            return first
        if kind is tuple or kind is list:
            if any(len(v) != len(first) for v in values):
                raise NotGeneral(f"parameters {values}")
            return tuple(self.params(list(items)) for items in zip(*values))
        if kind is np.ndarray:
            if all(v.shape == first.shape and v.dtype == first.dtype and np.array_equal(v, first) for v in values):
                return first
            raise NotGeneral("arrays among parameters")
        if isinstance(first, tuple) and hasattr(first, "_fields") and not isinstance(first, Formula):
            return kind(*(self.params(list(items)) for items in zip(*values)))
        if not all(v is first or v == first or jaxprs.is_same(v, first) for v in values):
            raise NotGeneral(f"parameters {values}")
        return first

    def operand(self, values):
        first = values[0]
        if first.__class__ is int:
            if any(v != first for v in values):
                raise NotGeneral("the steps read other values")
            return first
        if any(v.__class__ is not Constant for v in values):
            raise NotGeneral("the steps read other values")
        arrays = [v.value for v in values]
        shape, dtype = np.shape(arrays[0]), np.asarray(arrays[0]).dtype
        if any(np.shape(a) != shape for a in arrays):
            raise NotGeneral("constants of other shapes")
        if shape == ():
            return self._scalar(arrays, dtype)
        if arrays[0].nbytes > _LARGE_CONSTANT or not all(
            a is arrays[0] or np.array_equal(a, arrays[0]) for a in arrays
        ):
            raise NotGeneral("constants that differ")
        return Constant(np.asarray(arrays[0]))

    def _scalar(self, arrays, dtype):
        values = [a.item() if dtype.kind in "biufc" else a for a in map(np.asarray, arrays)]
        first = values[0]
        if all(a.tobytes() == np.asarray(arrays[0]).tobytes() for a in map(np.asarray, arrays)):
            return Constant(np.asarray(arrays[0])[()])
        if dtype.kind in "iu":
            return Number(self.numbers(values), dtype)
        if dtype.kind == "f":
            return Number(self.floats(values, dtype.type), dtype)
        raise NotGeneral(f"constants {first} ... that follow no formula")

    def floats(self, values, rounded=float):
        """A formula of floats: what is made of a formula of integers in one of the ways of `_FLOATS`."""
        for back, source in _FLOATS:
            with contextlib.suppress(ZeroDivisionError, OverflowError, ValueError, NotGeneral):
                whole = self.numbers([round(back(v)) for v in values])
                of = whole.source if whole.__class__ is Formula else repr(whole)
                if self._are(values, formula := source.replace("n", f"({of})"), rounded):
                    return Formula(formula)
        for (
            back,
            source,
        ) in _FLOATS:  # where rounding has hidden the integers: multiples of products
            with contextlib.suppress(ZeroDivisionError, OverflowError, ValueError):
                for of in self._multiples(back, values):
                    if self._are(values, formula := source.replace("n", f"({of})"), rounded):
                        return Formula(formula)
        raise NotGeneral(f"no formula for {values}")

    def _are(self, values, formula, rounded):
        """Whether a formula gives values at the points."""
        evaluate = function_of_sizes(len(self.points[0]), formula)
        return all(
            rounded(evaluate(p)) == rounded(v) for p, v in zip(self.points, values, strict=True)
        )

    def _multiples(self, back, values):
        """The products of sizes, with what they are multiplied by and what is added to give a value where it is least."""
        symbols = range(len(self.points[0]))
        for count in range(1, _MAX_FACTORS + 1):
            for chosen in itertools.combinations_with_replacement(symbols, count):
                products = [math.prod([p[i] for i in chosen]) for p in self.points]
                at = products.index(min(products))
                whole = round(back(values[at]))
                if (factor := round(whole / products[at])) > 0:
                    text = "*".join([repr(factor), *[f"s{i}" for i in chosen]])
                    yield text + (f"{rest:+d}" if (rest := whole - factor * products[at]) else "")


# (from a float to the integer that it is made of, Python source of the way back).
_FLOATS = (
    (lambda v: v, "float(n)"),
    (lambda v: 1 / v, "1.0/n"),
    (lambda v: v * v, "n**0.5"),
    (lambda v: 1 / v**2, "1.0/n**0.5"),
    (lambda v: 1 / v**2, "n**-0.5"),
    (lambda v: v**4, "n**0.25"),
    (lambda v: v**-4, "1.0/n**0.25"),
    (lambda v: v**-4, "n**-0.25"),
    (lambda v: v / (v - 1), "n/(n-1)"),
    (lambda v: 1 / (1 - v), "(n-1)/n"),
    (lambda v: 2 * v, "n/2.0"),
    (lambda v: 2 / v, "2.0/n"),
    (lambda v: v * 2**23, "n*2.0**-23"),  # of what float32 and float64 tell apart
    (lambda v: v * 2**52, "n*2.0**-52"),
)


def places_of(shapes):
    """Shapes where each size is one of the symbols, ``-1 - n`` for the ``n``-th, or stays; None where one is another formula.

    Sizes of 0 are for the kernel to say.
    """
    found = []
    for shape in shapes:
        sizes = [
            -1 - int(n.source[1:]) if n.__class__ is Formula and re.fullmatch(r"s\d+", n.source) else n for n in shape
        ]
        if not all([n.__class__ is int and n for n in sizes]):
            return None
        found.append(tuple(sizes))
    return tuple(found)


def function_of_sizes(symbols, source, scope=None):
    """A function of the sizes (one sequence) that gives an expression's value."""
    names = "".join(f"s{i}," for i in range(symbols))
    unpack = f" {names} = s\n" if symbols else ""
    scope = {} if scope is None else dict(scope)
    exec(compile(f"def evaluate(s):\n{unpack} return {source}\n", "<ftorch host tier>", "exec"), scope)  # noqa: S102
    return scope["evaluate"]
