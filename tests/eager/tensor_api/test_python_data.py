"""What ``tensor(data)`` makes of nested Python data, and what it refuses: as PyTorch, element by element."""

import numpy as np
import pytest

from tests.oracle import assert_shows_same


class Sequence:
    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i > 1:
            raise IndexError
        return i


DATA = {
    "deeper": lambda t: [1, [2]], "flatter": lambda t: [[1], 2], "ragged": lambda t: [[1, 2], [3]],
    "string": lambda t: [1, "a"], "none": lambda t: [None], "many": lambda t: [t.ones(2), 1],
    "many alone": lambda t: [[t.ones(2)]], "empty": lambda t: [[], 1], "empty later": lambda t: [1, []],
    "empties": lambda t: [[], [1]], "float": lambda t: [1.5, [2]], "bool": lambda t: [True, [True]],
    "complex": lambda t: [1j, 2.0], "tuple": lambda t: [1, (2,)], "dict": lambda t: [1, {}],
    "float, string": lambda t: [1.0, "a"], "strings": lambda t: ["a"], "nested none": lambda t: [[1], [None]],
    "scalar tensor": lambda t: [t.ones(()), 2], "row of a tensor": lambda t: [[1, 2], t.ones(2)],
    "row of integers": lambda t: [[1, 2], t.ones(2, dtype=t.int64)], "set": lambda t: [[1, 2], {3, 4}],
    "range": lambda t: [[1, 2], range(2)], "own": lambda t: [Sequence(), [1, 2]],
    "array": lambda t: [[1, 2], np.ones(2)], "bytes": lambda t: b"ab", "large": lambda t: [[1], [2**70]],
    "dictionary": lambda t: {1: 2}, "narrow": lambda t: [[np.float32(1)], [2]],
    "integers": lambda t: [np.int8(1), True], "deep": lambda t: [[[1], [2]], [[3], 4]],
}


@pytest.mark.parametrize("dtype", [None, "int32", "float32", "bool"])
@pytest.mark.parametrize("name", DATA)
def test_nested_data(name, dtype):
    def program(t):
        made = t.tensor(DATA[name](t), **({} if dtype is None else {"dtype": getattr(t, dtype)}))
        return made

    assert_shows_same(program)
