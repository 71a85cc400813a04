"""Arithmetic, products, parts and reductions of sparse tensors, and their gradients."""

from __future__ import annotations

import pytest

import ftorch as ft

from .both import assert_gives_same, check_error
from .test_tensors import coo, csr, hybrid, matrix


def dense(t, *shape):
    total = 1
    for n in shape:
        total *= n
    return t.arange(1.0, total + 1).reshape(shape)


def first(t):
    return coo(t).coalesce()


def second(t):
    return t.sparse_coo_tensor([[0, 0, 1], [0, 2, 1]], [1.0, 2, 3], (2, 3)).coalesce()


COMPUTED = {
    "neg": lambda t: -coo(t),
    "sin": lambda t: coo(t).sin(),
    "abs csr": lambda t: csr(t).neg().abs(),
    "sqrt_": lambda t: first(t).sqrt_(),
    "isnan": lambda t: t.isnan(coo(t)),
    "relu": lambda t: t.relu(-coo(t)),
    "pow": lambda t: coo(t) ** 2,
    "times number": lambda t: 2 * coo(t) * 1.5,
    "times int": lambda t: coo(t, t.int64) * 2.5,
    "over number": lambda t: coo(t) / 2,
    "floor": lambda t: coo(t) // 2,
    "sum of both": lambda t: first(t) + second(t),
    "difference": lambda t: first(t) - second(t),
    "alpha": lambda t: t.add(first(t), second(t), alpha=3),
    "same places": lambda t: coo(t) + coo(t),
    "promotion": lambda t: first(t) + second(t).double(),
    "dense plus": lambda t: dense(t, 2, 3) + coo(t),
    "dense minus": lambda t: dense(t, 2, 3) - coo(t),
    "dense add_": lambda t: dense(t, 2, 3).add_(coo(t), alpha=-2),
    "add_": lambda t: first(t).add_(second(t)),
    "mul_": lambda t: coo(t).mul_(2),
    "times dense": lambda t: coo(t) * dense(t, 2, 3),
    "dense times": lambda t: dense(t, 2, 3) * coo(t),
    "times sparse": lambda t: first(t) * second(t),
    "csr plus": lambda t: csr(t) + csr(t),
    "csr plus other": lambda t: csr(t) + second(t).to_sparse_csr(),
    "csr plus dense": lambda t: csr(t) + dense(t, 2, 3),
    "csr times dense": lambda t: csr(t) * dense(t, 2, 3),
    "mm": lambda t: coo(t) @ dense(t, 3, 2),
    "torch.mm": lambda t: t.mm(coo(t), dense(t, 3, 2)),
    "mm csr": lambda t: csr(t).matmul(dense(t, 3, 2)),
    "mm csc": lambda t: matrix(t).to_sparse_csc() @ dense(t, 4, 2),
    "mm bsr": lambda t: matrix(t).to_sparse_bsr((2, 2)) @ dense(t, 4, 2),
    "mv": lambda t: coo(t) @ dense(t, 3),
    "dense mm": lambda t: dense(t, 4, 2) @ coo(t),
    "dense mm csr": lambda t: dense(t, 4, 2) @ csr(t),
    "sparse mm": lambda t: coo(t) @ coo(t).t(),
    "bmm": lambda t: t.bmm(t.stack([coo(t), coo(t)]), dense(t, 2, 3, 2)),
    "addmm": lambda t: t.addmm(dense(t, 2, 2), coo(t), dense(t, 3, 2), beta=2, alpha=3),
    "sparse.addmm": lambda t: t.sparse.addmm(dense(t, 2, 2), csr(t), dense(t, 3, 2)),
    "linear": lambda t: t.nn.functional.linear(coo(t), dense(t, 4, 3), dense(t, 4)),
    "smm": lambda t: t.smm(coo(t), dense(t, 3, 2)),
    "hspmm": lambda t: t.hspmm(coo(t), dense(t, 3, 2)),
    "former names": lambda t: [
        t.spmm(coo(t), dense(t, 3, 2)), t.dsmm(csr(t), dense(t, 3, 2)), t.hsmm(coo(t), dense(t, 3, 2)),
        t.saddmm(t.eye(2).to_sparse(), coo(t), dense(t, 3, 2)),
        t.resize_as_sparse_(coo(t), t.zeros(4, 4).to_sparse()),
    ],
    "sspaddmm": lambda t: t.sspaddmm(t.eye(2).to_sparse(), coo(t), dense(t, 3, 2)),
    "reduced": lambda t: [
        t.sparse.mm(csr(t), dense(t, 3, 2), how) for how in ("sum", "mean", "amax", "amin")
    ],
    "sampled": lambda t: t.sparse.sampled_addmm(
        csr(t), dense(t, 2, 4), dense(t, 4, 3), beta=2.0, alpha=0.5
    ),
    "t": lambda t: coo(t).t(),
    "transpose csr": lambda t: csr(t).transpose(0, 1),
    "transpose bsr": lambda t: matrix(t).to_sparse_bsr((2, 1)).t(),
    "permute": lambda t: t.ones(2, 3, 2).to_sparse().permute(2, 0, 1),
    "unsqueeze": lambda t: [coo(t).unsqueeze(d) for d in (0, 1, -1)],
    "select": lambda t: [hybrid(t)[1], hybrid(t)[0, 2], hybrid(t).select(2, 1), coo(t)[0, 2]],
    "select csr": lambda t: [csr(t)[1], csr(t)[1, 2]],
    "unbind": lambda t: list(coo(t)),
    "index_select": lambda t: [
        first(t).index_select(1, t.tensor([2, 0, 2])), hybrid(t).index_select(2, t.tensor([1]))
    ],
    "narrow_copy": lambda t: [coo(t).narrow_copy(1, 1, 2), hybrid(t).narrow_copy(2, 1, 1)],
    "cat": lambda t: [
        t.cat([coo(t), coo(t)]), t.cat([coo(t), coo(t)], 1), t.hstack([coo(t), coo(t)]),
        t.cat([hybrid(t), hybrid(t)], 2),
    ],
    "stack": lambda t: t.stack([coo(t), coo(t)], 1),
    "sum": lambda t: [coo(t).sum(), t.sparse.sum(coo(t)), csr(t).sum()],
    "sum dim": lambda t: [
        first(t).sum(0), t.sparse.sum(coo(t), 1), t.sparse.sum(hybrid(t), 2),
        t.sparse.sum(hybrid(t), (0, 1)), t.sparse.sum(hybrid(t), (0, 2)), csr(t).sum(1, True),
    ],
    "norm": lambda t: [coo(t).norm(), coo(t).norm(1), coo(t).any()],
    "softmax": lambda t: [
        t.sparse.softmax(coo(t), 0), t.sparse.log_softmax(coo(t), 1),
        t.sparse.softmax(hybrid(t), 2), t.sparse.softmax(hybrid(t), 1, dtype=t.float64),
    ],
}


