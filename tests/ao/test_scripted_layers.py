"""Layers, observers and fake quantizers of ``torch.ao`` as TorchScript: what PyTorch scripts, with equal results."""

import linecache

import numpy as np
import pytest
import torch

import ftorch

pytestmark = pytest.mark.filterwarnings("ignore")


def _quantized(t, *shape):
    return t.quantize_per_tensor(t.randn(*shape), 0.05, 20, t.quint8)


def _sum(t, kind, call):
    name = f"<{t.__name__} {kind} {call}>"
    text = (f"class Sum(nn.Module):\n  def __init__(self):\n    super().__init__()\n    self.f = nnq.{kind}()\n"
            f"  def forward(self, x):\n    return self.f.{call}\n")
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"nn": t.nn, "nnq": t.ao.nn.quantized}
    exec(compile(text, name, "exec"), scope)
    return scope["Sum"]()


def _dynamic(t, layer, dtype="qint8"):
    model = t.nn.ModuleDict({"layer": layer})
    return t.ao.quantization.quantize_dynamic(model, {type(layer)}, dtype=getattr(t, dtype))["layer"]


def _embedding(t, kind, dtype):
    q = t.ao.quantization
    layer = getattr(t.nn, kind)(5, 12, **({"mode": "sum"} if kind == "EmbeddingBag" else {}))
    layer.qconfig = q.float_qparams_weight_only_qconfig if dtype == "quint8" else (
        q.float_qparams_weight_only_qconfig_4bit)
    return getattr(t.ao.nn.quantized, kind).from_float(layer)


def _cases(t):
    nn, q, nnq = t.nn, t.ao.quantization, t.ao.nn.quantized
    x = lambda *s: t.randn(*s)  # noqa: E731
    one, zero = nn.Parameter(t.ones(4)), nn.Parameter(t.zeros(4))
    indices, offsets = t.tensor([0, 1, 2, 1]), t.tensor([0, 2])
    cases = {
        **{name: (lambda name=name: getattr(q, name)(), lambda: (x(3, 4),)) for name in (
            "MinMaxObserver", "MovingAverageMinMaxObserver", "PerChannelMinMaxObserver", "FakeQuantize",
            "MovingAveragePerChannelMinMaxObserver", "HistogramObserver", "FusedMovingAvgObsFakeQuantize",
            "default_per_channel_weight_fake_quant", "default_fixed_qparams_range_0to1_fake_quant")},
        "BatchNorm2d": (lambda: nnq.BatchNorm2d(3), lambda: (_quantized(t, 1, 3, 4, 4),)),
        "BatchNorm3d": (lambda: nnq.BatchNorm3d(3), lambda: (_quantized(t, 1, 3, 4, 4, 2),)),
        "BNReLU2d": (lambda: t.ao.nn.intrinsic.quantized.BNReLU2d(3), lambda: (_quantized(t, 1, 3, 4, 4),)),
        "InstanceNorm1d": (lambda: nnq.InstanceNorm1d(4, None, None, 0.1, 3), lambda: (_quantized(t, 2, 4, 3),)),
        "InstanceNorm2d": (lambda: nnq.InstanceNorm2d(4, one, zero, 0.1, 3), lambda: (_quantized(t, 2, 4, 3, 3),)),
        "Embedding": (lambda: _embedding(t, "Embedding", "quint8"), lambda: (indices,)),
        "EmbeddingBag4": (lambda: _embedding(t, "EmbeddingBag", "quint4x2"), lambda: (indices, offsets)),
        "QAT Linear": (lambda: t.ao.nn.qat.Linear(4, 3, qconfig=q.default_qat_qconfig), lambda: (x(2, 4),)),
        "QAT Conv2d": (lambda: t.ao.nn.qat.Conv2d(3, 4, 3, qconfig=q.default_qat_qconfig), lambda: (x(1, 3, 8, 8),)),
        "LSTM": (lambda: _dynamic(t, nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True)), lambda: (x(5, 2, 4),)),
        "LSTM16": (lambda: _dynamic(t, nn.LSTM(4, 3), "float16"), lambda: (x(5, 2, 4), (x(1, 2, 3), x(1, 2, 3)))),
        "GRU": (lambda: _dynamic(t, nn.GRU(4, 3)), lambda: (x(5, 2, 4),)),
        "LSTMCell": (lambda: _dynamic(t, nn.LSTMCell(4, 3)), lambda: (x(2, 4),)),
        "GRUCell": (lambda: _dynamic(t, nn.GRUCell(4, 3)), lambda: (x(2, 4), x(2, 3))),
        "RNNCell": (lambda: _dynamic(t, nn.RNNCell(4, 3, nonlinearity="relu")), lambda: (x(2, 4),)),
    }
    for call in ("add(x, x)", "mul_scalar(x, 2.0)", "add_relu(x, x)", "cat([x, x], 1)", "cat([x, x])"):
        cases[f"FloatFunctional {call}"] = (lambda call=call: _sum(t, "FloatFunctional", call), lambda: (x(3, 3),))
        cases[f"QFunctional {call}"] = (lambda call=call: _sum(t, "QFunctional", call),
                                        lambda: (_quantized(t, 3, 3),))
    return cases


