"""Numbers that become tensors of eight bits: what such a dtype cannot hold becomes the nearest that it can, as in `to`."""

import pytest

from tests.oracle import LIBRARIES

_MAKERS = {
    "tensor": lambda t, v, d: t.tensor([v], dtype=d), "scalar": lambda t, v, d: t.scalar_tensor(v, dtype=d),
    "full": lambda t, v, d: t.full((1,), v, dtype=d), "new_full": lambda t, v, d: t.ones(1, dtype=d).new_full((1,), v),
    "as_tensor": lambda t, v, d: t.as_tensor([v, 2.0], dtype=d),
    "new_tensor": lambda t, v, d: t.ones(1, dtype=d).new_tensor([v]),
    "zeros": lambda t, v, d: t.zeros(3, dtype=d), "zeros_like": lambda t, v, d: t.zeros_like(t.ones(2, dtype=d)),
    "new_zeros": lambda t, v, d: t.ones(2, dtype=d).new_zeros(2), "zero_": lambda t, v, d: t.ones(2, dtype=d).zero_(),
    "part": lambda t, v, d: t.ones(2, 2, dtype=d)[0].zero_(), "written": lambda t, v, d: _written(t, v, d),
    "where": lambda t, v, d: t.where(t.tensor([True, False]), t.ones(2, dtype=d), t.zeros(2, dtype=d)),
}


def _written(t, v, d):
    x = t.ones(2, dtype=d)
    x[0] = v
    return x


@pytest.mark.parametrize("dtype", ["float8_e8m0fnu", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("maker", _MAKERS)
@pytest.mark.parametrize("value", [0.0, -2.0, 1000.0, 1e6, float("inf")])
def test_constants(maker, dtype, value):
    def bits(t):
        return _MAKERS[maker](t, value, getattr(t, dtype)).view(t.uint8).tolist()

    try:
        expected = bits(LIBRARIES[1])
    except RuntimeError:  # that it overflows
        return
    assert bits(LIBRARIES[0]) == expected