@pytest.mark.parametrize("name", COMPUTED)
def test_computed(name):
    assert_gives_same(COMPUTED[name])


REFUSED = {
    "sparse plus dense": lambda t: coo(t) + t.ones(2, 3),
    "sparse plus number": lambda t: coo(t) + 1,
    "sizes": lambda t: first(t) + t.ones(3, 2).to_sparse(),
    "dense sizes": lambda t: t.ones(3, 2) + coo(t),
    "over dense": lambda t: coo(t) / t.ones(2, 3),
    "zeroth power": lambda t: coo(t) ** 0,
    "mm": lambda t: t.mm(coo(t), t.ones(2, 2)),
    "mm dtype": lambda t: t.sparse.mm(coo(t), t.ones(3, 2).double()),
    "mv": lambda t: coo(t).mv(t.ones(4)),
    "sampled": lambda t: t.sparse.sampled_addmm(coo(t), t.ones(2, 2), t.ones(2, 3)),
    "cat dense": lambda t: t.cat([coo(t), t.ones(2, 3)]),
    "cat sizes": lambda t: t.cat([coo(t), coo(t).t()]),
    "mask size": lambda t: t.eye(3).sparse_mask(coo(t)),
    "index": lambda t: coo(t)[5],
    "index_select": lambda t: coo(t).index_select(0, t.tensor([3])),
    "narrow_copy": lambda t: coo(t).narrow_copy(0, 0, 5),
    "dense dim": lambda t: hybrid(t).transpose(0, 2),
    "softmax of dense": lambda t: t.sparse.softmax(t.ones(2, 2), 0),
    "reduce": lambda t: t.sparse.mm(csr(t), t.ones(3, 2), "x"),
    "csr sum": lambda t: csr(t).sum(0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    check_error(REFUSED[name])


def _leaf(t, make=coo):
    return make(t).requires_grad_()


def grad_mm(t):
    a, d = _leaf(t), dense(t, 3, 2).requires_grad_()
    (t.sparse.mm(a, d) * dense(t, 2, 2)).sum().backward()
    return a.grad.coalesce(), d.grad


def grad_operator(t):
    w = t.tensor([3.0, 4, 5, 1], requires_grad=True)
    a = t.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], w, (2, 3))
    d = dense(t, 3, 2).requires_grad_()
    (a @ d).pow(2).sum().backward()
    return w.grad, d.grad


def grad_dense_left(t):
    d = dense(t, 4, 2).requires_grad_()
    (d @ coo(t)).pow(2).sum().backward()
    return d.grad


