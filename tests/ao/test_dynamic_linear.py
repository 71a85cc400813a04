"""Linear layers whose inputs are quantized as they come: PyTorch's numbers, bit for bit, by every way that a call takes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import torch

import ftorch


def _layer(t, weight, bias, per_channel):
    w = t.tensor(weight)
    if per_channel:
        scales, points = t.linspace(0.01, 0.05, len(w)).double(), t.zeros(len(w), dtype=t.int64)
        quantized = t.quantize_per_channel(w, scales, points, 0, t.qint8)
    else:
        quantized = t.quantize_per_tensor(w, 0.03, 0, t.qint8)
    return t.ops.quantized.linear_prepack(quantized, None if bias is None else t.tensor(bias))


def _compare(rows, outputs, terms, has_bias=True, per_channel=False, reduce_range=True, factor=1.0, compiled=True):
    rng = np.random.default_rng(rows * 1000 + outputs)
    x = (rng.standard_normal((rows, terms)) * factor).astype(np.float32)
    weight = rng.standard_normal((outputs, terms)).astype(np.float32)
    bias = rng.standard_normal(outputs).astype(np.float32) if has_bias else None
    packed = _layer(torch, weight, bias, per_channel)
    wanted = torch.ops.quantized.linear_dynamic(torch.tensor(x), packed, reduce_range).numpy()
    own = _layer(ftorch, weight, bias, per_channel)

    def call(x):
        return ftorch.ops.quantized.linear_dynamic(x, own, reduce_range)

    runs = [call, call, call, *([ftorch.compile(call)] if compiled else [])]
    for run in runs:
        np.testing.assert_array_equal(run(ftorch.tensor(x)).numpy(), wanted)


# Rows of every tile, columns that fill vectors and panels or not, terms that fill words or not.
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 8, 15, 40])
@pytest.mark.parametrize("outputs, terms", [(1, 1), (16, 4), (17, 7), (130, 65), (250, 260)])
def test_numbers_are_pytorchs(rows, outputs, terms):
    _compare(rows, outputs, terms, has_bias=rows % 2 == 1, per_channel=terms % 2 == 1, compiled=rows in (1, 8))


@pytest.mark.parametrize("factor", [0.0, 1e-38, 1e-7, 1e-3, 1e4])
@pytest.mark.parametrize("reduce_range", [False, True])
def test_ranges_of_every_size(factor, reduce_range):
    _compare(6, 20, 33, reduce_range=reduce_range, factor=factor)


def test_wide_layers_of_several_blocks():
    _compare(70, 700, 1100, per_channel=True)
    _compare(3, 2100, 513)


CODE = """
from tests.ao import test_dynamic_linear as own
own._compare(5, 70, 33)
own._compare(1, 33, 64, has_bias=False, per_channel=True)
"""


@pytest.mark.parametrize("instructions", ["avx2", "plain", "0"])
def test_other_instructions(instructions):
    root = pathlib.Path(__file__).parents[2]
    environment = {**os.environ, "FTORCH_NATIVE": instructions, "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", CODE], cwd=root, env=environment, check=True, timeout=300)


@pytest.mark.parametrize("layers, bidirectional, steps", [(1, False, 1), (2, False, 7), (2, True, 5)])
def test_lstms(layers, bidirectional, steps):
    """All steps are one operation; first, later and compiled calls have the same bits."""
    found = []
    for t in (torch, ftorch):
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.LSTM(11, 13, layers, bidirectional=bidirectional))
        model = t.ao.quantization.quantize_dynamic(model.eval(), {t.nn.LSTM})
        x = t.tensor(np.random.default_rng(0).standard_normal((steps, 3, 11)).astype(np.float32))
        runs = [model, model, model, t.compile(model)] if t is ftorch else [model]
        with t.no_grad():
            results = [run(x) for run in runs]
        found.append([[v.numpy() for v in (y, *state)] for y, state in results])
    (theirs,), own = found
    for results in own:
        for wanted, first, result in zip(theirs, own[0], results):
            np.testing.assert_allclose(result, wanted, 1e-5, 1e-5)
            np.testing.assert_allclose(result, first, 1e-6, 1e-6)
    for results in own[1:3]:
        for first, result in zip(own[0], results):
            np.testing.assert_array_equal(result, first)


def test_compiled_layers_see_other_weights():
    """`set_weight_bias`, `load_state_dict` and assignments replace packed weights: a compiled call has those there are."""

    def weight(t, value, *shape):
        return t.quantize_per_tensor(t.full(shape, value), 0.5, 0, t.qint8)

    def run(t, compiled):
        dynamic, pack, rows = t.ao.nn.quantized.dynamic, t.ops.quantized.linear_prepack, []
        linear, other = dynamic.Linear(4, 3), dynamic.Linear(4, 3)
        other.set_weight_bias(weight(t, 3.0, 3, 4), t.zeros(3))
        call, x = compiled(linear), t.ones(2, 4)
        for value in (1.0, 2.0):
            linear.set_weight_bias(weight(t, value, 3, 4), t.zeros(3))
            rows.append(call(x).tolist())
        linear.load_state_dict(other.state_dict())
        rows.append(call(x).tolist())
        lstm = dynamic.LSTM(4, 3)
        call = compiled(lstm)
        for value in (0.5, -0.5):
            products = [pack(weight(t, value, 12, n), t.zeros(12)) for n in (4, 3)]
            cell = t.ops.quantized.make_quantized_cell_params_dynamic(*products, t.zeros(12), t.zeros(12), True)
            lstm._all_weight_values[0].param = cell
            rows.append(call(t.ones(2, 1, 4))[0].tolist())
        return rows

    rows = run(ftorch, ftorch.compile)
    for own, eager, wanted in zip(rows, run(ftorch, lambda f: f), run(torch, lambda f: f), strict=True):
        np.testing.assert_allclose(own, eager, rtol=1e-6)  # a program rounds a cell's functions otherwise
        np.testing.assert_allclose(own, wanted, rtol=1e-5)


def _answers(t, calls):
    """What calls of recurrent layers and cells give, or their errors."""
    dynamic, zeros, ones = t.ao.nn.quantized.dynamic, t.zeros, t.ones
    scope = {
        "t": t, "z": zeros, "o": ones, "lstm": dynamic.LSTM(3, 2), "cell": dynamic.LSTMCell(3, 2),
        "gru_cell": dynamic.GRUCell(3, 2),
        "gru": dynamic.GRU(3, 2, 2, bidirectional=True, batch_first=True),
    }
    found = []
    for text in calls:
        try:
            found.append(str(eval(text, scope)))
        except (RuntimeError, KeyError) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def test_states_of_other_sizes_are_refused():
    calls = [
        "lstm(o(5, 4, 3), (z(2, 4, 2), z(2, 4, 2)))", "lstm(o(5, 4, 3), (z(1, 1, 2), z(1, 1, 2)))",
        "lstm(o(5, 4, 3), (z(1, 4, 2), z(1, 3, 2)))", "gru(o(4, 5, 3), z(4, 5, 2))", "gru(o(4, 5, 3), z(2, 4, 2))",
        "cell(o(4, 3), (z(4, 2), z(1, 2)))", "cell(o(4, 3), (z(4, 3), z(4, 2)))", "gru_cell(o(4, 3), z(1, 2))",
        "gru.get_expected_hidden_size(o(4, 5, 3), None)", "lstm.get_expected_hidden_size(o(5, 4, 3), t.tensor([4, 2]))",
        "len(lstm.permute_hidden((z(1, 2, 2), z(1, 2, 2)), t.tensor([1, 0])))", "lstm.set_weight_bias({})",
        "lstm.check_hidden_size(z(1, 2, 3), (1, 2, 2), 'X {} Y {}')", "cell.set_weight_bias({})",
    ]
    assert _answers(ftorch, calls) == _answers(torch, calls)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "LSTMCell", "GRUCell"])
def test_weights_that_are_set_are_those_of_the_next_call(kind):
    layers = [getattr(ftorch.ao.nn.quantized.dynamic, kind)(3, 2) for _ in range(2)]
    x = ftorch.ones(4, 3) if kind.endswith("Cell") else ftorch.ones(5, 4, 3)
    values = layers[0]._weight_bias()
    layers[1].set_weight_bias(values if kind.endswith("Cell") else values["weight"] | values["bias"])
    results = [layer(x) for layer in layers]
    results = [r[0] if isinstance(r, tuple) else r for r in results]
    assert results[0].tolist() == results[1].tolist()


@pytest.mark.parametrize("rows", [(0,), (3,), (2, 3)])
@pytest.mark.parametrize("per_channel", [False, True])
def test_no_terms(rows, per_channel):
    """Sums of nothing are the bias; PyTorch leaves such results unwritten."""
    bias = np.float32([1, -2, 3, 4])
    packed = _layer(ftorch, np.zeros((4, 0), np.float32), bias, per_channel)
    out = ftorch.ops.quantized.linear_dynamic(ftorch.zeros(*rows, 0), packed)
    assert np.array_equal(out.numpy(), np.broadcast_to(bias, (*rows, 4)))
