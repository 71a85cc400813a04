"""Operators of ``torch.ops.quantized_decomposed`` with a scale for each token, or for each group of a channel."""

import importlib

import pytest
import torch as reference

import ftorch
from tests.oracle import assert_same

_PROGRAMS = (
    "o.choose_qparams_per_token(x, t.int8)",
    "o.choose_qparams_per_token(x.half(), t.int8)",
    "o.choose_qparams_per_token_asymmetric(x, t.int8)",
    "o.choose_qparams_per_token_asymmetric(x.abs(), t.int8)",
    "o.quantize_per_token(x, *o.choose_qparams_per_token_asymmetric(x, t.int8), -128, 127, t.int8)",
    "o.dequantize_per_token(i, *o.choose_qparams_per_token_asymmetric(x, t.int8), -128, 127, t.int8, t.float32)",
    "o.quantize_per_channel_group(w, s, t.zeros(4, 2), -8, 7, t.int8, 4)",
    "o.quantize_per_channel_group(w, s / 3, t.zeros(4, 2), -128, 127, t.int8, 4)",
    "o.dequantize_per_channel_group(i[0, :4], s[:3], None, -8, 7, t.int8, 4, t.float32)",
)


def _names(library):
    importlib.import_module(f"{library.__name__}.ao.quantization.fx._decomposed")
    x = library.arange(-20.0, 28.0).reshape(2, 3, 8).sin() * 3
    return {"t": library, "o": library.ops.quantized_decomposed, "x": x, "w": x[:, :2].reshape(4, 8) * 2,
            "s": library.arange(1.0, 9.0).reshape(4, 2) / 8, "i": (x * 20).to(library.int8)}


@pytest.mark.parametrize("program", _PROGRAMS)
def test_values(program):
    expected, found = (eval(program, _names(library)) for library in (reference, ftorch))
    for one, two in zip(found, expected) if isinstance(expected, tuple) else ((found, expected),):
        assert_same(one, two)


@pytest.mark.parametrize(
    "program",
    (
        "o.quantize_per_token(x, t.ones(5), t.ones(5), -128, 127, t.int8)",
        "o.quantize_per_channel_group(w, s, s, -8, 7, t.int8, 3)",
        "o.quantize_per_channel_group(w, s, s, -8, 7, t.int8, 1)",
    ),
)
def test_errors(program):
    said = []
    for library in (reference, ftorch):
        with pytest.raises(AssertionError) as caught:
            eval(program, _names(library))
        said.append(str(caught.value))
    assert said[0] == said[1]
