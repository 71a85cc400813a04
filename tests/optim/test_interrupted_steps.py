"""Optimizers' steps that are interrupted wherever Python looks for signals: parameters and states are those of before or of
after the step, what changed counts as written to, gradients are recorded afterwards, and training goes on as if nothing had
been."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ftorch as torch
from tests import interrupting

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 0.05),
    "single": lambda p: torch.optim.Adam(p, 0.05, foreach=False),
    "fused": lambda p: torch.optim.AdamW(p, 0.05, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.05),
}
_SAMPLE = 40


class _Training:
    def __init__(self, name):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
        self.parameters = [*self.model.parameters()]
        self.optimizer = OPTIMIZERS[name](self.parameters)
        self.x, self.y = torch.linspace(-1, 1, 12).reshape(3, 4), torch.linspace(0, 1, 6).reshape(3, 2)

    def backward(self):
        self.optimizer.zero_grad()
        ((self.model(self.x) - self.y) ** 2).mean().backward()

    def values(self):
        states = [v for p in self.parameters for _, v in sorted(self.optimizer.state[p].items()) if v is not None]
        return [v.detach().numpy().copy() for v in (*self.parameters, *states)]

    def at(self, step):
        for _ in range(step):
            self.backward()
            self.optimizer.step()
        self.backward()
        self.values()
        return self


def _same(a, b):
    return all(np.allclose(x, y, rtol=1e-5, atol=1e-6) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name):
    uninterrupted, wanted = _Training(name).at(1), []
    for _ in range(4):
        uninterrupted.optimizer.step()
        wanted.append(uninterrupted.values())
        uninterrupted.backward()
    draw, hits = random.Random(name), 0
    for _ in range(_SAMPLE):
        places = interrupting.count(_Training(name).at(2).optimizer.step)  # fewer when programs are there
        place = draw.randint(1, places)
        training = _Training(name).at(2)
        versions = [p._version for p in training.parameters]
        where = interrupting.interrupt(training.optimizer.step, place)
        found, hits = training.values(), hits + (where is not None)
        after = [i for i in (0, 1) if _same(found, wanted[i])]
        assert len(after) == 1, where
        for p, version, value, before in zip(training.parameters, versions, found, wanted[0]):
            assert p._version > version or np.array_equal(value, before), where
        assert torch.is_grad_enabled(), where
        training.backward()
        training.optimizer.step()
        assert _same(training.values(), wanted[after[0] + 1]), where
    assert hits > _SAMPLE / 2
