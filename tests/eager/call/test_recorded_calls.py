"""Calls that are recorded in C (``recording/recorded_calls.cpp``): what they do, and that Python has no part in them."""

import sys

import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import native
from ftorch.eager.call import op as _op
from ftorch.eager.runtime import executor

LIBRARIES = (torch, ftorch)


def _alike(program, times=3):
    """Runs a program of each library several times: the first makes plans, the others find them."""
    expected, found = ([_plain(program(lib)) for _ in range(times)] for lib in LIBRARIES)
    np.testing.assert_equal(found, expected)


def _plain(value):
    """Tensors as arrays, errors as text, other values as they are."""
    if isinstance(value, (torch.Tensor, ftorch.Tensor)):
        array = value.detach().numpy()
        return array.round(4) + 0.0 if array.dtype.kind == "f" else array.copy()
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def _error(function):
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing"


def _gradients(t):
    w = t.arange(6, dtype=t.float64).reshape(2, 3).requires_grad_()
    b = t.ones(3, dtype=t.float64, requires_grad=True)
    h = (w * 2 + b).sin()
    row, column = h[0], h.t()[1]
    best = (h @ h.t()).max(dim=1)
    (row.exp().sum() + (column * column).mean() + best.values.sum()).backward()
    names = [x.grad_fn.name() for x in (h, row, column, best.values)]
    return w.grad, b.grad, best.indices, best.indices.requires_grad, names, [f[1] for f in h.grad_fn.next_functions]


def _parameters(t):
    layer = t.nn.Linear(3, 2)
    with t.no_grad():
        layer.weight.fill_(0.5), layer.bias.zero_()
    out = t.nn.functional.relu(layer(t.arange(6.0).reshape(2, 3)))
    out.sum().backward()
    layer(t.ones(2, 3)).sum().backward()
    return out, layer.weight.grad, layer.bias.grad, layer.weight._version


def _writes(t):
    x = t.zeros(4, 3)
    x.add_(2.0).mul_(t.ones(3) * 3)
    x[1].sub_(1), x[:, 1].fill_(7), x[2:, :2].add_(x[0, :2])
    x[0] += x[3]
    x[t.tensor(1), t.tensor(2)] *= 4
    x[3, 0] = x[3, 0]
    return x, x._version


def _writes_with_gradients(t):
    w = t.ones(3, requires_grad=True)
    h = w * 2
    h.mul_(w), h[1].add_(3)
    with t.no_grad():
        w.sub_(0.5), w[0].mul_(4)
    kept = _error(lambda: h.sum().backward())
    return w, h, kept, _error(lambda: w.add_(1)), _error(lambda: w[0].add_(1)), w._version


def _refused_writes(t):
    x, row = t.zeros(3), t.zeros(1, 3)
    with t.inference_mode():
        made, both = t.ones(2) + 1, t.ones(2, 2).max(dim=0)
    return (
        _error(lambda: row.expand(2, 3).add_(1)), _error(lambda: x[1:].copy_(x[:2])), _error(lambda: made.add_(1)),
        made.is_inference(), both.values.is_inference(), x, x._version,
    )


def _indices(t):
    x = t.arange(12.0).reshape(3, 4)
    i, mask = t.tensor(2), x > 4
    found = [x[i], x[i, 1:], x[i, None, i], x[..., i], x[mask], x[mask.any(1)], x[:, mask[1]], x[i, t.tensor([0, 3])]]
    return found, _error(lambda: x[t.tensor(5), 0]), _error(lambda: x[t.tensor([0, 3])]), x[t.tensor(True)]


def _divisors(t):
    x, zero = t.arange(3), t.tensor(0)
    return [_error(f) for f in (
        lambda: x // 0, lambda: x % zero, lambda: 5 // zero, lambda: t.tensor(True) // zero, lambda: x.fmod(False),
        lambda: x // 0.0, lambda: x[:0] // 0, lambda: x.float() // zero,
    )]


def _numbers(t):
    x = t.linspace(0, 1, 5, dtype=t.float64)
    y = t.tensor([1 + 2j, 3], dtype=t.complex64)
    values = x[3].item(), x.sum().item(), y[0].item(), (x > 0.5)[4].item(), t.arange(4)[2].item(), x.half()[1].item()
    return values, [type(v) for v in values], _error(x.item), bool(x[1] < 1), float(x[2]), int(x[4])


def _shared_memory(t):
    array = np.ones((2, 2), np.float32)
    x = t.from_numpy(array)
    first = x * 2
    array[0, 0] = 5
    second = x * 2 + x.t()
    x.add_(1)
    return first, second, array.copy(), x._version


def _saved(t):
    packed = []

    def pack(x):
        packed.append(tuple(x.shape))
        return x

    w = t.ones(2, requires_grad=True)
    with t.autograd.graph.saved_tensors_hooks(pack, lambda x: x * 2):
        y = (w * w).exp()
    y.sum().backward()
    return w.grad, packed


@pytest.mark.parametrize(
    "program",
    [_gradients, _parameters, _writes, _writes_with_gradients, _refused_writes, _indices, _divisors, _numbers,
     _shared_memory, _saved],
    ids=lambda program: program.__name__,
)
def test_as_pytorch(program):
    _alike(program)


def _entered(function):
    """The code of the Python functions that a call enters."""
    codes = set()

    def watch(frame, event, _):
        if event == "call":
            codes.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(before)
    return codes


w = ftorch.ones(3, 3, requires_grad=True)
x, y = ftorch.ones(3, 3), ftorch.ones(3, 3)
parameter = ftorch.nn.Parameter(ftorch.ones(3, 3))
KNOWN = {
    "operators": lambda: (x + y) * 2.0 < y,
    "gradients": lambda: (w * x).exp() @ parameter,
    "several results": lambda: w.max(dim=1).values,
    "views": lambda: x[1] + w.t()[:, 1],
    "writes": lambda: x.mul_(y).add_(0.5),
    "writes through views": lambda: x[1].mul_(0.5),
    "indices": lambda: (x[ftorch.arange(2)], w[ftorch.arange(2)]),
}


@pytest.mark.skipif(_op.in_c is None, reason="nothing is recorded in C")
@pytest.mark.parametrize("kind", KNOWN)
def test_known_calls_enter_no_python(kind):
    executor.flush()
    for _ in range(3):
        KNOWN[kind]()
    assert native.module is not None
    slow = {f.__code__ for f in (_op._call, _op._call_inplace, executor._record, _op.read, _op.record_write)}
    assert not slow & _entered(KNOWN[kind])
