"""Formulas of sizes, found from samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ftorch.eager.runtime.size_fit import Ambiguous, Formula, Merge, NoFormula, NotGeneral, fit

POINTS = [(7, 19), (12, 33), (31, 90), (64, 201), (150, 333), (97, 555)]


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: 12, lambda a, b: a, lambda a, b: 3 * b + 2, lambda a, b: a + b, lambda a, b: 2 * a - b + 1,
        lambda a, b: a * b, lambda a, b: 4 * a * b, lambda a, b: a * a * b, lambda a, b: (a - 3) // 2 + 1,
        lambda a, b: (b + 2 - 5) // 3 + 1, lambda a, b: -(-a // 4), lambda a, b: a * b * 2 + 5, lambda a, b: 3 - b % 4,
        lambda a, b: (a + 1) % 2, lambda a, b: (a - 2) * (b + 3), lambda a, b: b * (b - 1) // 2, lambda a, b: b - (b + 1) % 2,
        lambda a, b: a * a + 3 * a - 1,
    ],
)
def test_formulas_hold_elsewhere(function):
    points = list(POINTS)
    for _ in range(8):
        try:
            formula = fit([function(*p) for p in points], points)
            break
        except Ambiguous as several:
            i, point = several.symbol, points[0]
            points.append((*point[:i], next(several.values(point[i])), *point[i + 1 :]))
    for a, b in [(5, 6), (8, 1000), (1001, 13), (77, 78)]:
        assert eval(formula, {"s0": a, "s1": b}) == function(a, b), formula


@settings(deadline=None, max_examples=60)
@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(-9, 9))
def test_affine_formulas_are_exact(a, b, c):
    formula = fit([a * x + b * y + c for x, y in POINTS], POINTS)
    assert eval(formula, {"s0": 1234, "s1": 87}) == 1234 * a + 87 * b + c


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a loaded machine
@given(st.integers(2, 16), st.data())
def test_of_several_divisions_none_is_taken(k, data):
    """Those of rounding that fit at all points either are one function or are said to be several."""
    b = data.draw(st.integers(0, k - 1))
    points = [(n,) for n in data.draw(st.lists(st.integers(5, 700), min_size=6, max_size=9, unique=True))]
    try:
        formula = fit([(n + b) // k for (n,) in points], points)
    except Ambiguous as several:
        assert next(several.values(points[0][0])) > 0
    except NoFormula:
        raise AssertionError("the formula itself fits") from None
    else:
        near = {n for (at,) in points for n in range(max(at - 16, 1), at + 17)}
        if "//" in formula:
            assert all(eval(formula, {"s0": n}) == (n + b) // k for n in near)


def test_the_less_of_two_sizes_is_found_where_each_is():
    points = [(7, 19), (33, 12), (31, 90), (201, 64), (150, 333), (97, 55)]
    assert fit([min(p) for p in points], points) == "min(s0,s1)"


@pytest.mark.parametrize("shift", [0, -2, 3])
def test_the_less_of_sizes_with_constants_is_found(shift):
    points = [(7, 19), (33, 12), (31, 90), (201, 64), (150, 333), (97, 55), (12, 11)]
    formula = fit([min(a + shift, b) for a, b in points], points)
    for a, b in [(15, 14), (16, 14), (17, 14), (40, 39), (9, 900)]:
        assert eval(formula, {"s0": a, "s1": b}) == min(a + shift, b), formula


def test_a_size_that_stays_gives_no_constants():
    """4 of 8 elements from the fourth on: the greater of what precedes four from behind, and four, by chance."""
    points = [(17, 12, 4), (20, 9, 4), (32, 8, 4), (96, 74, 4), (277, 360, 4), (9, 25, 4)]
    assert fit([b - 4 for _, b, _ in points], points) in ("s1-4", "s1-1*s2", "-1*s2+s1", "s1+-1*s2")
    points = [(9, 26), (9, 20), (9, 8), (9, 74), (9, 360), (9, 8)]
    with pytest.raises((NoFormula, Ambiguous)):  # where rolling by 9 begins
        fit([(n - 9) % n for _, n in points], points)


def test_multiples_of_a_size_are_not_divided_by_one_that_stays():
    """Among the fractions by 296 is one that fits about any numbers that grow with a size, right between the samples or not."""
    points = [(n, 296) for n in (99, 6, 32, 96, 277, 206, 9, 72, 15, 16)]
    with pytest.raises((NoFormula, Ambiguous)):
        fit([(99 * n + 292) // 296 for n, _ in points], points)


def test_products_of_what_is_known_are_found():
    """The elements of windows in two dimensions, of which those along each were asked for before."""
    points = [(7, 19, 5), (12, 33, 6), (31, 90, 7), (64, 201, 12), (150, 333, 41), (97, 555, 30), (9, 14, 99)]
    merge = Merge(points)
    along = [[-(-p[i] // 5) for p in points] for i in (0, 1)]
    wanted = [a * b for a, b in zip(*along)]
    for each in along:
        merge._known[tuple(each)] = Formula(f"-(-s{along.index(each)}//5)")
    formula = merge.numbers(wanted)
    assert eval(formula.source, {"s0": 26, "s1": 51}) == 6 * 11


def test_what_follows_no_formula_is_said():
    with pytest.raises(NoFormula):
        fit([3, 5, 6, 8, 9, 11], [(p,) for p, _ in POINTS])  # about a logarithm


@pytest.mark.parametrize(
    "function",
    [lambda n: n / (n - 1), lambda n: (n - 1) / n, lambda n: 1 / n, lambda n: float(n), lambda n: n**-0.5],
)
def test_floats_are_found_where_rounding_hides_their_integers(function):
    """As float32 has them, of products up to some millions."""
    points = [(7, 19), (12, 330), (310, 900), (640, 2010), (1500, 3330), (97, 555)]
    values = [float(np.float32(function(6 * a * b))) for a, b in points]
    formula = Merge(points).floats(values, np.float32)
    for a, b in [(11, 13), (301, 47), (900, 901)]:
        assert np.float32(eval(formula.source, {"s0": a, "s1": b})) == np.float32(function(6 * a * b))


def test_floats_of_no_integers_are_said():
    points = [(7, 19), (12, 33), (31, 90), (64, 201)]
    with pytest.raises((NotGeneral, Ambiguous)):
        Merge(points).floats([0.3, 1000.7, -5.2, 17.1], np.float32)
