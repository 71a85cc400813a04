"""Sizes that are equal by chance, small, or in another order are served by the class of sizes that are not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch as oracle

import ftorch as torch
from ftorch.eager.core.jaxprs import PLAIN_CALLS
from ftorch.eager.runtime import size_classes

WARM = [(29, 24), (41, 36), (53, 47)]
CHANCE = [(31, 31), (13, 13), (37, 2), (3, 44), (26, 38)]  # equal, small, the other order


def _convolution(lib, n, m, rng):
    x = lib.tensor(rng.standard_normal((2, 5, n + 7, m + 7)).astype(np.float32))
    w = lib.full((6, 5, 3, 3), 0.1).requires_grad_()
    y = lib.nn.functional.interpolate(lib.nn.functional.conv2d(x, w).relu(), (m + 1, n + 2), mode="bilinear")
    y.square().mean().backward()
    return y, w.grad


def _linear(lib, n, m, rng):
    x = lib.tensor(rng.standard_normal((n, m)).astype(np.float32)).requires_grad_()
    w = lib.tensor(rng.standard_normal((24, m)).astype(np.float32)).requires_grad_()
    y = lib.nn.functional.gelu(lib.nn.functional.linear(x, w)).softmax(-1)[:, : m - 1]
    (y * lib.arange(y.shape[1])).sum().backward()
    return y, x.grad, w.grad


def _loss(lib, n, m, rng):
    x = lib.tensor(rng.standard_normal((n, m)).astype(np.float32)).requires_grad_()
    loss = lib.nn.functional.cross_entropy(x, lib.tensor(rng.integers(0, m, n)))
    loss.backward()
    return loss, x.grad, x.detach().t() @ x.detach()


PROGRAMS = [_convolution, _linear, _loss]


@pytest.mark.parametrize("program", PROGRAMS)
def test_sizes_that_are_equal_by_chance_give_pytorchs_results(program):
    for n, m in WARM + CHANCE:
        ours = program(torch, n, m, np.random.default_rng(n))
        theirs = program(oracle, n, m, np.random.default_rng(n))
        for x, y in zip(ours, theirs, strict=True):
            assert tuple(x.shape) == tuple(y.shape) and x.stride() == y.stride()
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=2e-4, atol=2e-5)


class _Table:
    """The classes of a kernel of two arrays, and how often it was traced."""

    def __init__(self, kernel):
        self.kernel, self.table, self.traces = kernel, size_classes.ClassTable(), 0
        self.calls: list[int] = []  # of each trace, those of jaxprs

    def find(self, *shapes):
        found = size_classes.signature([("t", 0), ("t", 1)], [torch.empty(s) for s in shapes], [])
        assert found is not None

        def trace(sizes, inline):
            self.traces += 1
            at, _ = size_classes.at_sizes(found.key, sizes)
            structs = [jax.ShapeDtypeStruct(s, d.numpy) for d, s in at]
            with jax.disable_jit(inline):
                closed, is_single = size_classes.traced(self.kernel, structs, "", None, {})
            self.calls.append(sum(eqn.primitive.name in PLAIN_CALLS for eqn in closed.jaxpr.eqns))
            return closed, is_single

        before, instance = self.traces, self.table.known(found) or self.table.find(found, trace)
        return instance, self.traces - before


def test_a_class_is_traced_once_where_sizes_are_equal_and_then_never():
    kernel = _Table(lambda x, w: x @ w.T)
    assert kernel.find((29, 24), (7, 24)) == (None, 0)
    general, traces = kernel.find((41, 36), (8, 36))
    assert general is not None and traces >= 4
    for shapes, most in [
        (((33, 33), (9, 33)), 1),
        (((19, 19), (5, 19)), 0),
        (((2, 30), (30, 30)), 1),
        (((2, 31), (31, 31)), 0),
    ]:
        instance, traces = kernel.find(*shapes)
        assert instance is not None and instance.of is general.of and traces == most
        assert instance.shapes == ((shapes[0][0], shapes[1][0]),)


def test_one_sample_leaves_jaxprs_with_jax():
    kernel = _Table(lambda x, w: jnp.where(x @ w.T > 0, jnp.moveaxis(x @ w.T, 0, 1).T, 1.0))
    kernel.find((29, 24), (7, 24))
    general, traces = kernel.find((41, 36), (8, 36))
    assert general is not None and traces >= 4
    assert kernel.calls[0] and not any(kernel.calls[1:])
    kernel.find((33, 33), (9, 33))
    assert len(kernel.calls) == traces + 1 and not kernel.calls[-1]


def test_loops_are_sampled_as_loops():
    kernel = _Table(lambda x, w: jax.lax.fori_loop(0, 9, lambda i, y: jnp.tanh(y) + i, x @ w.T))
    kernel.find((29, 24), (7, 24))
    general, _ = kernel.find((41, 36), (8, 36))
    assert "scan" in [call.step.primitive for call in general.of.program.calls]


def test_what_is_another_program_without_inner_calls_is_sampled_as_it_is():
    kernel = _Table(lambda x, w: x @ w.T if jax.config.jax_disable_jit else (x * 2) @ w.T)
    kernel.find((29, 24), (7, 24))
    general, _ = kernel.find((41, 36), (8, 36))
    assert [call.step.primitive for call in general.of.program.calls][0] == "mul"
    assert kernel.find((33, 33), (9, 33))[0].of is general.of


def test_what_compares_sizes_keeps_its_own_class_where_they_are_equal():
    kernel = _Table(lambda x, w: x @ w if x.shape == w.shape else x.sum() * w)
    kernel.find((29, 24), (24, 25))
    assert kernel.find((31, 26), (26, 27))[0] is not None
    assert kernel.find((33, 33), (33, 33))[0] is None


def test_a_kernel_that_means_something_else_where_sizes_are_equal_keeps_its_own_class():
    """A right side of as many vectors as there are matrices is one of vectors, else a matrix."""

    def product_and_sum(a_shape, b_shape):
        rng = np.random.default_rng(sum(a_shape))
        a, b = rng.standard_normal(a_shape) + 9 * np.eye(a_shape[-1]), rng.standard_normal(b_shape)
        ours = torch.linalg.solve(torch.tensor(a), torch.tensor(b))
        theirs = oracle.linalg.solve(oracle.tensor(a), oracle.tensor(b))
        assert tuple(ours.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-12)

    for n in (5, 7, 9):
        product_and_sum((n + 11, n, n), (n, n + 4))
    for n in (6, 8, 10):
        product_and_sum((n, n, n), (n, n))
        product_and_sum((n + 3, n, n), (n + 3, n))


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_interpolation_to_new_sizes_traces_nothing(mode, monkeypatch):
    def run(lib, h, w, oh, ow):
        x = lib.tensor(np.random.default_rng(h).standard_normal((2, 4, h, w)).astype(np.float32)).requires_grad_()
        y = lib.nn.functional.interpolate(x, (oh, ow), mode=mode)
        (y * lib.arange(ow)).sum().backward()
        return y.detach().numpy(), x.grad.numpy()

    sizes = [(7, 9, 20, 24), (8, 11, 23, 25), (10, 13, 31, 37), (9, 15, 21, 33), (6, 12, 18, 19)]
    traces = []
    kept = size_classes.traced
    for number, size in enumerate([*sizes, (7, 8, 14, 16), (12, 13, 12, 26), (33, 25, 11, 10)]):
        if number == 3:
            monkeypatch.setattr(size_classes, "traced", lambda *a: traces.append(1) or kept(*a))
        for x, y in zip(run(torch, *size), run(oracle, *size), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-5, atol=2e-4)
        if number == len(sizes) - 1:
            assert not traces
