"""Short traces that come again run on the host tier, with the values of any other way."""

from __future__ import annotations

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from ftorch.eager.runtime import executor, host_tier, short_traces

PROGRAMS = {
    "comparison": lambda lib, x: (x.sum() * 1.1 < 50).item(),
    "numbers": lambda lib, x: (((x[0] * 1.5 + 2) * 3 - 1) / 2).sum().item(),
    "index": lambda lib, x: sum(x[i, i].item() for i in range(3)),
    "argmax": lambda lib, x: x.argmax(1).tolist(),
    "extrema": lambda lib, x: [v.tolist() for v in x.max(0)],
    "policy": lambda lib, x: (x @ x.T).tanh().softmax(-1).tolist(),
    "gather": lambda lib, x: x[lib.tensor([2, 0, 0])].tolist(),
    "gradient": lambda lib, x: lib.autograd.grad((x.requires_grad_() ** 3).sum(), x)[0].tolist(),
    "writes": lambda lib, x: (x.clone().mul_(2).add_(1)[1:] + 1).tolist(),
    "integers": lambda lib, x: (lib.arange(6) // 4 + 1).tolist(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name):
    array = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    expected = PROGRAMS[name](reference, reference.tensor(array))
    for _ in range(short_traces._TRIALS + 4):
        np.testing.assert_allclose(PROGRAMS[name](torch, torch.tensor(array)), expected, rtol=2e-5)


@pytest.mark.skipif(not host_tier.ENABLED or not executor.DEFERRED, reason="there is no host tier")
def test_nothing_is_compiled():
    def run(n):
        x = torch.tensor(float(n))
        while x < 50:
            x = x * 1.1
        return x.item()

    for n in range(3):
        run(n + 1)
    before = executor.stats.compilations
    for n in range(40):
        run(n + 1)
    assert executor.stats.compilations == before


def test_a_step_that_fails_on_the_host_runs_otherwise():
    x = torch.ones(3)
    short_traces._known.clear()
    for _ in range(4):
        (x + 1).sum().item()
    (short,) = [s for key, s in short_traces._known.items() if s.run and key[0].name == "add"]

    def broken(*_):
        raise MemoryError

    short.run = broken
    found = (x + 1).sum().item()  # not in an assert: pytest would hold what is between, which makes another trace
    assert found == 6
    assert short.run is False
