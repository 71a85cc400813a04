"""What is done to models in floating point: equal ranges of channels, biases that make up for errors, attention."""

import importlib

import pytest

from .comparing import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")


def _room(L, name):
    return importlib.import_module(f"{L.__name__}.ao.quantization.{name}")


def test_equal_ranges_of_channels():
    def program(L):
        nn = L.nn
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.Conv2d(5, 2, 1))
        copied = _room(L, "_equalize").equalize(model, [["0", "2"], [model[2], model[3]]], inplace=False)
        return copied.state_dict(), model.state_dict()

    assert_same(program, rtol=1e-4)


@pytest.mark.parametrize("names", [[["0"]], [["0", "3"]], [[1, "2"]]])
def test_layers_that_cannot_be_equalized(names):
    def program(L):
        nn = L.nn
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 5), nn.Linear(5, 2))
        return _room(L, "_equalize").equalize(model, [list(group) for group in names])

    assert_same(program)


def test_corrected_biases():
    def program(L):
        q = L.ao.quantization
        model = q.QuantWrapper(L.nn.Linear(4, 3)).eval()
        model.qconfig = q.default_qconfig
        prepared = q.prepare(model)
        prepared(L.randn(6, 4))
        quantized = q.convert(prepared)
        batches = [(L.randn(6, 4),) for _ in range(3)]
        _room(L, "_correct_bias").bias_correction(model, quantized, batches, neval_batches=2)
        return quantized.module.orig_module.bias()

    assert_same(program)


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False}, {"add_zero_attn": True}], ids=str)
def test_quantized_attention(options):
    def program(L):
        q = L.ao.quantization

        class Model(L.nn.Module):
            def __init__(self):
                super().__init__()
                self.quant, self.attention = q.QuantStub(), L.nn.MultiheadAttention(8, 2, **options)

            def forward(self, x):
                x = self.quant(x)
                return self.attention(x, x, x, average_attn_weights=False)

        model, x = Model().eval(), L.randn(3, 2, 8)
        model.qconfig = q.get_default_qconfig("fbgemm")
        prepared = q.prepare(model)
        seen = prepared(x)
        converted = q.convert(prepared)
        return seen, converted(x), repr(converted)

    assert_same(program)


def test_observable_attention_checks_masks():
    def program(L):
        attention = L.ao.nn.quantizable.MultiheadAttention(8, 2, kdim=6, vdim=4)
        inputs, results = (L.randn(3, 2, 8), L.randn(5, 2, 6), L.randn(5, 2, 4)), []
        results += attention(*inputs, attn_mask=L.zeros(3, 5), key_padding_mask=L.eye(2, 5).bool())
        results += attention(*inputs, average_attn_weights=False)
        for given in ({"is_causal": True}, {"attn_mask": L.zeros(2, 2)}, {"attn_mask": L.zeros(2)},
                      {"key_padding_mask": L.zeros(1, 5).bool()}):
            try:
                attention(*inputs, **given)
            except (AssertionError, RuntimeError) as error:
                results += [type(error).__name__, str(error)]
        return results

    assert_same(program)
