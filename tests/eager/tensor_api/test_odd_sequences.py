"""Tensors of lists that contain themselves, of sequences that do not keep what they promise; grids of devices."""

import pytest

from tests.oracle import assert_shows_same


def _itself():
    data = []
    data.append(data)
    return data


def _twice():
    data = []
    data += [data, data]
    return data


def _behind():
    data = [1]
    data.append(data)
    return data


class Sequence:
    def __init__(self, length, given, error):
        self.length, self.given, self.error = length, given, error

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index >= self.given:
            raise self.error
        return index


DATA = {
    "itself": _itself,
    "twice": _twice,
    "behind": _behind,
    "129": lambda: _nested(129),
    "TypeError": lambda: Sequence(3, 0, TypeError("mine")),
    "IndexError": lambda: Sequence(3, 0, IndexError("mine")),
    "RuntimeError": lambda: Sequence(3, 0, RuntimeError("mine")),
    "too short": lambda: Sequence(3, 2, IndexError("mine")),
    "right": lambda: Sequence(3, 3, IndexError()),
    "in a list": lambda: [Sequence(3, 3, IndexError())] * 2,
    "wrong in a list": lambda: [Sequence(3, 0, IndexError())] * 2,
}


def _nested(depth):
    data = 1.0
    for _ in range(depth):
        data = [data]
    return data


MAKERS = {
    "tensor": lambda t, data: t.tensor(data),
    "as_tensor": lambda t, data: t.as_tensor(data),
    "dtype": lambda t, data: t.tensor(data, dtype=t.float64),
    "Tensor": lambda t, data: t.Tensor(data),
    "new_tensor": lambda t, data: t.ones(1).new_tensor(data),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("data", DATA)
def test_data(data, maker):
    assert_shows_same(lambda t: MAKERS[maker](t, DATA[data]()).tolist())


def test_grids_of_one_device():
    assert_shows_same(
        lambda t: t.meshgrid(t.tensor([1]), t.tensor([2], device="meta"), indexing="ij")
    )


def test_the_storage_class_is_that_of_the_default_dtype():
    def program(t):
        names = [t.Storage.__name__]
        for dtype in (t.float64, t.float16, t.float32):
            t.set_default_dtype(dtype)
            names.append(t.Storage.__name__)
        return names

    assert len(set(assert_shows_same(program, show=lambda r: r))) == 3
