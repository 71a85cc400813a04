"""Functions of one number of 16 bits become tables of their values: the same bits as computed ones."""

import numpy as np
import pytest
import torch as oracle

import ftorch as torch
from ftorch.eager.native import available

pytestmark = pytest.mark.skipif(not available, reason="without a compiler")
RUNS = 8  # a table is made after some of them

FUNCTIONS = {
    "gelu": lambda lib, x: lib.nn.functional.gelu(x),
    "exp": lambda lib, x: x.exp(),
    "several": lambda lib, x: (x.tanh() * 0.5).sigmoid(),
    "softplus": lambda lib, x: lib.nn.functional.softplus(x),
}


def all_numbers(lib, dtype):
    return lib.arange(-(1 << 15), 1 << 15, dtype=lib.int16).view(getattr(lib, dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_tables_have_the_bits_that_are_computed(name, dtype):
    """Of all numbers, whatever shape and strides: seen from the outside nothing changes."""
    x = all_numbers(torch, dtype)
    first = FUNCTIONS[name](torch, x).view(torch.int16).numpy().copy()
    for _ in range(RUNS):
        np.testing.assert_array_equal(FUNCTIONS[name](torch, x).view(torch.int16).numpy(), first)
    turned = FUNCTIONS[name](torch, x.view(256, 256).t()).t().reshape(-1)
    np.testing.assert_array_equal(turned.view(torch.int16).numpy(), first)
    few = FUNCTIONS[name](torch, x[1000:1007]).view(torch.int16).numpy()
    np.testing.assert_array_equal(few, first[1000:1007])
    mine = torch.from_numpy(first).view(getattr(torch, dtype)).float()[x.abs() < 1e4].numpy()
    y = all_numbers(oracle, dtype)
    np.testing.assert_allclose(
        mine, FUNCTIONS[name](oracle, y).float()[y.abs() < 1e4].numpy(), 1e-2, 1e-6
    )


def test_what_has_a_second_operand_is_computed():
    """A number that changes is no part of the function that the table holds."""
    x = all_numbers(torch, "bfloat16")
    for factor in (0.5, 2.0, -1.0):
        for _ in range(RUNS):
            y = (x * factor).tanh()
        np.testing.assert_allclose(
            y.float().numpy(),
            (all_numbers(oracle, "bfloat16") * factor).tanh().float().numpy(),
            1e-2,
            1e-7,
        )
