"""NumPy's numbers, and other subclasses of Python's, as arguments."""

from __future__ import annotations

import enum

import numpy as np
import pytest
import torch as reference

import ftorch


class Level(enum.IntEnum):
    TWO = 2


NUMBERS = [np.float64(2.5), np.float32(2.5), np.float16(2.5), np.int64(2), np.uint8(2), np.bool_(True), Level.TWO]
CALLS = {
    "full": lambda lib, x, n: lib.full((2,), n),
    "full with a dtype": lambda lib, x, n: lib.full((2,), n, dtype=lib.int64),
    "full_like": lambda lib, x, n: lib.full_like(x, n),
    "new_full": lambda lib, x, n: x.new_full((2,), n),
    "scalar_tensor": lambda lib, x, n: lib.scalar_tensor(n),
    "linspace": lambda lib, x, n: lib.linspace(n, n + n, 3),
    "logspace": lambda lib, x, n: lib.logspace(0, n, 3),
    "arange": lambda lib, x, n: lib.arange(n),
    "result_type": lambda lib, x, n: lib.zeros((), dtype=lib.result_type(lib.ones(2, dtype=lib.int32), n)),
    "add": lambda lib, x, n: lib.add(x, n),
    "clamp": lambda lib, x, n: x.clamp(n),
    "fill_": lambda lib, x, n: x.clone().fill_(n),
}


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: type(n).__name__)
@pytest.mark.parametrize("name", CALLS)
def test_numbers_of_subclasses(name, number):
    found = []
    for lib in (ftorch, reference):
        for _ in range(2):  # the second call takes the way of the first
            try:
                made = CALLS[name](lib, lib.ones(3), number)
                found.append((made.tolist(), str(made.dtype).partition(".")[2]))
            except (TypeError, RuntimeError) as error:
                found.append(type(error))
    assert found[:2] == found[2:]
