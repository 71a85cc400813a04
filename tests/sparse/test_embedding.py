"""Tables whose gradients are sparse, and the optimizers that take those."""

from __future__ import annotations

import pytest

import ftorch as ft

from .both import assert_gives_same, check_error


def table(t, kind="Embedding", **options):
    layer = getattr(t.nn, kind)(5, 2, sparse=True, **options)
    layer.weight.data = t.arange(10.0).reshape(5, 2)
    return layer


def test_gradient():
    def program(t):
        e = table(t)
        e(t.tensor([[1, 2], [1, 4]])).pow(2).sum().backward()
        return e.weight.grad

    assert_gives_same(program)


def test_accumulated_with_padding():
    def program(t):
        e = table(t, padding_idx=1)
        for _ in range(2):
            e(t.tensor([1, 2, 4])).pow(2).sum().backward()
        return e.weight.grad

    assert_gives_same(program)


def test_accumulated_at_other_rows():
    def program(t):
        e = table(t)
        for rows in ([1, 2], [4, 2], [0, 1, 3]):
            e(t.tensor(rows)).pow(2).sum().backward()
        return e.weight.grad.to_dense(), e.weight.grad.is_sparse

    assert_gives_same(program)


def test_sparse_and_dense_gradients_add_up():
    def program(t):
        e = table(t)
        (e(t.tensor([1, 1])).sum() + e.weight.pow(2).sum()).backward()
        e(t.tensor([3])).sum().backward()
        return e.weight.grad

    assert_gives_same(program)


def test_through_another_operation():
    def program(t):
        w = t.ones(4, 2, requires_grad=True)
        t.nn.functional.embedding(t.tensor([1, 2, 1]), w * 2, sparse=True).sum().backward()
        return w.grad.to_dense() if w.grad.is_sparse else w.grad

    assert_gives_same(program)


def test_autograd_grad_and_hooks():
    def program(t):
        w = t.ones(4, 2, requires_grad=True)
        seen = []
        w.register_hook(lambda g: seen.append(g.is_sparse))
        out = t.nn.functional.embedding(t.tensor([1, 2]), w, sparse=True).sum()
        return t.autograd.grad(out, w)[0], seen

    assert_gives_same(program)


def test_zero_grad():
    def program(t):
        e = table(t)
        e(t.tensor([1])).sum().backward()
        e.zero_grad(set_to_none=False)
        return e.weight.grad

    assert_gives_same(program)


@pytest.mark.parametrize("options", [
    {"mode": "mean"}, {"mode": "sum"}, {"mode": "mean", "padding_idx": 1},
    {"mode": "sum", "padding_idx": 1}, {"mode": "mean", "include_last_offset": True},
], ids=str)
def test_bags(options):
    def program(t):
        e = table(t, "EmbeddingBag", **options)
        out = e(t.tensor([1, 2, 4, 1, 1]), t.tensor([0, 2, 2, 5]))
        out.pow(2).sum().backward()
        return out, e.weight.grad.to_dense(), e.weight.grad.is_sparse

    assert_gives_same(program)


def test_weighted_bags():
    def program(t):
        e = table(t, "EmbeddingBag", mode="sum")
        weights = t.tensor([1.0, 2, 3], requires_grad=True)
        e(t.tensor([1, 2, 1]), t.tensor([0, 2]), weights).pow(2).sum().backward()
        return e.weight.grad.to_dense(), weights.grad

    assert_gives_same(program)


OPTIMIZERS = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}), ("SGD", {"lr": 0.1, "maximize": True}),
    ("SparseAdam", {"lr": 0.1}), ("SparseAdam", {"lr": 0.1, "maximize": True}), ("Adagrad", {"lr": 0.1}),
]


@pytest.mark.parametrize("name, options", OPTIMIZERS, ids=str)
def test_optimizers(name, options):
    def program(t):
        e = table(t)
        optimizer = getattr(t.optim, name)(e.parameters(), **options)
        for _ in range(3):
            optimizer.zero_grad()
            e(t.tensor([1, 2, 4, 1])).pow(2).sum().backward()
            optimizer.step()
        return e.weight

    assert_gives_same(program)


def test_refused():
    def adam(t):
        e = table(t)
        e(t.tensor([1])).sum().backward()
        t.optim.Adam(e.parameters()).step()

    def sparse_parameter(t):
        t.optim.SparseAdam([t.eye(2).to_sparse().requires_grad_()])

    check_error(adam)
    check_error(sparse_parameter)


def test_values_can_be_clipped_by_hand():
    e = table(ft)
    e(ft.tensor([1, 2, 1])).pow(2).sum().backward()
    grad = e.weight.grad.coalesce()
    norm = grad.norm()
    e.weight.grad.mul_(1 / norm)
    assert abs(float(e.weight.grad.coalesce().norm()) - 1) < 1e-5
