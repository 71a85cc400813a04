"""Gradients at sizes that never came before: PyTorch's, and no kernel is traced for them."""

import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager.runtime import host_tier
from tests.oracle import both


def _selected(lib, n):
    x, few = lib.arange(float(n), requires_grad=True), lib.ones(n, 1, requires_grad=True)
    y = x.masked_select(x % 3 == 1) ** 3
    z = (few * 1.5).masked_select(lib.arange(n * 2).reshape(n, 2) % 3 > 0)  # a mask that is larger
    first = lib.autograd.grad(y.sum() + (z * z).sum(), (x, few), create_graph=True)
    return *first, *lib.autograd.grad((first[0] ** 2).sum(), x)


def _parts(lib, n):
    """Views of complex numbers' parts, of parts as complex numbers, overlapping ones, conjugated ones."""
    w = (lib.arange(n * 8.0).reshape(n, 4, 2) / 9).requires_grad_()
    z = lib.view_as_complex((lib.arange(n * 8.0).reshape(n, 4, 2) / 7).cos()).requires_grad_()
    loss = (z.real**2 * z.imag).sum() + (lib.view_as_real(z)[..., 0] * 3).exp().sum() + (z.mT.imag[1] * 2).sum()
    loss = loss + (lib.view_as_complex(w)[1:, ::2] * z[1:, ::2].conj()).imag.sum()
    loss = loss + lib.view_as_complex(w).conj().real.unfold(0, 3, 1).pow(2).sum() + z[:, 1].imag.unfold(0, 3, 1).sum()
    first = lib.autograd.grad(loss, (z, w), create_graph=True)
    again = (lib.view_as_real(first[0].resolve_conj()) ** 2).sum() + (first[1] ** 2).sum()
    return [g.resolve_conj() for g in (*first, *lib.autograd.grad(again, (z, w)))]


@pytest.mark.parametrize("program", [_selected, _parts])
def test_gradients_of_new_sizes_are_pytorchs(program, monkeypatch):
    for n in (11, 14, 18, 23):
        for mine, theirs in zip(program(ftorch, n), program(torch, n), strict=True):
            assert str(mine.dtype) == str(theirs.dtype) and mine.shape == theirs.shape
            np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-5)
    if host_tier.ENABLED:
        monkeypatch.setattr(host_tier, "_traced", lambda plan: pytest.fail(f"{plan.name} is traced"))
        for n in (29, 35):
            [g.detach().numpy() for g in program(ftorch, n)]


def test_what_masked_select_reads_must_not_change():
    def program(lib):
        x = lib.arange(5.0, requires_grad=True)
        y = x * 2
        z = y.masked_select(x > 1)
        y.add_(1)
        z.sum().backward()

    both(program)
