"""Calls that look at values give no program: after some sizes, others are not captured."""

import numpy as np
import pytest
import torch as oracle

import ftorch as torch
from ftorch.jit import compiled_function


def _looking(lib):
    def function(x, scale=1.0):
        y = (x * scale).softmax(-1)
        return y[y > y.mean().item()].sum()

    return function


def test_new_sizes_of_calls_that_look_are_captured_a_few_times():
    compiled, plain = torch.compile(_looking(torch), dynamic=True), _looking(oracle)
    for n in (5, 8, 13, 21, 34, 55):
        x = np.random.default_rng(n).standard_normal((n, 7)).astype(np.float32)
        np.testing.assert_allclose(compiled(torch.tensor(x)).numpy(), plain(oracle.tensor(x)).numpy(), rtol=1e-5)
    assert len(compiled.events) == 3 and all(event.captured is None for event in compiled.events)
    compiled(torch.ones(4, 4, 4))  # another kind of call
    assert len(compiled.events) == 4
    compiled.reset()
    compiled(torch.ones(9, 9))
    assert len(compiled.events) == 1


def test_a_kind_with_programs_goes_on_being_captured():
    def function(x):
        return x.sum().item() if x.shape[0] % 2 else x * 2

    compiled = torch.compile(function)
    for n in (5, 8, 9, 10, 11, 12, 13, 14):
        x = torch.arange(float(n))
        result = compiled(x)
        assert result == x.sum().item() if n % 2 else torch.equal(result, x * 2)
    assert len(compiled.programs) == 4


def test_sizes_of_what_is_not_captured_are_not_compared(monkeypatch):
    """Once calls of some sizes ended their captures, others run in Python, and nobody asks how their kinds differ."""

    def function(x):
        return x.sum().item() * 2 + x.shape[0]

    compiled = torch.compile(function, dynamic=True)
    assert [compiled(torch.ones(n, 2)) for n in range(4, 10)] == [5 * n for n in range(4, 10)]
    monkeypatch.setattr(compiled_function, "difference", lambda *_: pytest.fail("kinds were compared"))
    assert [compiled(torch.ones(n, 2)) for n in range(10, 16)] == [5 * n for n in range(10, 16)]
    assert [compiled(torch.ones(12, 2)) for _ in range(3)] == [60] * 3
