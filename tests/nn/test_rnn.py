"""Recurrent networks against PyTorch's: outputs, states and gradients."""

import numpy as np
import pytest
import torch as reference

import ftorch as torch
from tests.oracle import both

LENGTHS = [4, 2, 1]
CASES = [
    ("RNN", {}), ("RNN", {"nonlinearity": "relu", "num_layers": 2}),
    ("GRU", {"bidirectional": True, "num_layers": 2, "bias": False}),
    ("LSTM", {"batch_first": True}), ("LSTM", {"bidirectional": True, "proj_size": 2}),
]


def _leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [] if value is None else [value]


def _run(package, name, options, x, packed):
    package.manual_seed(0)
    network = getattr(package.nn, name)(2, 3, **options)
    x = package.tensor(x, requires_grad=True)
    inputs = x
    if packed:
        inputs = package.nn.utils.rnn.pack_padded_sequence(
            x, LENGTHS, batch_first=network.batch_first
        )
    output, state = network(inputs)
    values = _leaves([output[0] if packed else output, state])
    sum((v * v).sum() for v in values).backward()
    gradients = [x.grad, *(p.grad for p in network.parameters())]
    return [v.detach().numpy() for v in [*values, *gradients]]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_network(name, options, packed):
    x = np.random.default_rng(0).normal(size=(4, 3, 2)).astype(np.float32)
    if options.get("batch_first"):
        x = x.swapaxes(0, 1).copy()
    runs = (_run(package, name, options, x, packed) for package in (reference, torch))
    for expected, actual in zip(*runs, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [
        ("LSTM", {}, (2, 2, 5)), ("GRU", {}, (2,)), ("RNN", {"num_layers": 0}, (1, 1, 2)),
        ("GRU", {"proj_size": 1}, (1, 1, 2)), ("LSTM", {"dropout": 2}, (1, 1, 2)),
    ],
    ids=str,
)
def test_errors(name, options, shape):
    caught = []
    for package in (reference, torch):
        with pytest.raises((RuntimeError, ValueError)) as info:
            getattr(package.nn, name)(2, 3, **options)(package.zeros(shape))
        caught.append((info.type, str(info.value)))
    assert caught[1] == caught[0]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bias": False}, {"bidirectional": True}])
def test_names_of_nodes(kind, dtype, options):
    def program(t):
        module = getattr(t.nn, kind)(3, 2, **options).to(getattr(t, dtype))
        x = t.ones(4, 2, 3, dtype=getattr(t, dtype))
        packed = t.nn.utils.rnn.pack_padded_sequence(x, [4, 2])
        return [found.grad_fn.name() for found in (module(x)[0], module(packed)[0].data)]

    both(program)


def test_names_of_nodes_of_projected_lstms():
    both(lambda t: t.nn.LSTM(3, 2, proj_size=1)(t.ones(4, 2, 3))[0].grad_fn.name())
