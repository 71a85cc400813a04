"""The LSTM's time loop in C++, against PyTorch's layer and against XLA's loop."""

import functools

import jax
import numpy as np
import pytest
import torch

import ftorch
from ftorch.eager import native
from ftorch.eager.kernels.nn import rnn
from ftorch.eager.native.passes.rewrite import rewritten

pytestmark = pytest.mark.skipif(not native.available, reason="installed without a C++ compiler")
rng = np.random.default_rng(0)


def random(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def operands(time, batch, hidden):
    """Of the loop: the input's gates, the first states, the weight."""
    return (
        random(time, batch, 4 * hidden), random(batch, hidden), random(batch, hidden),
        random(4 * hidden, hidden) / 4,
    )


def gradient_operands(time, batch, hidden, reverse, *exists):
    gates_x, h, c, weight = operands(time, batch, hidden)
    gates, _, cells = loop(reverse)(gates_x, h, c, weight, *exists)
    states = random(time, batch, hidden), random(time, batch, hidden)
    return gates, cells, c, *states, random(*gates.shape), h, random(*c.shape), weight


def loop(reverse):
    return functools.partial(rnn._LSTM.bind, reverse=reverse)


def gradient(reverse):
    return functools.partial(rnn._LSTM_GRADIENT.bind, reverse=reverse)


def is_native(function, *operands):
    return "target_name=ftorch_lstm" in str(jax.make_jaxpr(rewritten(function))(*operands))


SIZES = [(1, 17, 16), (3, 2, 1), (5, 3, 7), (4, 9, 100), (2, 1, 260), (9, 37, 50)]  # the last on two threads


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_loop_and_its_gradient_are_those_of_xla(sizes, reverse):
    cases = [
        (loop(reverse), operands(*sizes)),
        (gradient(reverse), gradient_operands(*sizes, reverse)),
    ]
    for function, given in cases:
        agrees(function, given)


def agrees(function, given):
    assert is_native(function, *given)
    for mine, theirs in zip(jax.jit(rewritten(function))(*given), function(*given), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("is_sorted", [True, False], ids=["packed", "any"])
def test_sequences_that_have_ended_keep_their_states(sizes, reverse, is_sorted):
    time, batch, _ = sizes
    lengths = rng.integers(0, time + 1, batch)
    exists = np.arange(time)[:, None] < np.sort(lengths)[::-1] if is_sorted else rng.random((time, batch)) < 0.6
    exists = exists[..., None]
    agrees(loop(reverse), (*operands(*sizes), exists))
    agrees(gradient(reverse), (*gradient_operands(*sizes, reverse, exists), exists))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [None, [7, 2, 5, 7, 1]])
def test_layers_train_as_in_pytorch(bidirectional, lengths):
    theirs = torch.nn.LSTM(6, 20, 2, bidirectional=bidirectional)
    mine = ftorch.nn.LSTM(6, 20, 2, bidirectional=bidirectional)
    mine.load_state_dict({k: ftorch.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    x, weight = random(7, 5, 6), random(7, 5, 20 * (1 + bidirectional))
    found = []
    for library, layer in ((ftorch, mine), (torch, theirs)):
        given = library.from_numpy(x.copy()).requires_grad_()
        rnn = library.nn.utils.rnn
        sequences = given if lengths is None else rnn.pack_padded_sequence(given, lengths, enforce_sorted=False)
        y, (h, c) = layer(sequences)
        y = y if lengths is None else rnn.pad_packed_sequence(y)[0]
        ((y * library.from_numpy(weight)).sum() + h.sin().sum() + c.cos().sum()).backward()
        found.append([y, h, c, given.grad, *(p.grad for p in layer.parameters())])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_extreme_gates_saturate_and_nan_stays():
    gates = np.array([-np.inf, -1e4, -90, -1e-6, 0, 1e-6, 90, 1e4, np.inf, np.nan], np.float32)
    for which in range(4):  # of the gates is extreme
        gates_x = np.full((1, gates.size, 4), 0.5, np.float32)
        gates_x[0, :, which] = gates
        state = np.full((gates.size, 1), 0.3, np.float32)
        given = gates_x, state, state, np.zeros((4, 1), np.float32)
        for mine, theirs in zip(jax.jit(rewritten(loop(False)))(*given), loop(False)(*given)):
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("mapped", [[0, 1, 2], [1], [3], [1, 4]], ids=["sequences", "states", "weight", "lengths"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_mapped_loops(mapped, is_packed):
    """With one weight for all, what is mapped is more sequences of the same kernel."""
    given = operands(3, 4, 8)
    if is_packed:
        given = (*given, rng.random((3, 4, 1)) < 0.6)
    each = [[x, ~x, x] if x.dtype == bool else [x, x / 2, x + 1] for x in given]
    batched = [np.stack(some, x.ndim - 2) if i in mapped else x for i, (x, some) in enumerate(zip(given, each))]
    check_mapped(loop(True), batched, [x.ndim - 2 if i in mapped else None for i, x in enumerate(given)], 3)


@pytest.mark.parametrize("mapped", [[*range(8)], [3, 5], [8]], ids=["sequences", "gradients", "weight"])
def test_mapped_gradients_of_loops(mapped):
    each = [gradient_operands(3, 4, 8, True) for _ in range(3)]
    weight = each[0][8]
    for i in (1, 2):  # gates and cells of the same weight
        gates, _, cells = loop(True)(random(3, 4, 32), random(4, 8), each[i][2], weight)
        each[i] = (gates, cells, *each[i][2:])
    batched = [np.stack([e[i] for e in each], each[0][i].ndim - 2) if i in mapped else each[0][i] for i in range(9)]
    check_mapped(gradient(True), batched, [x.ndim - 2 if i in mapped else None for i, x in enumerate(each[0])], 8)


def check_mapped(function, batched, axes, weight):
    mapped = jax.vmap(function, tuple(axes))
    assert is_native(mapped, *batched) == (axes[weight] is None)
    expected = [function(*(x if a is None else np.take(x, i, a) for x, a in zip(batched, axes, strict=True))) for i in range(3)]
    for found in (mapped(*batched), jax.jit(rewritten(mapped))(*batched)):
        for mine, theirs in zip(found, zip(*expected, strict=True), strict=True):
            np.testing.assert_allclose(mine, np.stack(theirs), rtol=1e-5, atol=1e-5)


def test_derivatives_of_the_loop_are_those_of_its_steps():
    given = operands(3, 4, 5)

    def pulled(*operands):
        results, pull = jax.vjp(loop(False), *operands)
        return pull(jax.tree.map(jax.numpy.ones_like, results))

    for mine, theirs in zip(jax.jit(rewritten(pulled))(*given), pulled(*given), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_large_steps_of_few_sequences_stay_with_the_products_that_share_threads(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert not is_native(loop(False), *operands(2, 32, 256))
    assert is_native(loop(False), *operands(2, 64, 256))
    assert is_native(loop(False), *operands(2, 2, 512))
