"""Sobol sequences are PyTorch's, scrambled ones as well."""

import pytest

from tests.oracle import both, both_with_text

STEPS = [
    lambda m, e: e.draw(), lambda m, e: e.draw(5), lambda m, e: e.fast_forward(13).draw(3),
    lambda m, e: e.reset().fast_forward(1).draw(4), lambda m, e: e.reset().draw_base2(3),
    lambda m, e: e.draw_base2(2), lambda m, e: e.draw(2, out=m.empty(2, e.dimension)),
    lambda m, e: e.draw(3, dtype=m.float64),
]


@pytest.mark.parametrize("dimension", [1, 2, 60])
@pytest.mark.parametrize("scramble, seed", [(False, None), (True, 5), (True, None)])
def test_points(dimension, scramble, seed):
    made = {}

    def engine(m):
        m.manual_seed(3)
        made[m] = m.quasirandom.SobolEngine(dimension, scramble, seed)
        return repr(made[m]), made[m].sobolstate, made[m].shift

    both(engine)
    for step in STEPS:
        both(lambda m, step=step: (step(m, made[m]), made[m].num_generated, made[m].quasi))


def test_errors():
    both_with_text(lambda m: m.quasirandom.SobolEngine(0))
    both_with_text(lambda m: m.quasirandom.SobolEngine(2).fast_forward(3).draw_base2(2))
