"""Checks of parameters that are still being computed and are to be differentiated come at the next look."""

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from ftorch.eager.runtime import executor, trace_slice
from tests.oracle import assert_shows_same


def _error(lib, make):
    leaf = lib.tensor([1.0, -1.0], requires_grad=True)
    with pytest.raises(ValueError) as caught:
        make(lib, leaf)
    text, numbers = str(caught.value).split(", grad_fn")[0].split(", requires_grad")[0].split("values:\n")
    return text, numbers


def _at_once(lib, leaf):
    lib.distributions.Exponential(leaf)


def _later(lib, leaf):
    lib.distributions.Exponential(leaf * 2).rsample().sum().item()


@pytest.mark.parametrize("make", [_at_once, _later])
def test_the_error_is_pytorchs(make):
    assert _error(torch, make) == _error(reference, make)


def test_valid_parameters_pass():
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    assert torch.distributions.Exponential(leaf * 2).rsample().sum().item() > 0


def pending_work():
    """Work that nobody has asked for; how many steps are recorded."""
    executor.flush()
    y = torch.randn(4, requires_grad=True) * 2
    return y, executor.pending_steps()


def test_checks_of_constants_leave_work_pending():
    y, steps = pending_work()
    torch.distributions.Normal(torch.zeros(()), torch.ones(()))
    assert executor.pending_steps() > steps
    with pytest.raises(ValueError, match="to satisfy the constraint GreaterThan"):
        torch.distributions.Normal(torch.zeros(3), torch.full((3,), -0.5))
    del y


def test_checks_of_values_at_hand_leave_work_pending():
    value, wrong = torch.tensor([0.0, 1.0]), torch.tensor([0.0, 2.0])
    y, steps = pending_work()
    coin = torch.distributions.Bernoulli(logits=y[:2])
    coin.log_prob(value)
    assert executor.pending_steps() > steps
    with pytest.raises(ValueError, match="to be within the support"):
        coin.log_prob(wrong)


def test_values_computed_apart():
    a = torch.tensor([1.0, 2.0])
    zero, negative = torch.zeros(()) * 1.0, torch.zeros(()) * -1.0
    for t, expected in ((1 / zero, np.inf), (1 / negative, -np.inf), (a * 3 + 1, [4.0, 7.0])):
        assert executor.pending_steps()
        np.testing.assert_array_equal(trace_slice.value_of(t._ftorch_storage, from_inputs=True), expected)
    first, second = a.sort(descending=True)
    np.testing.assert_array_equal(trace_slice.value_of(second._ftorch_storage, from_inputs=True), [1, 0])
    assert executor.pending_steps()
    trace_slice.value_of((a + 1)._ftorch_storage)  # not of constants alone: everything runs
    assert not executor.pending_steps()
    assert first.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(
    "probs", [[[-0.1, 0.2, 0.3], [0.5, 0.3, 0.2]], [[-1.0, 10.0], [0.0, -1.0]]]
)
def test_checks_that_somebody_asked_for_wait(probs):
    def program(t):
        weights = t.tensor(probs, requires_grad=True)
        raised = []
        for make in (t.distributions.Categorical, t.distributions.OneHotCategorical):
            try:
                make(weights * 1, validate_args=True)
            except ValueError as error:
                raised.append(str(error).partition(" of ")[0])
        d = t.distributions.Exponential(weights.abs() * 2 + 1, validate_args=True)
        try:
            d.log_prob(weights * 3 - 40)
        except ValueError as error:
            raised.append(str(error).partition(" of ")[0])
        return raised

    assert len(assert_shows_same(program, show=lambda r: r)) == 3
