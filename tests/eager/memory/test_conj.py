"""Conjugate and negative views: values, aliasing, gradients, transforms, files, refusals."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch as pt

import ftorch as ft

from ...oracle import assert_same

ROWS = [[1 + 2j, 3j, -1.0], [2.0, 1 - 1j, 4 + 1j]]


def writes(t):
    x = t.tensor(ROWS)
    y, z = x.conj(), x.mH
    y[0, 1] = 5 + 5j
    y.mul_(1j)
    z.add_(1j)
    imag = y.imag
    imag[0].fill_(3.0)
    imag[1].add_(1)
    y.real[:, 0].zero_()
    d = y.detach()
    d[0, 0] = 9j
    x[1:].imag.mul_(2)
    return [x, y, z, imag, d, imag + 1, y[:, 1:].conj(), y.t().imag]


def reads(t):
    x = t.tensor(ROWS)
    y = x.conj()
    return [
        y * 2, y @ y.mT, y.mH @ y, y.contiguous(), y.clone(), y.reshape(3, 2), y.t().reshape(6),
        y.to(t.complex128), t.view_as_real(y.resolve_conj()), t.stack([y, x]), t.cat([y, x]),
        t.vdot(y[0], x[0]), y.sum(0), y.abs(), y.expand(2, 2, 3), y.imag.resolve_neg(), y.conj(),
        t.empty_like(y).zero_(), t.conj(y.real), y.H, y.adjoint(), t._neg_view(x)[0], y.data,
    ]


def gradients(t):
    w = t.tensor(ROWS, requires_grad=True)
    loss = (w.conj() * w * (1 + 2j)).sum().real + (w.mH[1:] @ w).imag.pow(2).sum()
    (loss + w.conj().imag.mul(3).sum()).backward()
    u = t.tensor(ROWS, requires_grad=True)
    v = u * 1
    c = v.conj()
    c[0] = c[1] * 2j
    c.imag.mul_(2)
    v.mul_(1 + 1j)
    (v * v.conj() * (1 + 0.5j)).sum().abs().backward()
    return [w.grad, u.grad]


def transforms(t):
    x = t.tensor(ROWS)

    def through_a_write(q):
        p = q.clone()
        c = p.conj()
        c[0] = 3j
        return (p * c).real.sum()

    return [
        t.func.vmap(lambda q: q.conj() * q.conj().real)(x),
        t.func.vmap(lambda q: q.conj().cumsum(0))(x.conj()),
        t.func.jvp(lambda q: q.conj() * 2j, (x,), (x * 1j,))[1],
        t.func.grad(through_a_write)(x[0]),
        t.func.vmap(t.func.grad(through_a_write))(x),
    ]


@pytest.mark.parametrize("program", [writes, reads, gradients, transforms])
def test_programs(program):
    """Results agree in value and layout, and say of themselves whether they are lazy."""
    mine, theirs = program(ft), program(pt)
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        assert (a.is_conj(), a.is_neg()) == (b.is_conj(), b.is_neg()), i
        a, b = (r.detach().resolve_conj().resolve_neg() for r in (a, b))
        assert_same(a, b, where=f"{program.__name__}, result {i}", strides=True)


def test_part_at_an_offset():
    """Views as another dtype count their offset in elements of that dtype."""
    for t in (ft, pt):
        x = t.tensor(ROWS).view(6)
        assert x[1:].imag.storage_offset() == 3
        assert t.view_as_real(x[2:]).storage_offset() == 4
    assert_same(ft.tensor(ROWS)[1].real, pt.tensor(ROWS)[1].real)
    with pytest.raises(RuntimeError, match=r"storage_offset\(\) must be divisible by 2"):
        ft.arange(9.0)[1:].view(ft.float64)


def test_under_vmap_the_imaginary_part_works_as_well():
    x = ft.tensor(ROWS)
    assert_same(ft.vmap(lambda q: q.conj().imag * 2)(x), pt.tensor(ROWS).conj().imag * 2)


@pytest.mark.parametrize("expression", [
    "y.numpy()", "y.imag.numpy()", "y.__dlpack__()", "np.asarray(y)", "y.view(t.float32)",
    "y.imag.view(t.int32)", "t.view_as_real(y)", "y.numpy(force=True)", "y.tolist()", "y.imag",
    "x.requires_grad_().conj().grad_fn.name()", "x.requires_grad_().mH.grad_fn.name()",
    "t._neg_view(x)", "y.data_ptr() == x.data_ptr()", "y.is_contiguous()",
])
def test_said_and_refused(expression):
    said = []
    for t in (ft, pt):
        x = t.tensor(ROWS)
        scope = {"t": t, "x": x, "y": x.conj(), "np": np}
        try:
            said.append(str(eval(expression, scope)))
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    assert said[0] == said[1]


@pytest.mark.parametrize(("writer", "reader"), [(ft, pt), (pt, ft), (ft, ft)])
def test_files_keep_the_bit(writer, reader):
    file = io.BytesIO()
    x = writer.tensor(ROWS)
    writer.save([x, x.conj()], file)
    file.seek(0)
    x, y = reader.load(file)
    y[0, 0] = 7j
    assert y.is_conj() and x[0, 0].item() == -7j
