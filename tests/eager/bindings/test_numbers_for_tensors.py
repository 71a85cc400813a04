"""Where Python numbers stand for tensors, and tensors for numbers."""

import pytest
import torch as reference

import ftorch

CALLS = [
    "t.div(7, 2)", "t.div(7, 2, rounding_mode='trunc')", "t.div(7, 2.0, rounding_mode='floor')", "t.div(True, 2)",
    "t.divide(7, 2)", "t.divide(7, 2, rounding_mode='floor')", "t.true_divide(1, 2)", "t.floor_divide(7, 2)",
    "t.multiply(2, 3)", "t.subtract(2, 3)", "t.rsub(1, 2)", "t.remainder(7, 2)", "t.eq(1, 1)", "t.pow(2, 3)",
    "t.zeros(n)", "t.zeros((n, n))", "t.ones([n, 3])", "t.ones(n, 3)", "t.full((n, 1), 1.0)", "t.zeros(t.tensor([[2]]), 2)",
    "t.ones(2).new_zeros(n, n)", "t.zeros(t.tensor([1, 2]), 2)", "t.zeros(n.float())", "t.rand(n, t.tensor(3)).shape",
    "t.empty(n, n).shape", "t.randint(0, 5, (n, n)).shape",
]


@pytest.mark.parametrize("call", CALLS)
def test_same_as_pytorch(call):
    def told(t):
        try:
            made = eval(call, {"t": t, "n": t.tensor([2])})
        except TypeError as error:
            return type(error)
        return (made.tolist(), str(made.dtype)) if isinstance(made, t.Tensor) else tuple(made)

    assert told(ftorch) == told(reference)
