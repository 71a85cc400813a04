"""The engine's walk, in C (``recorded_backward.cpp``) and in Python: the same nodes in the same order, as in PyTorch."""

import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager.autograd import backward

IN_C = [pytest.param(True, id="C", marks=pytest.mark.skipif(backward.in_c is None, reason="not built")), False]


@pytest.fixture(params=IN_C, ids=lambda value: None if value is True else "Python")
def engine(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(backward, "in_c", None)


def _graph(t):
    a = t.arange(1.0, 5.0, dtype=t.float64).reshape(2, 2).requires_grad_()
    b = t.full((2,), 0.5, dtype=t.float64, requires_grad=True)
    h = a * b + a[0].exp()
    low, high = h.aminmax(dim=1)
    unused = h.sin()
    return a, b, h, (low * high).sum() + (h @ h).trace() * b.sum(), unused


def _twice(t):
    a, b, _, out, _ = _graph(t)
    out.backward(retain_graph=True)
    out.backward()
    try:
        out.backward()
    except RuntimeError as error:
        return a.grad, b.grad, str(error)[:60]


def _wanted(t):
    a, b, h, out, unused = _graph(t)
    found = t.autograd.grad(out, (h, b, unused), retain_graph=True, allow_unused=True)
    out.backward(inputs=[b])
    return found, a.grad, b.grad


def _of_gradients(t):
    a, b, _, out, _ = _graph(t)
    (first,) = t.autograd.grad(out, a, create_graph=True)
    return t.autograd.grad((first * first).sum(), (a, b))


def _hooks(t):
    a, b, h, out, _ = _graph(t)
    seen = []
    h.register_hook(lambda g: seen.append("h") or g * 2)
    b.register_hook(lambda g: seen.append("b"))
    h.grad_fn.register_hook(lambda i, o: seen.append(("node", len(i), len(o))))
    out.grad_fn.register_prehook(lambda o: seen.append("out") or tuple(g * 3 for g in o))
    a.register_post_accumulate_grad_hook(lambda x: seen.append("a"))
    h.retain_grad()
    out.backward()
    return a.grad, b.grad, h.grad, seen


def _own_function(t):
    class Twice(t.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * 2, y * x

        @staticmethod
        def backward(ctx, first, second):
            return first * 2 + second * ctx.saved_tensors[0], None

    a, b, h, out, _ = _graph(t)
    first, second = Twice.apply(h, b)
    (out + first.sum() + second.exp().sum()).backward()
    return a.grad, b.grad


def _backward_within(t):
    inner = t.ones(2, requires_grad=True)

    def hook(g):
        with t.enable_grad():
            (inner * inner).sum().backward()

    a, b, h, out, _ = _graph(t)
    h.register_hook(hook)
    out.backward()
    return a.grad, b.grad, inner.grad


def _written(t):
    a, b, h, out, _ = _graph(t)
    with t.no_grad():
        h.mul_(2)
    try:
        out.backward()
    except RuntimeError as error:
        return a.grad is None, "modified by an inplace operation" in str(error)


def _raising(t):
    a, b, h, out, _ = _graph(t)

    def hook(g):
        raise ValueError("no")

    handle = h.register_hook(hook)
    try:
        out.backward(retain_graph=True)
    except ValueError:
        handle.remove()
    out.backward()
    return a.grad, b.grad


def _accumulated(t):
    a, b, _, out, _ = _graph(t)
    (out + a.sum()).backward()
    kept = a.grad
    out = (a * 3).sum() + b.sum()
    out.backward()
    return a.grad is kept, kept, b.grad, t.autograd.grad(a, a, t.ones_like(a))


def _anomaly(t):
    a, b, _, out, _ = _graph(t)
    with t.autograd.set_detect_anomaly(True):
        out.backward()
    return a.grad, b.grad


PROGRAMS = [
    _twice,
    _wanted,
    _of_gradients,
    _hooks,
    _own_function,
    _backward_within,
    _written,
    _raising,
    _accumulated,
    _anomaly,
]


def _plain(value):
    if isinstance(value, (torch.Tensor, ftorch.Tensor)):
        return value.detach().numpy().round(6) + 0.0
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_pytorch(engine, program):
    for _ in range(2):
        np.testing.assert_equal(_plain(program(ftorch)), _plain(program(torch)))


@pytest.mark.skipif(backward.in_c is None, reason="not built")
def test_dependencies():
    *_, out, unused = _graph(ftorch)
    start = [out.grad_fn, unused.grad_fn]
    assert backward.in_c.dependencies(start) == backward._dependencies(start)


def test_long_chains(engine):
    x = w = ftorch.ones(2, requires_grad=True)
    for _ in range(3000):
        x = x * 1.0
    x.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["pow", "div", "atan2"])
def test_gradients_of_some_operands(name, engine):
    """Only what leads to an input is computed: slopes that are infinite elsewhere are not multiplied by zeros."""
    found = []
    for library in (ftorch, torch):
        a = library.tensor([-2.0, 2.0, 0.0], dtype=library.float64, requires_grad=True)
        b = library.tensor([3.0, 3.0, 0.0], dtype=library.float64, requires_grad=True)
        rows, y = [], getattr(library, name)(a, b + (3 if name == "pow" else 0))
        for _ in range(3):
            (y,) = library.autograd.grad(y.sum(), a, create_graph=True, allow_unused=True)
            if y is None:
                break
            rows.append(y.tolist())
        y = library.addmm(a, b.expand(3, 3), a.unsqueeze(1) * b)
        rows += [library.autograd.grad(y.sum(), t, retain_graph=True)[0].tolist() for t in (b, a)]
        found.append(rows)
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_gradients_of_some_operands_through_views_that_were_written_to(engine):
    found = []
    for library in (ftorch, torch):
        x, w = (library.tensor(values, requires_grad=True) for values in ([1.0, 2.0], [0.5, -1.5]))
        y = x.clone()
        y[0].mul_(w[1])
        y[1:].addcmul_(w[:1], w[1:])
        grads = [library.autograd.grad((y * y).sum(), t, retain_graph=True) for t in (x, w, (x, w), y)]
        found.append([g.tolist() for row in grads for g in row])
    assert found[0] == found[1]


def test_hooks_of_tensors_whose_gradients_are_asked_for(engine):
    """Where others are asked for behind a tensor, its own gradient is the one before its hooks."""
    found = []
    for library in (ftorch, torch):
        rows = []
        for wanted in ("h", "hab", "ha", "ab", "y"):
            a, b = (library.tensor(values, requires_grad=True) for values in ([1.0, 2.0], [3.0, 4.0]))
            h = a * b
            h.register_hook(lambda g: g * 10)
            y = h * h.detach()
            tensors = {"a": a, "b": b, "h": h, "y": y}
            grads = library.autograd.grad(y.sum(), [tensors[name] for name in wanted])
            rows.append([g.tolist() for g in grads])
        found.append(rows)
    assert found[0] == found[1]
