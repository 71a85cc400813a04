"""Checks of parameters that are still being computed and are to be differentiated come at the next look."""

import pytest
import torch as reference

import ftorch as torch


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
