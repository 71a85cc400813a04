"""The first quantized layers (``torch.fbgemm_*``) and cells made of them: PyTorch's numbers and errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import ftorch


def _weights(t, *shape, seed=0, factor=1.0):
    rng = np.random.default_rng(seed)
    return t.tensor((rng.standard_normal(shape) * factor).astype(np.float32))


def _quantized(t, weight):
    levels, sums, scale, zero_point = t.fbgemm_linear_quantize_weight(weight)
    return levels, t.fbgemm_pack_quantized_matrix(levels), sums, scale, zero_point


def _plain(x):
    if isinstance(x, (tuple, list)):
        return [_plain(one) for one in x]
    return (x.numpy().tolist(), str(x.dtype).split(".")[1]) if hasattr(x, "numpy") else x


def _outcome(t, call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _plain(call(t))
        except (RuntimeError, TypeError, IndexError) as e:
            return type(e).__name__, str(e).split("\n")[0]


def _same(call):
    assert _outcome(ftorch, call) == _outcome(torch, call)


@pytest.mark.parametrize("factor", [0.0, 1e-6, 1e-3, 1.0, 1e5])
@pytest.mark.parametrize("shape", [(1, 1), (12, 5), (33, 70)])
def test_weights_are_quantized(shape, factor):
    for seed in range(4):
        _same(lambda t: t.fbgemm_linear_quantize_weight(_weights(t, *shape, seed=seed, factor=factor)))
        _same(lambda t: t.fbgemm_linear_quantize_weight(_weights(t, *shape, seed=seed, factor=factor).abs()))


@pytest.mark.parametrize("name", ["fbgemm_linear_int8_weight", "fbgemm_linear_int8_weight_fp32_activation"])
@pytest.mark.parametrize("rows, outputs, inputs", [((3,), 12, 5), ((2, 4), 33, 70), ((1,), 1, 1), ((40,), 16, 300)])
def test_layers_of_bytes(name, rows, outputs, inputs):
    def call(t):
        x, bias = _weights(t, *rows, inputs, seed=1), _weights(t, outputs, seed=2)
        return getattr(t, name)(x, *_quantized(t, _weights(t, outputs, inputs)), bias)

    _same(call)


def test_sums_of_rows_are_the_callers():
    def call(t):
        levels, packed, sums, *rest = _quantized(t, _weights(t, 12, 5))
        return t.fbgemm_linear_int8_weight(_weights(t, 3, 5, seed=1), levels, packed, sums + 3, *rest, t.zeros(12))

    _same(call)


@pytest.mark.parametrize("case", ["double", "narrow", "flat", "bias", "none", "unpacked", "floats", "row"])
def test_errors_of_layers_of_bytes(case):
    def call(t):
        x, bias = _weights(t, 3, 5, seed=1), t.ones(12)
        if case == "floats":
            return t.fbgemm_pack_quantized_matrix(x)
        if case == "row":
            return t.fbgemm_linear_quantize_weight(x[0])
        levels, packed, *rest = _quantized(t, _weights(t, 12, 5))
        x = {"double": x.double(), "narrow": x[:, :3], "flat": x[0]}.get(case, x)
        bias = {"bias": bias[:3], "none": None}.get(case, bias)
        packed = t.zeros(3) if case == "unpacked" else packed
        return t.fbgemm_linear_int8_weight(x, levels, packed, *rest, bias)

    assert _outcome(torch, call)[0] in ("RuntimeError", "TypeError", "IndexError")
    _same(call)


@pytest.mark.parametrize("name", ["fbgemm_linear_fp16_weight", "fbgemm_linear_fp16_weight_fp32_activation"])
@pytest.mark.parametrize("factor", [1.0, 1e6])
def test_layers_of_half_precision(name, factor):
    def call(t):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            packed = t.fbgemm_pack_gemm_matrix_fp16(_weights(t, 12, 5, factor=factor))
            return getattr(t, name)(_weights(t, 3, 5, seed=1), packed, _weights(t, 12, seed=2)).numpy()

    np.testing.assert_allclose(call(ftorch), call(torch), rtol=1e-6, atol=1e-6 * factor)


@pytest.mark.parametrize("case", ["double", "narrow", "bias", "none", "unpacked"])
def test_errors_of_layers_of_half_precision(case):
    def call(t):
        x, bias = _weights(t, 3, 5, seed=1), t.ones(12)
        packed = t.zeros(3) if case == "unpacked" else t.fbgemm_pack_gemm_matrix_fp16(_weights(t, 12, 5))
        x = {"double": x.double(), "narrow": x[:, :3]}.get(case, x)
        return t.fbgemm_linear_fp16_weight(x, packed, {"bias": bias[:3], "none": None}.get(case, bias))

    assert _outcome(torch, call)[0] in ("RuntimeError", "TypeError")
    _same(call)


def test_weights_out_of_range_are_said():
    for t in (ftorch, torch):
        with pytest.warns(UserWarning, match="FOUND weight out of range"):
            t.fbgemm_pack_gemm_matrix_fp16(t.full((2, 2), 1e6))


def test_packed_weights_are_copied_with_their_bytes():
    weight = _weights(ftorch, 12, 5)
    x, bias = _weights(ftorch, 3, 5, seed=1), ftorch.ones(12)
    levels, packed, *rest = _quantized(ftorch, weight)
    wanted = ftorch.fbgemm_linear_int8_weight(x, levels, packed, *rest, bias)
    assert ftorch.equal(ftorch.fbgemm_linear_int8_weight(x, levels, packed.clone(), *rest, bias), wanted)


@pytest.mark.parametrize("name, gates", [("lstm", 4), ("gru", 3), ("rnn_relu", 1), ("rnn_tanh", 1)])
@pytest.mark.parametrize("case", ["fits", "input", "batch"])
def test_cells(name, gates, case):
    def call(t):
        x, h = _weights(t, 3, 5, seed=1), _weights(t, 3, 4, seed=2)
        x = x[:, :3] if case == "input" else x
        h = h[:2] if case == "batch" else h
        of_input, of_state = (_quantized(t, _weights(t, gates * 4, n, seed=n)) for n in (5, 4))
        pairs = [one for pair in zip(of_input, of_state) for one in pair]
        biases = [_weights(t, gates * 4, seed=seed) for seed in (6, 7)]
        state = (h, h) if name == "lstm" else h
        return getattr(t, f"quantized_{name}_cell")(x, state, *pairs[:2], *biases, *pairs[2:])

    got, wanted = _outcome(ftorch, call), _outcome(torch, call)
    if case != "fits":
        assert wanted[0] == "RuntimeError"
        assert got == wanted
        return
    for one, other in zip(*(((r if name == "lstm" else [r])) for r in (got, wanted)), strict=True):
        assert one[1] == other[1] == "float32"
        np.testing.assert_allclose(one[0], other[0], rtol=2e-6, atol=1e-6)


def test_nothing_has_a_gradient():
    def call(t):
        x = _weights(t, 3, 5, seed=1).requires_grad_()
        return t.fbgemm_linear_int8_weight(x, *_quantized(t, _weights(t, 12, 5)), t.ones(12)).requires_grad

    _same(call)
    assert _outcome(ftorch, call) is False