def _flat(value):
    if isinstance(value, (tuple, list)):
        return [part for v in value for part in _flat(v)]
    return [(value.int_repr() if value.is_quantized else value).detach().numpy()]


def _run(t, name):
    t.manual_seed(1)
    make, inputs = _cases(t)[name]
    scripted = t.jit.script(make().eval())
    found = _flat(scripted(*inputs()))
    if hasattr(scripted, "calculate_qparams"):
        found += _flat(scripted.calculate_qparams())
    return found


@pytest.mark.parametrize("name", list(_cases(torch)))
def test_scripted_layers_give_what_pytorchs_give(name):
    expected, found = _run(torch, name), _run(ftorch, name)
    assert len(expected) == len(found)
    for e, f in zip(expected, found):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-5)


def test_schemes_are_numbers_in_scripts():
    class Scheme(ftorch.nn.Module):
        def __init__(self, scheme):
            super().__init__()
            self.scheme = scheme

        def forward(self, x):
            if self.scheme == ftorch.per_tensor_symmetric:
                return x
            return x + 1

    assert int(ftorch.jit.script(Scheme(ftorch.per_tensor_affine))(ftorch.tensor(1))) == 2
    assert int(ftorch.jit.script(Scheme(ftorch.per_tensor_symmetric))(ftorch.tensor(1))) == 1


@pytest.mark.parametrize("mode", ["zeros", "circular", "same", "same reflect"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_scripts_of_derived_convolutions_call_the_convolution(dims, mode):
    options = {"zeros": {"padding": 1}, "circular": {"padding": 1, "padding_mode": "circular"},
               "same": {"padding": "same"}, "same reflect": {"padding": "same", "padding_mode": "reflect"}}[mode]

    class Doubled(getattr(ftorch.nn, f"Conv{dims}d")):
        def forward(self, x):
            return self._conv_forward(x, self.weight * 2, self.bias)

    layer, x = Doubled(2, 3, 3, **options), ftorch.randn(1, 2, *[5] * dims)
    assert ftorch.equal(ftorch.jit.script(layer)(x), layer(x))


def test_weights_of_recurrent_layers_can_be_given():
    def run(t):
        t.manual_seed(0)
        layer, x = t.nn.LSTM(3, 4), t.randn(5, 2, 3)
        layer._flat_weights = [w * 2 for w in layer._flat_weights]
        first = layer(x)[0]
        layer.weight_ih_l0 = t.nn.Parameter(layer.weight_ih_l0 * 3)
        second = layer(x)[0]
        layer.double()
        return [first.detach().numpy(), second.detach().numpy(), layer(x.double())[0].detach().numpy()]

    for expected, found in zip(run(torch), run(ftorch)):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
