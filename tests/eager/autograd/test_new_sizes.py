"""Gradients at sizes that never came before: PyTorch's, and no kernel is traced for them."""

import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager.runtime import host_tier
from tests.oracle import both, both_with_text


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


def _repeated(lib, n):
    x, counts = (lib.arange(n * 3.0) / 7).reshape(n, 3).requires_grad_(), lib.arange(n) % 3
    y = lib.cat([x.repeat_interleave(counts, 0).reshape(-1), x.mT.repeat_interleave(counts, -1).reshape(-1),
                 x.repeat_interleave(lib.tensor([2]))])
    (first,) = lib.autograd.grad((y**3).sum(), x, create_graph=True)
    return first, *lib.autograd.grad((first**2).sum(), x)


@pytest.mark.parametrize("program", [_selected, _parts, _repeated])
def test_gradients_of_new_sizes_are_pytorchs(program, monkeypatch):
    for n in (11, 14, 18, 23):
        for mine, theirs in zip(program(ftorch, n), program(torch, n), strict=True):
            assert str(mine.dtype) == str(theirs.dtype) and mine.shape == theirs.shape
            np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-5)
    if host_tier.ENABLED:
        monkeypatch.setattr(host_tier, "_traced", lambda plan: pytest.fail(f"{plan.name} is traced"))
        for n in (29, 35):
            [g.detach().numpy() for g in program(ftorch, n)]


REPEATS = {
    "no dimensions": lambda t, x: x[0, 0].repeat_interleave(t.tensor([2]), 0),
    "another dimension": lambda t, x: x.repeat_interleave(t.tensor([2]), 2),
    "other counts": lambda t, x: x.repeat_interleave(t.tensor([2, 1]), 1),
    "another size": lambda t, x: x.repeat_interleave(t.tensor([2, 1]), -2, output_size=4),
    "a negative count": lambda t, x: x.repeat_interleave(t.tensor([-2, 0]), 0),
    "a table": lambda t, x: x.repeat_interleave(t.tensor([[2, 0]]), 0),
    "fractions": lambda t, x: x.repeat_interleave(t.tensor([2.0, 0]), 0),
}


@pytest.mark.parametrize("name", REPEATS)
@pytest.mark.parametrize("grad", [False, True])
def test_refused_repeats(name, grad):
    both_with_text(lambda t: REPEATS[name](t, t.arange(6.0).reshape(2, 3).requires_grad_(grad)))


@pytest.mark.parametrize("dim", [None, 0, -1])
def test_repeats_are_pytorchs_to_graphs_and_transforms(dim):
    def program(t):
        x, counts = t.arange(4.0).reshape(2, 2).requires_grad_(), t.tensor([2, 3] if dim is not None else [1, 2, 0, 2])
        y = x.repeat_interleave(counts, dim)
        slope = t.func.jvp(lambda z: z.repeat_interleave(counts, dim) ** 2, (x.detach(),), (x.detach(),))[1]
        return y.grad_fn.name(), y.grad_fn.next_functions[0][0].name(), y.detach(), slope

    both(program)


def test_what_masked_select_reads_must_not_change():
    def program(lib):
        x = lib.arange(5.0, requires_grad=True)
        y = x * 2
        z = y.masked_select(x > 1)
        y.add_(1)
        z.sum().backward()

    both(program)
