"""Eager mode: models that are prepared, calibrated and converted give PyTorch's integers."""

import io
import warnings

import pytest
import torch

import ftorch

from .comparing import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")


def linear(t):
    nn, q = t.nn, t.ao.quantization
    return (
        q.QuantWrapper(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))),
        [["module.0", "module.1"]],
        (5, 8),
    )


def conv_bn_relu(t):
    nn, q = t.nn, t.ao.quantization
    layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, stride=2))
    return q.QuantWrapper(layers), [["module.0", "module.1", "module.2"]], (2, 3, 9, 9)


def residual(t):
    nn, q = t.nn, t.ao.quantization

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.conv1, self.relu, self.conv2 = nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 1)
            self.sum, self.join = nn.quantized.FloatFunctional(), nn.quantized.FloatFunctional()
            self.pool, self.out = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 3)

        def forward(self, x):
            x = self.quant(x)
            y = self.sum.add_relu(x, self.conv2(self.relu(self.conv1(x))))
            y = self.join.cat([x, y], 1)
            return self.dequant(self.out(self.pool(y).flatten(1)))

    return Block(), [["conv1", "relu"]], (2, 4, 6, 6)


def activations(t):
    nn, q = t.nn, t.ao.quantization
    layers = nn.Sequential(nn.Linear(8, 8), nn.Hardswish(), nn.LeakyReLU(0.1), nn.ELU(), nn.ReLU6(),
                           nn.LayerNorm(8), nn.Dropout(), nn.Linear(8, 3), nn.Sigmoid())
    return q.QuantWrapper(layers), [], (4, 8)


def conv1d(t):
    nn, q = t.nn, t.ao.quantization
    layers = nn.Sequential(nn.Conv1d(3, 6, 3), nn.BatchNorm1d(6), nn.ReLU(), nn.Conv1d(6, 2, 2, dilation=2))
    return q.QuantWrapper(layers), [["module.0", "module.1", "module.2"]], (2, 3, 12)


MODELS = [linear, conv_bn_relu, residual, activations, conv1d]


def prepared(t, make, qconfig):
    model, groups, shape = make(t)
    q = t.ao.quantization
    model.eval()
    if groups:
        model = q.fuse_modules(model, groups)
    model.qconfig = qconfig(q)
    model = q.prepare(model)
    data = [t.randn(shape) for _ in range(3)]
    for x in data:
        model(x)
    return model, data


QCONFIGS = {
    "x86": lambda q: q.get_default_qconfig("x86"), "default": lambda q: q.default_qconfig,
    "channels": lambda q: q.default_per_channel_qconfig,
}


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("name", QCONFIGS)
def test_static_quantization(make, name):
    def program(t):
        model, data = prepared(t, make, QCONFIGS[name])
        model = t.ao.quantization.convert(model)
        state = {k: v for k, v in model.state_dict().items() if not k.endswith("dtype")}
        return [list(state), list(state.values()), model(data[0]), repr(model) if name == "x86" else None]

    assert_same(program, atol=1e-5)


@pytest.mark.parametrize("make", [linear, conv_bn_relu, residual])
def test_training_with_rounding(make):
    def program(t):
        model, groups, shape = make(t)
        q = t.ao.quantization
        model.train()
        model = q.fuse_modules_qat(model, groups)
        model.qconfig = q.get_default_qat_qconfig("x86")
        model = q.prepare_qat(model)
        optimizer = t.optim.SGD(model.parameters(), lr=0.01)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(t.randn(shape)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        x = t.randn(shape)
        converted = q.convert(model.eval())
        return [t.tensor(losses), converted(x)]

    # A sum in another order may turn a number that lies between two integers.
    assert_same(program, rtol=2e-3, atol=2e-2)


def test_dynamic_linear_and_embeddings():
    def program(t):
        nn, q = t.nn, t.ao.quantization
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        x = t.randn(3, 8)
        bags = nn.EmbeddingBag(10, 12, mode="sum")
        bags.qconfig = q.float_qparams_weight_only_qconfig
        rows = nn.Sequential(nn.Embedding(10, 12))
        rows.qconfig = q.float_qparams_weight_only_qconfig
        rows = q.convert(q.prepare(rows))
        packed = nn.quantized.EmbeddingBag.from_float(bags)
        index = t.tensor([1, 2, 3, 7, 9])
        return [
            q.quantize_dynamic(model)(x), q.quantize_dynamic(model, dtype=t.float16)(x), rows(index),
            packed(index, t.tensor([0, 2])),
            q.quantize_dynamic(model, {nn.Linear: q.per_channel_dynamic_qconfig})(x),
        ]

    assert_same(program, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}])
