"""Comparing models with their quantized forms, module by module (``torch.ao.ns._numeric_suite``)."""

import importlib

import pytest

from .comparing import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")


def _suite(L):
    return importlib.import_module(f"{L.__name__}.ao.ns._numeric_suite")


def _classifier(L):
    q = L.ao.quantization
    model = q.QuantWrapper(L.nn.Sequential(L.nn.Conv1d(2, 3, 2), L.nn.ReLU(), L.nn.Conv1d(3, 2, 1))).eval()
    model.qconfig, x = q.default_qconfig, L.randn(2, 2, 5)
    prepared = q.prepare(model)
    prepared(x)
    return model, q.convert(prepared), x


def test_weights_of_static_models():
    def program(L):
        model, quantized, _ = _classifier(L)
        return _suite(L).compare_weights(model.state_dict(), quantized.state_dict())

    assert_same(program)


def test_weights_of_dynamic_models():
    def program(L):
        model = L.nn.Sequential(L.nn.Sequential(L.nn.LSTM(4, 5)), L.nn.Linear(3, 2))
        quantized = L.ao.quantization.quantize_dynamic(model, {L.nn.LSTM, L.nn.Linear})
        return _suite(L).compare_weights(model.state_dict(), quantized.state_dict())

    assert_same(program)


def test_shadows():
    def program(L):
        model, quantized, x = _classifier(L)
        return _suite(L).compare_model_stub(model, quantized, {L.nn.Conv1d}, x), repr(quantized)

    assert_same(program)


def test_shadows_of_functions():
    def program(L):
        nnq, q = L.ao.nn.quantized, L.ao.quantization

        class Model(L.nn.Module):
            def __init__(self):
                super().__init__()
                self.quant, self.a, self.b, self.c, self.d = q.QuantStub(), *(nnq.FloatFunctional() for _ in range(4))

            def forward(self, x):
                x = self.quant(x)
                return self.d.add_relu(self.c.mul_scalar(self.b.cat([self.a.add(x, x), x], 1), 0.5), x.repeat(1, 2))

        model, x = Model().eval(), L.randn(3, 4)
        model.qconfig = q.default_qconfig
        prepared = q.prepare(model)
        prepared(x)
        return _suite(L).compare_model_stub(model, q.convert(prepared), {nnq.FloatFunctional}, x)

    assert_same(program)


def test_results():
    def program(L):
        model, quantized, x = _classifier(L)
        return _suite(L).compare_model_outputs(model, quantized, x), repr(model), repr(quantized)

    assert_same(program)
