"""Tensors made in inference mode: what they are, and what they refuse outside."""

from __future__ import annotations

import pytest
import torch as pt

import ftorch as ft

from ..oracle import outcome


def made(t):
    with t.inference_mode():
        return t.ones(2) * 2


def grad_modes(t):
    with t.no_grad(), t.inference_mode(False):
        a = t.is_grad_enabled()
    with t.inference_mode():
        b = t.is_grad_enabled()
        with t.inference_mode(False):
            c = t.is_grad_enabled(), t.ones(1).is_inference()
    return a, b, c, t.is_grad_enabled()


def flags(t):
    normal = t.ones(2)
    with t.inference_mode():
        tensors = [t.tensor([1.0]), t.ones(2), t.randn(2), normal + 1, normal[:1], normal.detach()]
        normal.add_(1)
        fresh = t.ones(2).add_(1)
    x = made(t)
    tensors += [x[:1], x.detach(), x.clone(), x + 1, fresh, normal]
    return [v.is_inference() for v in tensors], normal._version


def backward(t):
    w = t.ones(2, requires_grad=True)
    (w + made(t)).sum().backward()
    return w.grad.tolist()


PROGRAMS = {
    "flags": flags, "grad modes": grad_modes, "not saved": backward,
    "saved": lambda t: (t.ones(2, requires_grad=True) * made(t)).sum(),
    "in place": lambda t: made(t).add_(1), "view in place": lambda t: made(t)[:1].add_(1),
    "requires grad": lambda t: made(t).requires_grad_(), "version": lambda t: made(t)._version,
    "item": lambda t: made(t).sum().item(), "deepcopy": lambda t: t.clone(made(t)).is_inference(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_pytorch(name):
    (a, mine), (b, theirs) = (outcome(PROGRAMS[name], t) for t in (ft, pt))
    assert (a, type(mine), str(mine)) == (b, type(theirs), str(theirs))


def test_threads_have_their_own_mode():
    import threading

    seen = []
    with ft.inference_mode():
        thread = threading.Thread(target=lambda: seen.append(ft.ones(1).is_inference()))
        thread.start()
        thread.join()
    assert seen == [False]
