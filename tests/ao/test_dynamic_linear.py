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
    assert rows == run(ftorch, lambda f: f)
    for own, wanted in zip(rows, run(torch, lambda f: f), strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-5)
