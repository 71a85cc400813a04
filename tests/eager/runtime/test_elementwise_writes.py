"""Elementwise calls in place on a part of a large tensor run on its memory; the values are those of the call elsewhere."""

from __future__ import annotations

import itertools

import pytest
import torch

import ftorch
from ftorch.eager import native
from ftorch.eager.runtime import executor, inplace_writes

ROWS, COLUMNS = 64, inplace_writes.LARGE // 32


def _numbers(t, dtype, *shape):
    count = 1
    for n in shape:
        count *= n
    values = (t.arange(count) * 7919) % 61 - 20
    values = values * 0.37 if dtype.is_floating_point else values
    return values.to(dtype).reshape(shape)


PARTS = {
    "row": lambda x: x[3],
    "rows": lambda x: x[2:12:3],
    "columns": lambda x: x[:, 5:9],
    "column": lambda x: x[:, 7],
    "transposed": lambda x: x[1:9, 3:6].t(),
    "element": lambda x: x[4, 5],
    "no rows": lambda x: x[3:3],
    "rank 3": lambda x: x.view(ROWS, -1, 4)[5:7, :, 1:3],
}

CALLS = {
    "add number": lambda t, p, y: p.add_(3),
    "add tensor": lambda t, p, y: p.add_(y),
    "add alpha": lambda t, p, y: p.add_(y, alpha=2),
    "add large": lambda t, p, y: p.add_(2**53 + 1),
    "sub": lambda t, p, y: p.sub_(y),
    "mul": lambda t, p, y: p.mul_(2),
    "mul row": lambda t, p, y: p.mul_(y[..., :1] if y.dim() else y),
    "mul itself": lambda t, p, y: p.mul_(p),
    "clamp": lambda t, p, y: p.clamp_(-3, 4),
    "neg": lambda t, p, y: p.neg_(),
    "abs": lambda t, p, y: p.abs_(),
    "maximum": lambda t, p, y: t.maximum(p, y, out=p),
    "masked_fill": lambda t, p, y: p.masked_fill_(y > 0, 5),
    "cast": lambda t, p, y: p.copy_((y * 2).to(t.int16)),
    "square": lambda t, p, y: p.pow_(2),
    "power": lambda t, p, y: p.pow_(5),
}

OF_FLOATS = {
    "div": lambda t, p, y: p.div_(3),
    "mul float": lambda t, p, y: p.mul_(0.1),
    "lerp": lambda t, p, y: p.lerp_(y, 0.3),
    "addcmul": lambda t, p, y: p.addcmul_(y, y, value=0.5),
    "exp": lambda t, p, y: p.exp_(),
    "tanh": lambda t, p, y: p.tanh_(),
    "sigmoid": lambda t, p, y: p.sigmoid_(),
    "relu": lambda t, p, y: p.relu_(),
    "nan_to_num": lambda t, p, y: p.div_(0).nan_to_num_(),
    "sqrt": lambda t, p, y: p.abs_().sqrt_(),
    "round": lambda t, p, y: p.round_(),
    "integers": lambda t, p, y: p.add_(y.round().to(t.int64)),
    "other floats": lambda t, p, y: p.mul_(y.to(t.float64)),
}

CASES = [
    (dtype, name, call)
    for dtype in ("float32", "float64", "int32")
    for name, call in {**CALLS, **(OF_FLOATS if dtype.startswith("float") else {})}.items()
]


def _run(t, dtype, part, call):
    x = _numbers(t, getattr(t, dtype), ROWS, COLUMNS)
    x[0, 0] = 1  # in memory of its own from here on
    p = PARTS[part](x)
    call(t, p, _numbers(t, getattr(t, dtype), *p.shape))
    return x, p


@pytest.mark.parametrize(("dtype", "name", "call"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_parts_are_written_as_in_pytorch(dtype, name, call):
    for part in PARTS if dtype == "float32" else ("rows", "column"):
        (own, _), (expected, _) = (_run(t, dtype, part, call) for t in (ftorch, torch))
        torch.testing.assert_close(torch.from_numpy(own.numpy()), expected, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize(("dtype", "name", "call"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_bits_are_those_of_the_call_on_a_copy(dtype, name, call):
    written = _run(ftorch, dtype, "columns", call)[1]
    copy = PARTS["columns"](_numbers(ftorch, getattr(ftorch, dtype), ROWS, COLUMNS)).clone()
    call(ftorch, copy, _numbers(ftorch, getattr(ftorch, dtype), *copy.shape))
    assert written.numpy().tobytes() == copy.numpy().tobytes()


@pytest.mark.skipif(not native.available, reason="the kernels in C++ are not built")
def test_nothing_is_recorded():
    x, y = ftorch.zeros(ROWS, COLUMNS), ftorch.ones(COLUMNS)
    calls = [
        lambda i: x[i].add_(y), lambda i: x[i : i + 2].mul_(0.5), lambda i: x[i].clamp_(0, 1), lambda i: x[i].exp_(),
        lambda i: x.__setitem__(i, x[i].sub_(1)),
    ]
    x[0] = 1.0
    for call in calls:
        call(1)
    executor.flush()
    before = executor.stats.ops
    for i, call in itertools.product(range(2, 9), calls):
        call(i)
    assert executor.stats.ops == before


@pytest.mark.parametrize("t", [ftorch, torch], ids=["ftorch", "torch"])
def test_versions_and_graphs(t):
    x = t.zeros(ROWS, COLUMNS)
    x[1] += 1
    x[1] += x[2]
    x[2:5] *= 2
    assert x._version == 6
    part = x.view(t.int32)[1]
    x[1] = part  # a tensor of another dtype in the same place
    assert x[1, 0].item() == 1065353216
    w = t.ones(COLUMNS, requires_grad=True)
    y = x * 1
    y[3].mul_(w)
    y[3] += w
    y.sum().backward()
    assert w.grad.sum().item() == COLUMNS
    with t.no_grad():
        w[2:5].mul_(2)
    assert w.sum().item() == COLUMNS + 3
    with pytest.raises(RuntimeError, match="leaf Variable"):
        w[2:5].mul_(2)


def test_writes_into_single_numbers_of_a_step_before():
    """What a step before made is a number of NumPy's there, which is no memory to write to."""

    def program(t, n):
        count = t.tensor(float(n))
        factor = t.full((), float("nan"))
        known = count - 1 > 0
        factor[known] = count[known] / (count - 1)[known]
        result = t.tensor(2.0)
        result *= factor
        total = t.ones(3).sum() * count
        total[...] = total + count
        return result.item(), total.item()

    for n in (3, 4, 2, 5, 6):
        assert program(ftorch, n) == program(torch, n)
