"""Small scripts print what they print with PyTorch: results, exceptions, graphs and code."""

import pytest

from tests.oracle import assert_prints_same, programs

PROGRAMS = programs(__file__)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs_print_the_same(number):
    assert_prints_same(PROGRAMS[number])
