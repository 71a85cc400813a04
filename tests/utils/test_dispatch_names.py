"""Which ops of ATen users' ``__torch_dispatch__`` sees, and that taking part changes no result."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

import ftorch

CALLS = """
F.layer_norm(a, (3,))
F.cross_entropy(a, i)
F.nll_loss(a, i)
F.conv2d(im, w, None, 2, 1)
F.conv_transpose2d(im, w.transpose(0, 1))
a.std()
a.std(0)
a.var(1, keepdim=True)
torch.var_mean(a)
F.group_norm(im, 2)
F.mse_loss(a, a + 1)
F.l1_loss(a, a + 1)
F.smooth_l1_loss(a, a + 1)
F.huber_loss(a, a + 1)
F.max_pool2d(im, 2)
F.adaptive_avg_pool2d(im, 1)
F.adaptive_avg_pool2d(im, 2)
F.logsigmoid(a)
F.normalize(a)
F.linear(torch.ones(2, 2, 3), a, torch.ones(2))
F.binary_cross_entropy_with_logits(a, a)
F.pad(a, (1, 1))
1 - a
2 / a
2 ** a
a @ a.T
a.mT
a.chunk(2)
a.split(1)
a.split([1, 1])
a.unbind(0)
a.movedim(0, 1)
a.swapaxes(0, 1)
a.argsort()
a.square()
a.isfinite()
torch.outer(a[0], a[0])
torch.broadcast_to(a, (2, 2, 3))
torch.zeros_like(a)
torch.allclose(a, a)
torch.linalg.det(a[:, :2])
""".strip().splitlines()
GRADIENTS = """
F.relu(a).sum()
a.sigmoid().sum()
a.tanh().sum()
a.log().mean()
(a * a).sum()
(a / 2).sum()
(a ** 2).sum()
(2 ** a).sum()
(a @ a.T).sum()
F.linear(a, w[:, 0, 0].repeat(1, 2)[:, :3], w[:, 0, 0, 0]).sum()
F.softmax(a, 1)[0, 0]
F.cross_entropy(a, i)
F.layer_norm(a, (3,)).square().sum()
F.normalize(a).sum()
a.flip([0]).norm(dim=1).sum()
a.t().reshape(6).cumsum(0).sum()
F.batch_norm(a, None, None, training=True).square().sum()
torch.stack(a.split(1)).prod()
""".strip().splitlines()


class _Spy:
    def __init__(self, library):
        if library is ftorch:
            from ftorch.utils._python_dispatch import TorchDispatchMode
        else:
            from torch.utils._python_dispatch import TorchDispatchMode
        self.names = names = []

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                names.append(str(func))
                return func(*args, **(kwargs or {}))

        self.mode = Mode()


def _scope(library, requires_grad):
    def numbers(*shape):
        t = library.arange(float(np.prod(shape))).reshape(shape) / 7 + 0.1
        return t.requires_grad_(requires_grad)

    return {"torch": library, "F": library.nn.functional, "a": numbers(2, 3), "im": numbers(1, 2, 4, 4),
            "w": numbers(3, 2, 2, 2), "i": library.tensor([0, 1])}


@pytest.mark.parametrize("call", CALLS)
def test_modes_see_the_ops_that_pytorch_calls(call):
    seen = []
    for library in (ftorch, torch):
        scope, spy = _scope(library, False), _Spy(library)
        with spy.mode:
            eval(call, scope)
        seen.append(spy.names)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("call", GRADIENTS)
def test_a_mode_that_only_looks_changes_no_gradient(call):
    found = []
    for library, spied in ((ftorch, True), (ftorch, False), (torch, False)):
        scope = _scope(library, True)
        with _Spy(library).mode if spied else contextlib.nullcontext():
            result = eval(call, scope)
            grads = library.autograd.grad(result, (scope["a"], scope["w"]), allow_unused=True)
        found.append([None if g is None else g.numpy() for g in (result.detach(), *grads)])
    for mine, plain, theirs in zip(*found):
        assert (mine is None) == (theirs is None)
        if mine is not None:
            np.testing.assert_allclose(mine, plain, 1e-5, 1e-6)
            np.testing.assert_allclose(mine, theirs, 1e-4, 1e-5)


def test_gradients_are_made_of_atens_ops():
    def names(call):
        scope, spy = _scope(ftorch, True), _Spy(ftorch)
        with spy.mode:
            ftorch.autograd.grad(eval(call, scope), scope["a"])
        return spy.names

    assert "aten.threshold_backward.default" in names("F.relu(a).sum()")
    assert "aten.sigmoid_backward.default" in names("a.sigmoid().sum()")
    assert "aten.tanh_backward.default" in names("a.tanh().sum()")
    assert "aten._softmax_backward_data.default" in names("F.softmax(a, 1)[0, 0]")
