"""Functional tensors: what they stand for after writes through views, and the calls that modes see, compared with PyTorch."""

from __future__ import annotations

import pytest
import torch as pt

import ftorch as ft
from ftorch.utils._python_dispatch import TorchDispatchMode as OurMode


def ran(torch, program, reapply_views):
    """What a program of functional tensors gives, what its input is then, and the calls that a mode sees."""
    calls = []

    class Log(OurMode if torch is ft else pt.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            calls.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.arange(6.0).view(2, 3)
    functional = torch._to_functional_tensor(x)
    with Log():
        torch._enable_functionalization(reapply_views=reapply_views)
        try:
            out = program(torch, functional)
        finally:
            torch._disable_functionalization()
    found = []
    for t in (functional, out):
        assert torch._is_functional_tensor(t)
        torch._sync(t)
        found.append(torch._from_functional_tensor(t).tolist())
    return found, list(out.shape), x.tolist(), calls


def several(torch, x):
    first, second = x.split(1)
    first.mul_(2)
    return second + first


def made_within(torch, x):
    y = torch.zeros(3, 2)
    y.t().copy_(x)
    y[0].fill_(7.0)
    return y


def nested(torch, x):
    y = x.view(-1)[1:5]
    y.unsqueeze(0).transpose(0, 1).squeeze(1).add_(1)
    return y * x.sum()


PROGRAMS = [
    lambda torch, x: x.view(-1)[1:3].mul_(10),
    lambda torch, x: x.t().select(0, 1).add_(1),
    lambda torch, x: x.add_(1) + x,
    lambda torch, x: x.detach().permute(1, 0).mul_(3),
    lambda torch, x: (x + 1).unsqueeze_(0).zero_(),
    lambda torch, x: x.unbind(1)[2].fill_(4.0),
    lambda torch, x: torch.add(x, 1, out=torch.empty(2, 3)),
    several, made_within, nested,
]


@pytest.mark.parametrize("reapply_views", [False, True])
@pytest.mark.parametrize("program", range(len(PROGRAMS)))
def test_writes_become_values(program, reapply_views):
    ours, theirs = (ran(torch, PROGRAMS[program], reapply_views) for torch in (ft, pt))
    assert ours[:3] == theirs[:3]
    if program < 4:
        assert ours[3] == theirs[3]
    assert not [c for c in ours[3] if c.split(".")[1].endswith("_")]


def test_what_is_refused():
    def refused(torch):
        x = torch._to_functional_tensor(torch.ones(4))
        frozen, part = torch._to_functional_tensor(torch.ones(2)), torch._to_functional_tensor(torch.ones(4)).view(2, 2)
        torch._freeze_functional_tensor(frozen)
        programs = (
            lambda: frozen.view(1, 2).add_(1), lambda: torch.ones(4).add_(x), lambda: part.resize_(9),
            lambda: torch._sync(torch.ones(1)), lambda: torch._from_functional_tensor(torch.ones(1)),
            lambda: torch._to_functional_tensor(x),
        )
        for program in programs:
            with pytest.raises(RuntimeError):
                program()

    refused(ft)
    refused(pt)


def test_gradients_are_functional():
    for torch in (ft, pt):
        x = torch._to_functional_tensor(torch.ones(3)).requires_grad_(True)
        (x * 2).exp().sum().backward()
        assert torch._is_functional_tensor(x.grad)
        torch._sync(x.grad)
        torch.testing.assert_close(torch._from_functional_tensor(x.grad), 2 * torch.full((3,), 2.0).exp())


def written_when_expanded(torch, x, size):
    part = x.expand(size)
    part.add_(1)
    part.abs_()
    return part


@pytest.mark.parametrize("reapply_views", [False, True])
@pytest.mark.parametrize("size", [(2, 3), (4, 2, 3)])
def test_writes_to_what_is_expanded(size, reapply_views):
    def program(torch, x):
        return written_when_expanded(torch, x, size) if size[0] == 4 else written_when_expanded(torch, x[:1], size)

    ours, theirs = (ran(torch, program, reapply_views) for torch in (ft, pt))
    assert ours == theirs


def test_writes_that_do_not_fit():
    def refused(torch):
        texts = []
        for x, write in (
            (torch.ones(3), lambda x: x.add_(torch.ones(2, 3))), (torch.ones(3), lambda x: x[:1].mul_(torch.ones(2))),
            (torch.ones(4, dtype=torch.int64), lambda x: x.view(2, 2).div_(2)),
        ):
            x = torch._to_functional_tensor(x)
            with pytest.raises(RuntimeError) as raised:
                write(x)
            torch._sync(x)
            texts.append((str(raised.value), torch._from_functional_tensor(x).tolist()))
        return texts

    assert refused(ft) == refused(pt)


def test_backward_while_writes_become_values():
    def found(torch):
        x = torch._to_functional_tensor(torch.arange(6.0).view(2, 3))
        torch._enable_functionalization(reapply_views=True)
        try:
            x.requires_grad_()
            y = x * 3
            y.mul_(2)
            y[0].add_(1)
            y.sum().backward()
            grad = x.grad
        finally:
            torch._disable_functionalization()
        torch._sync(grad)
        return torch._is_functional_tensor(grad), torch._from_functional_tensor(grad).tolist()

    assert found(ft) == found(pt)
