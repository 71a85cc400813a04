"""`torch.nn.utils._per_sample_grad`: which functions get gradients of each example, and what the others see."""

from __future__ import annotations

import numpy as np
import pytest
import torch as reference
from torch.nn.utils._per_sample_grad import call_for_per_sample_grads as their_call

import ftorch
from ftorch.nn.utils._per_sample_grad import call_for_per_sample_grads as our_call


def product(lib):
    class Module(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(5, 3))

        def forward(self, x):
            return x @ self.weight

    return Module()


MODELS = {
    "statistics of the batch": (
        lambda lib: lib.nn.Sequential(lib.nn.Conv2d(2, 3, 3), lib.nn.BatchNorm2d(3, affine=False), lib.nn.ReLU()), (6, 2, 5, 5)
    ),
    "random numbers of the batch": (lambda lib: lib.nn.Sequential(lib.nn.Linear(5, 4), lib.nn.Dropout(0.5)), (6, 5)),
    "norms": (
        lambda lib: lib.nn.Sequential(lib.nn.GroupNorm(2, 4), lib.nn.ReLU(), lib.nn.InstanceNorm1d(4, affine=True)), (6, 4, 9)
    ),
    "running statistics": (lambda lib: lib.nn.InstanceNorm1d(4, affine=True, track_running_stats=True), (6, 4, 9)),
    "layers": (lambda lib: lib.nn.Sequential(lib.nn.Linear(5, 4), lib.nn.Tanh(), lib.nn.LayerNorm(4)), (6, 3, 5)),
    "a recurrent layer": (lambda lib: lib.nn.GRU(5, 4, 2, batch_first=True), (6, 3, 5)),
}
REFUSED = {
    "a product": (product, (6, 5)),
    "affine statistics": (lambda lib: lib.nn.BatchNorm1d(5), (6, 5)),
    "a root mean square": (lambda lib: lib.nn.RMSNorm(5), (6, 5)),
    "a transposed convolution": (lambda lib: lib.nn.ConvTranspose1d(2, 3, 3), (6, 2, 5)),
}


def made(lib, build, shape):
    model, rng = build(lib), np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data.copy_(lib.from_numpy(rng.standard_normal(tuple(parameter.shape)).astype(np.float32)))
    return model, lib.from_numpy(rng.standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", MODELS)
def test_examples_have_gradients_and_see_the_batch(name, reduction):
    found = []
    for lib, call in ((ftorch, our_call), (reference, their_call)):
        model, x = made(lib, *MODELS[name])
        lib.manual_seed(3)
        y = call(model, loss_reduction=reduction)(x)
        y = y[0] if isinstance(y, tuple) else y
        (2 * y).sin().sum().backward()
        buffers = [b.numpy() for b in model.buffers()]
        found.append([y.detach().numpy(), *(p.grad_sample.numpy() for p in model.parameters()), *buffers])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", REFUSED)
def test_functions_that_do_not_say_where_examples_lie(name):
    messages = []
    for lib, call in ((ftorch, our_call), (reference, their_call)):
        model, x = made(lib, *REFUSED[name])
        with pytest.raises(RuntimeError) as error:
            call(model)(x)
        messages.append(str(error.value).split("\n")[0])
    assert messages[0] == messages[1]


def test_another_number_of_examples():
    messages = []
    for lib, call in ((ftorch, our_call), (reference, their_call)):
        model, x = made(lib, lambda lib: lib.nn.Linear(5, 3), (6, 5))
        with pytest.raises(RuntimeError) as error:
            call(model, batch_size=4)(x)
        messages.append(str(error.value))
    assert messages[0] == messages[1]


def test_examples_along_the_second_dimension():
    found = []
    for lib, call in ((ftorch, our_call), (reference, their_call)):
        model, x = made(lib, lambda lib: lib.nn.GRU(5, 3), (2, 6, 5))
        call(model, batch_first=False)(x)[0].sin().sum().backward()
        found.append([p.grad_sample.numpy() for p in model.parameters()])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
