"""``gradcheck`` finds wrong derivatives and accepts right ones, in PyTorch's words."""


import pytest
import torch

import ftorch

from ..oracle import LIBRARIES, said


def function_of(t, forward, backward, along=None):
    class Made(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(t, ctx.saved_tensors[0], g)

        @staticmethod
        def jvp(ctx, tangent):
            return along(tangent)

    return Made.apply


def double(t, *values):
    return t.tensor(values, dtype=t.float64, requires_grad=True)


WRONG = lambda t: function_of(t, lambda x: x * x, lambda t, x, g: g)  # noqa: E731
FORWARD = lambda t: function_of(t, lambda x: x * 1, lambda t, x, g: g, lambda tangent: tangent * 2)  # noqa: E731
UNSCALED = lambda t: function_of(t, lambda x: x * 2, lambda t, x, g: t.full_like(g, 2.0))  # noqa: E731


@pytest.mark.parametrize("program", [
    lambda t: t.autograd.gradcheck(t.sin, double(t, 1.0, 2.0)),
    lambda t: t.autograd.gradcheck(t.sin, double(t, 1.0, 2.0), fast_mode=True),
    lambda t: t.autograd.gradcheck(t.mul, (double(t, 1.0, 2.0), double(t, 3.0, 4.0))),
    lambda t: t.autograd.gradcheck(lambda x: (x * 2, x.sum()), double(t, 1.0, 2.0)),
    lambda t: t.autograd.gradcheck(WRONG(t), double(t, 1.0, 2.0)),
    lambda t: t.autograd.gradcheck(WRONG(t), double(t, 1.0, 2.0), raise_exception=False),
    lambda t: t.autograd.gradcheck(UNSCALED(t), double(t, 1.0)),
    lambda t: t.autograd.gradcheck(t.sin, t.ones(2)),
    lambda t: t.autograd.gradcheck(lambda x: x.detach(), double(t, 1.0)),
    lambda t: t.autograd.gradcheck(t.sin, double(t, 1.0).detach().expand(3).requires_grad_()),
    lambda t: t.autograd.gradcheck(t.sin, double(t, 1.0), check_batched_grad=True),
    lambda t: t.autograd.gradcheck(t.sin, double(t, 1.0), check_forward_ad=True),
    lambda t: t.autograd.gradcheck(t.mul, (double(t, 1.0, 2.0), double(t, 3.0, 4.0)), check_forward_ad=True,
                                   check_batched_forward_grad=True, check_batched_grad=True),
    lambda t: t.autograd.gradcheck(
        lambda z: z * z, t.tensor([1 + 2j], dtype=t.complex128, requires_grad=True), check_forward_ad=True),
    lambda t: t.autograd.gradcheck(FORWARD(t), double(t, 1.0, 2.0), check_forward_ad=True),
    lambda t: t.autograd.gradcheck(FORWARD(t), t.ones(2, dtype=t.complex128, requires_grad=True), check_forward_ad=True),
    lambda t: t.autograd.gradcheck(lambda x: (x * 1, x * x.sum().item()), double(t, 1.0, 2.0), check_forward_ad=True,
                                   check_backward_ad=False, check_undefined_grad=False),
    lambda t: t.autograd.gradgradcheck(t.sin, double(t, 1.0, 2.0)),
    lambda t: t.autograd.gradgradcheck(lambda x: x**3, double(t, 1.0, 2.0), fast_mode=True),
    lambda t: t.autograd.gradcheck(
        lambda z: z.abs(), t.tensor([1 + 2j], dtype=t.complex128, requires_grad=True)),
    lambda t: t.autograd.gradcheck(
        lambda z: z * z, t.tensor([1 + 2j], dtype=t.complex128, requires_grad=True)),
    lambda t: t.autograd.gradcheck(
        lambda z: z * z, t.tensor([1 + 2j], dtype=t.complex128, requires_grad=True),
        fast_mode=True),
    lambda t: t.autograd.gradcheck(
        WRONG(t), t.tensor([1 + 2j], dtype=t.complex128, requires_grad=True)),
    lambda t: t.autograd.gradcheck(t.sin, t.ones(1, requires_grad=True), atol=1, rtol=1),
])
def test_same_verdict(program):
    assert said(ftorch, program, UserWarning) == said(torch, program, UserWarning)


def test_fast_mode_shows_the_slow_jacobians():
    def program(t):
        return t.autograd.gradcheck(WRONG(t), double(t, 1.0, 2.0), fast_mode=True)

    ours, theirs = (said(t, program)[0] for t in LIBRARIES)
    assert ours.split("slow mode:")[1][:120] == theirs.split("slow mode:")[1][:120]


def test_random_numbers_are_drawn_for_batches_only():
    def drawn(t, **options):
        t.manual_seed(3)
        t.autograd.gradcheck(t.sin, double(t, 1.0, 2.0), check_forward_ad=True, **options)
        return t.rand(1).item()

    for options in ({}, {"fast_mode": True}, {"check_batched_grad": True}, {"check_batched_forward_grad": True}):
        assert drawn(ftorch, **options) == drawn(torch, **options), options


def test_forward_mode_is_compared_along_every_element():
    class Wrong(ftorch.autograd.Function):
        """Its forward mode is right for the sum of the inputs' changes alone."""

        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def jvp(ctx, tangent):
            return tangent.mean().expand(tangent.shape).clone()

    with pytest.raises(RuntimeError, match="forward mode"):
        ftorch.autograd.gradcheck(Wrong.apply, double(ftorch, 1.0, 2.0), check_forward_ad=True, check_backward_ad=False)