def test_dynamic_recurrent_layers(kind, options):
    def program(t):
        model = t.nn.Sequential(getattr(t.nn, kind)(6, 5, **options)).eval()
        x = t.randn(4, 3, 6)
        model = t.ao.quantization.quantize_dynamic(model)
        packed = t.nn.utils.rnn.pack_padded_sequence(
            x, t.tensor([4, 2, 1] if not options.get("batch_first") else [3, 3, 2, 1]),
            batch_first=options.get("batch_first", False), enforce_sorted=True,
        )
        out, state = model[0](packed)
        return [model(x), out.data, state]

    assert_same(program, rtol=1e-4, atol=1e-4)


def test_dynamic_cells():
    def program(t):
        results = []
        for name, state in (("LSTMCell", 2), ("GRUCell", 1), ("RNNCell", 1)):
            cell = t.ao.quantization.quantize_dynamic(t.nn.Sequential(getattr(t.nn, name)(4, 3)))[0]
            h = t.randn(2, 3)
            results.append(cell(t.randn(2, 4), (h, h) if state == 2 else h))
        return results

    assert_same(program, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [linear, conv_bn_relu])
def test_files_of_quantized_models_go_both_ways(make):
    def state(t):
        t.manual_seed(1)
        model, data = prepared(t, make, QCONFIGS["x86"])
        return t.ao.quantization.convert(model), data[0]

    theirs, x = state(torch)
    ours, y = state(ftorch)
    for source, target, given in ((theirs, ours, y), (ours, theirs, x)):
        reader = ftorch if target is ours else torch
        writer = torch if target is ours else ftorch
        file = io.BytesIO()
        writer.save(source.state_dict(), file)
        file.seek(0)
        target.load_state_dict(reader.load(file))
        assert (target(given).detach().numpy() == source(x if target is ours else y).detach().numpy()).all()


OBSERVERS = {
    "minmax": lambda t, q: q.MinMaxObserver(),
    "symmetric": lambda t, q: q.MinMaxObserver(dtype=t.qint8, qscheme=t.per_tensor_symmetric),
    "reduced": lambda t, q: q.MinMaxObserver(reduce_range=True),
    "moving": lambda t, q: q.MovingAverageMinMaxObserver(averaging_constant=0.1),
    "channels": lambda t, q: q.PerChannelMinMaxObserver(ch_axis=1),
    "moving channels": lambda t, q: q.MovingAveragePerChannelMinMaxObserver(
        dtype=t.qint8, qscheme=t.per_channel_symmetric
    ),
    "float": lambda t, q: q.default_float_qparams_observer(),
    "histogram": lambda t, q: q.HistogramObserver(),
    "histogram reduced": lambda t, q: q.HistogramObserver(
        reduce_range=True, dtype=t.qint8, qscheme=t.per_tensor_symmetric
    ),
    "fixed": lambda t, q: q.default_fixed_qparams_range_0to1_observer(),
}


@pytest.mark.parametrize("name", OBSERVERS)
def test_observers(name):
    def program(t):
        observer = OBSERVERS[name](t, t.ao.quantization)
        for scale in (1.0, 3.0, 0.5):
            observer(t.randn(4, 5) * scale)
        return [
            observer.calculate_qparams(),
            list(observer.state_dict()),
            list(observer.state_dict().values()),
            repr(observer),
        ]

    assert_same(program)


@pytest.mark.parametrize(
    "name",
    [
        "default_fake_quant",
        "default_per_channel_weight_fake_quant",
        "default_fused_act_fake_quant",
        "default_fused_per_channel_wt_fake_quant",
        "default_fused_wt_fake_quant",
    ],
)
def test_fake_quantizers(name):
    def program(t):
        fake = getattr(t.ao.quantization, name)()
        results = []
        for _ in range(3):
            x = (t.randn(4, 5) * 3).requires_grad_()
            y = fake(x)
            y.sum().backward()
            results += [y, x.grad]
        fake.apply(t.ao.quantization.disable_observer)
        return [*results, fake(x * 9), list(fake.state_dict()), list(fake.state_dict().values())]

    assert_same(program)


def test_names_are_where_they_were():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ftorch.nn.intrinsic.quantized
        import ftorch.nn.quantized.dynamic

        import ftorch.nn.qat
        import ftorch.nn.quantizable
        import ftorch.quantization
    assert ftorch.nn.quantized.Linear is ftorch.ao.nn.quantized.Linear
    assert ftorch.nn.intrinsic.quantized.ConvReLU2d is ftorch.ao.nn.intrinsic.quantized.ConvReLU2d
    assert ftorch.quantization.prepare is ftorch.ao.quantization.prepare
    assert ftorch.nn.qat.Linear is ftorch.ao.nn.qat.Linear
    assert ftorch.nn.quantizable.LSTM is ftorch.ao.nn.quantizable.LSTM