def grad_to_dense(t):
    a = _leaf(t, first)
    a.to_dense().pow(2).sum().backward()
    return a.grad


def grad_coalesce(t):
    w = t.tensor([3.0, 4, 5, 1], requires_grad=True)
    a = t.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], w, (2, 3)).coalesce()
    a.values().pow(2).sum().backward()
    return w.grad


def grad_to_sparse(t):
    x = t.eye(3).requires_grad_()
    (x.to_sparse() * 2).to_dense().pow(2).sum().backward()
    return x.grad


def grad_sum(t):
    a, b = _leaf(t), _leaf(t, first)
    t.sparse.sum(a).backward()
    t.sparse.sum(b, 0).to_dense().pow(2).sum().backward()
    return a.grad, b.grad.to_dense()


def grad_softmax(t):
    a = _leaf(t, first)
    t.sparse.softmax(a, 1).to_dense().pow(2).sum().backward()
    return a.grad.to_dense()


def grad_sparse_sparse(t):
    a, b = _leaf(t, first), _leaf(t, second)
    t.sparse.mm(a, b.t()).to_dense().pow(2).sum().backward()
    return a.grad.to_dense(), b.grad.to_dense()


def grad_csr_dense(t):
    d = dense(t, 3, 2).requires_grad_()
    (csr(t) @ d).pow(2).sum().backward()
    return d.grad


def grad_sampled(t):
    x, y = dense(t, 2, 4).requires_grad_(), dense(t, 4, 3).requires_grad_()
    t.sparse.sampled_addmm(csr(t), x, y).to_dense().pow(2).sum().backward()
    return x.grad, y.grad


def grad_mask(t):
    x = dense(t, 2, 3).requires_grad_()
    x.sparse_mask(first(t)).to_dense().pow(2).sum().backward()
    return x.grad


def grad_added(t):
    d = dense(t, 2, 3).requires_grad_()
    w = t.tensor([1.0, 2], requires_grad=True)
    (d + t.sparse_coo_tensor([[0, 1], [1, 2]], w, (2, 3))).pow(2).sum().backward()
    return d.grad, w.grad


GRADIENTS = [
    grad_mm, grad_operator, grad_dense_left, grad_to_dense, grad_coalesce, grad_to_sparse, grad_sum,
    grad_softmax, grad_sparse_sparse, grad_csr_dense, grad_sampled, grad_mask, grad_added,
]


@pytest.mark.parametrize("program", GRADIENTS, ids=lambda p: p.__name__)
def test_gradients(program):
    assert_gives_same(program)


def test_second_gradients():
    w = ft.tensor([1.0, 2.0, 3.0], dtype=ft.float64, requires_grad=True)
    d = ft.ones(3, 2, dtype=ft.float64, requires_grad=True)

    def function(w, d):
        a = ft.sparse_coo_tensor(ft.tensor([[0, 1, 1], [2, 0, 2]]), w * w, (2, 3))
        return (a @ d).sin()

    assert ft.autograd.gradcheck(function, (w, d))
    assert ft.autograd.gradgradcheck(function, (w, d))


def test_sparse_gradcheck():
    x = ft.eye(3, dtype=ft.float64).to_sparse().requires_grad_()
    assert_gives_same = ft.sparse.as_sparse_gradcheck(ft.autograd.gradcheck)
    d = ft.ones(3, 2, dtype=ft.float64)
    assert assert_gives_same(lambda x: ft.sparse.mm(x, d).sin(), (x,), masked=True)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        assert_gives_same(lambda x: (x.detach() @ d) * x.to_dense().sum(), (x,), masked=False)


def test_in_place_on_a_leaf_is_refused():
    check_error(lambda t: _leaf(t).mul_(2))


def test_optimizing_a_sparse_parameter():
    def program(t):
        w = t.eye(2).to_sparse().requires_grad_()
        optimizer = t.optim.SGD([w], lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            t.sparse.mm(w, dense(t, 2, 1)).pow(2).sum().backward()
            optimizer.step()
        return w, w.requires_grad, w.is_leaf

    assert_gives_same(program)


def test_assert_close():
    def other(t, value, column):
        return t.sparse_coo_tensor([[0, 1], [1, column]], [1.0, value], (2, 2))

    def compared(value, column, to):
        def program(t):
            t.testing.assert_close(to(other(t, value, column)), to(other(t, 2.0, 0)))

        return program

    for to in (lambda x: x, lambda x: x.to_sparse_csr()):
        assert_gives_same(compared(2.0, 0, to))
        check_error(compared(3.0, 0, to), 1000)
        check_error(compared(2.0, 1, to), 1000)
    check_error(lambda t: t.testing.assert_close(other(t, 2.0, 0), other(t, 2.0, 0).to_dense()))
