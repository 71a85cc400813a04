"""``torch.testing``: the same verdicts and texts as PyTorch's."""


import numpy as np
import pytest

from tests.oracle import assert_shows_same

nan, inf = float("nan"), float("inf")


def without_path(error):
    return str(error).replace("ftorch.eager.tensor", "torch")


PAIRS = [
    lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.0])),
    lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.5])),
    lambda t: (t.tensor([1.0, 2.0]), t.tensor([1.0, 2.0 + 1e-6])),
    lambda t: (t.tensor([[1.0, 2.0], [3.0, 0.0]]), t.tensor([[1.0, 2.5], [4.0, 1.0]])),
    lambda t: (t.tensor([1, 2, 3]), t.tensor([1, 5, 3])),
    lambda t: (t.tensor([1, 2]), t.tensor([0, 2])),
    lambda t: (t.tensor([True, False]), t.tensor([True, True])),
    lambda t: (t.tensor(1.0), t.tensor(2.0)),
    lambda t: (t.tensor(3), t.tensor(4)),
    lambda t: (t.tensor([1 + 2j]), t.tensor([1 + 3j])),
    lambda t: (t.tensor([1.0]).half(), t.tensor([1.01]).half()),
    lambda t: (t.tensor([1.0, 2.0]).bfloat16(), t.tensor([1.0, 3.0]).bfloat16()),
    lambda t: (t.tensor([1.0]), t.tensor([1.0]).double()),
    lambda t: (t.ones(2), t.ones(3)),
    lambda t: (t.tensor([nan]), t.tensor([nan])),
    lambda t: (t.tensor([inf, 1.0]), t.tensor([inf, 2.0])),
    lambda t: (t.tensor([inf]), t.tensor([-inf])),
    lambda t: (1.0, 1.0 + 1e-9), lambda t: (1.0, 2.0), lambda t: (1, 2), lambda t: (1, 1.0),
    lambda t: (0.0, 1.0), lambda t: (1.0, 0.0), lambda t: (1j, 2j), lambda t: (nan, nan),
    lambda t: (True, False), lambda t: (True, True), lambda t: (None, None), lambda t: (None, 1),
    lambda t: (np.array([1.0]), np.array([2.0])), lambda t: (np.float32(1), np.float32(2)),
    lambda t: ([t.ones(2), 1.0], [t.ones(2), 2.0]),
    lambda t: ([t.ones(2)], (t.ones(2),)),
    lambda t: ([1.0, 2.0], [1.0]),
    lambda t: ({"a": t.ones(1)}, {"a": t.zeros(1)}),
    lambda t: ({"a": 1, "c": 1}, {"a": 1, "b": 2}),
    lambda t: ({"a": [1.0, {"b": 2.0}]}, {"a": [1.0, {"b": 3.0}]}),
    lambda t: ("a", "a"), lambda t: (1.0, "a"),
    lambda t: (t.empty(0), t.empty(0)),
    lambda t: (t.nn.Parameter(t.ones(1)), t.ones(1)),
]


@pytest.mark.parametrize("options", [
    {}, {"rtol": 0, "atol": 0}, {"rtol": 0.5, "atol": 0.1}, {"equal_nan": True},
    {"check_dtype": False}, {"rtol": 1e-3}, {"msg": "text"}, {"msg": lambda m: f"<{m}>"},
    {"check_stride": True}, {"rtol": 0.0, "atol": "tensor"},
])
def test_assert_close(options):
    for pair in PAIRS:
        def program(t):
            actual, expected = pair(t)
            given = {k: t.tensor(0.5) if v == "tensor" else v for k, v in options.items()}
            return t.testing.assert_close(actual, expected, **given)

        assert_shows_same(program, text=without_path)


def test_assert_allclose():
    def program(t):
        return t.testing.assert_allclose(t.tensor([1.0]), [1.1])

    assert_shows_same(program, text=without_path)


@pytest.mark.parametrize("arguments", [
    {"dtype": "float32"}, {"dtype": "float64", "low": -1, "high": 2}, {"dtype": "bfloat16"},
    {"dtype": "int64"}, {"dtype": "uint8", "low": 3, "high": 5}, {"dtype": "bool"},
    {"dtype": "complex64"}, {"dtype": "int8", "noncontiguous": True},
    {"dtype": "int32", "exclude_zero": True}, {"dtype": "float32", "requires_grad": True},
    {"dtype": "int32", "requires_grad": True}, {"dtype": "float32", "low": 2, "high": 1},
    {"dtype": "float32", "low": nan}, {"dtype": "uint8", "low": -9, "high": -5},
])
def test_make_tensor(arguments):
    def program(t):
        t.manual_seed(0)
        options = {**arguments, "dtype": getattr(t, arguments["dtype"])}
        x = t.testing.make_tensor((3, 4), device="cpu", **options)
        return x.stride(), x.requires_grad, x

    assert_shows_same(program, text=without_path)
