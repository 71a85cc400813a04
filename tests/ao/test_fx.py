"""FX mode: graphs that are fused, observed and converted are PyTorch's, and so are their integers."""

import copy
import inspect
import io

import numpy as np
import pytest
import torch
import torch.ao.quantization.quantize_fx

import ftorch
import ftorch.ao.quantization.quantize_fx  # noqa: F401

from .comparing import assert_same, shown_parts
from .fx_models import (
    MODELS,
    conv_bn_relu,
    default,
    draw,
    embeddings,
    linear,
    on_grid,
    residual,
)

pytestmark = pytest.mark.filterwarnings("ignore")

# Their sums are exact: no order of summation turns a number that lies between two integers.
EXACT = ("linear", "activations", "functions", "embeddings", "lstm")


def text(value):
    """A graph's text with PyTorch's names of functions that have several."""
    return str(value).replace("torch.nn.functional.", "torch.").replace("torch._C._nn.", "torch.")


def prepared(t, make, how="prepare_fx", **options):
    model, inputs, mapping = make(t)
    model = on_grid(t, model.train(how == "prepare_qat_fx"))
    return getattr(t.ao.quantization.quantize_fx, how)(model, mapping, inputs, **options), inputs


def state(model):
    """The names of a model's state, and its values in floating point."""
    return [k for k in model.state_dict() if not k.endswith("dtype")]


@pytest.mark.parametrize("how", ["convert_fx", "convert_to_reference_fx"])
@pytest.mark.parametrize("make", MODELS)
def test_models(make, how):
    def program(t):
        model, inputs = prepared(t, make)
        texts = [text(model.graph)]
        for _ in range(2):
            model(*inputs)
        model = getattr(t.ao.quantization.quantize_fx, how)(model)
        return [*texts, text(model.graph), *state(model), model(*inputs)]

    exact = make.__name__ in EXACT and how == "convert_fx"
    assert_same(program, atol=1e-5 if exact else 0.03, rtol=1e-5 if exact else 0.02)


@pytest.mark.parametrize("make", [linear, conv_bn_relu, residual])
def test_training_with_rounding(make):
    def program(t):
        t.manual_seed(0)
        model, inputs, _ = make(t)
        mapping = t.ao.quantization.get_default_qat_qconfig_mapping("x86")
        q = t.ao.quantization.quantize_fx
        model = q.prepare_qat_fx(on_grid(t, model.train()), mapping, inputs)
        graph, losses = text(model.graph), []
        optimizer = t.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            out = model(*inputs)
            loss = sum(v.square().mean() for v in t.utils._pytree.tree_leaves(out))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        converted = q.convert_fx(model.eval())
        return [graph, text(converted.graph), *state(converted), t.tensor(losses), converted(*inputs)]

    assert_same(program, rtol=5e-3, atol=0.05)


def test_functions_that_call_methods_are_quantized():
    def program(t):
        q, F = t.ao.quantization, t.nn.functional

        class Gates(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = t.nn.Linear(8, 8)

            def forward(self, x):
                y = self.layer(x)
                return F.sigmoid(y) * F.tanh(input=y) + t.cat([y, y], 1)[:, :8]

        x = draw(t, 3, 8)
        mapping = q.get_default_qconfig_mapping("fbgemm")
        model = q.quantize_fx.prepare_fx(on_grid(t, Gates().eval()), mapping, (x,))
        found = [text(model.graph), model.code]
        model(x)
        model = q.quantize_fx.convert_fx(model)
        return [*found, text(model.graph), model(x)]

    assert_same(program, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["fbgemm", "x86", "qnnpack", "onednn"])
@pytest.mark.parametrize("name", ["get_default_qconfig_mapping", "get_default_qat_qconfig_mapping"])
def test_default_mappings(name, backend):
    said = []
    for t in (torch, ftorch):
        found = getattr(t.ao.quantization, name)(backend).object_type_qconfigs
        said.append([
            (getattr(kind, "__name__", kind), repr(qconfig and qconfig.weight()).replace("ftorch", "torch"),
             qconfig and type(qconfig.activation()).__name__) for kind, qconfig in found.items()
        ])
    assert said[0] == said[1]


def test_half_precision_and_functions_are_dynamic():
    def program(t):
        q, F = t.ao.quantization, t.nn.functional
        found = []

        class Functional(t.nn.Module):
            def __init__(self):
                super().__init__()
                self.w, self.b = t.nn.Parameter(draw(t, 4, 8)), t.nn.Parameter(draw(t, 4))

            def forward(self, x):
                return F.relu(F.linear(x, self.w, self.b))

        for qconfig in (q.float16_dynamic_qconfig, q.default_dynamic_qconfig):
            mapping = q.QConfigMapping().set_global(qconfig)
            for model in (Functional(), t.nn.Sequential(t.nn.Linear(8, 4), t.nn.ReLU())):
                x = draw(t, 3, 8)
                model = on_grid(t, model.eval())
                model = q.quantize_fx.convert_fx(q.quantize_fx.prepare_fx(model, mapping, (x,)))
                found += [text(model.graph), model(x)]
        return found

    assert_same(program, rtol=1e-4, atol=1e-4)


def test_parts_that_stay_in_floating_point():
    def program(t):
        q = t.ao.quantization
        mapping = default(t).set_module_name("2", None).set_object_type(t.nn.Sigmoid, None)
        model = t.nn.Sequential(t.nn.Linear(8, 8), t.nn.ReLU(), t.nn.Linear(8, 8), t.nn.Sigmoid(), t.nn.Linear(8, 2))
        x = draw(t, 3, 8)
        model = q.quantize_fx.prepare_fx(on_grid(t, model.eval()), mapping, (x,))
        model(x)
        other = default(t).set_module_name("2", None).set_object_type(t.nn.Sigmoid, None).set_module_name("4", None)
        both = q.quantize_fx.convert_fx(copy.deepcopy(model)), q.quantize_fx.convert_fx(model, qconfig_mapping=other)
        return [v for m in both for v in (text(m.graph), m(x))]

    assert_same(program)


def test_inputs_and_results_stay_quantized():
    def program(t):
        q = t.ao.quantization
        custom = (
            q.fx.custom_config.PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
        )
        model, inputs = prepared(t, linear, prepare_custom_config=custom)
        model(*inputs)
        model = q.quantize_fx.convert_fx(model)
        return [text(model.graph), model(t.quantize_per_tensor(inputs[0], 0.02, 100, t.quint8))]

    assert_same(program)


def test_submodules_that_are_quantized_apart():
    def program(t):
        q, nn = t.ao.quantization, t.nn

        class Part(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(8, 8)

            def forward(self, x):
                return self.layer(x).relu()

        class Whole(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.part, self.kept = nn.Linear(8, 8), Part(), 5

            def forward(self, x):
                return self.part(self.first(x))

        PrepareCustomConfig = q.fx.custom_config.PrepareCustomConfig
        inner = PrepareCustomConfig().set_input_quantized_indexes([0]).set_output_quantized_indexes([0])
        custom = PrepareCustomConfig().set_standalone_module_name("part", None, (t.ones(1, 8),), inner, None)
        custom.set_preserved_attributes(["kept"])
        x = draw(t, 3, 8)
        model = q.quantize_fx.prepare_fx(on_grid(t, Whole().eval()), default(t), (x,), prepare_custom_config=custom)
        model(x)
        keep = q.fx.custom_config.ConvertCustomConfig().set_preserved_attributes(["kept"])
        model = q.quantize_fx.convert_fx(model, keep)
        return [text(model.graph), text(model.part.graph), model.kept, model(x)]

    assert_same(program)


def test_custom_modules():
    def program(t):
        q, nn = t.ao.quantization, t.nn

        class Plain(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)

            def forward(self, x):
                return self.layer(x)

        class Observed(Plain):
            @classmethod
            def from_float(cls, float_module):
                made = cls()
                made.layer, made.qconfig = float_module.layer, float_module.qconfig
                return made

        class Quantized(nn.Module):
            @classmethod
            def from_observed(cls, observed):
                made = cls()
                observed.layer.qconfig = observed.qconfig
                observed.layer.activation_post_process = observed.activation_post_process
                made.layer = nn.quantized.Linear.from_float(observed.layer)
                return made

            def forward(self, x):
                return self.layer(x)

        config = q.fx.custom_config
        prepare = config.PrepareCustomConfig().set_float_to_observed_mapping(Plain, Observed)
        convert = config.ConvertCustomConfig().set_observed_to_quantized_mapping(Observed, Quantized)
        x = draw(t, 3, 4)
        model = on_grid(t, nn.Sequential(nn.Linear(4, 4), Plain(), nn.ReLU()).eval())
        model = q.quantize_fx.prepare_fx(model, default(t), (x,), prepare_custom_config=prepare)
        graph = text(model.graph)
        model(x)
        model = q.quantize_fx.convert_fx(model, convert)
        return [graph, text(model.graph), model(x), repr(prepare.to_dict())[:40]]

    assert_same(program)


def test_lstms_are_custom_modules():
    def program(t):
        q, nn = t.ao.quantization, t.nn

        class Tagger(nn.Module):
            def __init__(self):
                super().__init__()
                self.lstm, self.out = nn.LSTM(4, 3), nn.Linear(3, 2)

            def forward(self, x, h, c):
                y, (h, c) = self.lstm(x, (h, c))
                return self.out(y), h

        inputs = draw(t, 5, 2, 4), draw(t, 1, 2, 3), draw(t, 1, 2, 3)
        config, quantizable = q.fx.custom_config, t.ao.nn.quantizable
        prepare = config.PrepareCustomConfig().set_float_to_observed_mapping(nn.LSTM, quantizable.LSTM)
        convert = config.ConvertCustomConfig().set_observed_to_quantized_mapping(
            quantizable.LSTM, t.ao.nn.quantized.LSTM
        )
        mapping = q.QConfigMapping().set_global(q.default_qconfig)
        model = on_grid(t, Tagger().eval())
        model = q.quantize_fx.prepare_fx(model, mapping, inputs, prepare_custom_config=prepare)
        graph = text(model.graph)
        model(*inputs)
        model = q.quantize_fx.convert_fx(model, convert)
        return [graph, text(model.graph), model(*inputs)]

    assert_same(program, atol=0.02)


def test_layers_are_fused():
    def program(t):
        nn, q = t.nn, t.ao.quantization
        model = nn.Sequential(
            nn.Conv2d(3, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(36, 4),
            nn.BatchNorm1d(4),
            nn.ReLU(),
        )
        x = draw(t, 2, 3, 5, 5)
        fused = q.quantize_fx.fuse_fx(on_grid(t, model.eval()))
        return [text(fused.graph), repr(fused).split("\n\n")[0], fused(x)]

    assert_same(program, atol=1e-4)


@pytest.mark.parametrize("make", [linear, embeddings])
def test_files_go_both_ways(make):
    def converted(t):
        t.manual_seed(0)
        model, inputs = prepared(t, make)
        model(*inputs)
        return t.ao.quantization.quantize_fx.convert_fx(model), inputs

    (theirs, x), (ours, y) = converted(torch), converted(ftorch)
    for source, target, writer, reader in ((theirs, ours, torch, ftorch), (ours, theirs, ftorch, torch)):
        file = io.BytesIO()
        writer.save(source.state_dict(), file)
        file.seek(0)
        target.load_state_dict(reader.load(file, weights_only=False))
    for a, b in zip(*(t.utils._pytree.tree_leaves(m(*i)) for t, m, i in ((torch, theirs, x), (ftorch, ours, y)))):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-5, atol=1e-5)


BACKENDS = ["native", "fbgemm", "x86", "qnnpack", "executorch", "onednn", "tensorrt"]


def plain(value):
    """A config's value without the library's name."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    if isinstance(value, type):
        return value.__name__
    return value.__name__ if inspect.isroutine(value) else str(value)


@pytest.mark.parametrize("name", BACKENDS)
def test_backend_configs(name):
    def program(t):
        import importlib

        module = importlib.import_module(f"{t.__name__}.ao.quantization.backend_config.{name}")
        config = getattr(module, f"get_{name}_backend_config")()
        given = config.to_dict()
        again = t.ao.quantization.backend_config.BackendConfig.from_dict(given).to_dict()
        assert plain(again) == plain(given)
        found = plain(given)
        # Other names of `cat`, which is one function here.
        found["configs"] = [c for c in found["configs"] if c.get("pattern") not in ("concat", "concatenate")]
        for entry in found["configs"]:
            # The functions that join layers have names of their own.
            for key in ("fuser_method", "root_node_getter", "extra_inputs_getter"):
                entry[key] = key in entry
        return [repr(found)]

    expected, ours = shown_parts(program, torch), shown_parts(program, ftorch)
    assert ours == expected


@pytest.mark.parametrize("left", [True, False])
def test_sums_after_convolutions_are_joined(left):
    def program(t):
        nn, q = t.nn, t.ao.quantization

        class Sum(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv, self.bn, self.relu = nn.Conv2d(3, 3, 1), nn.BatchNorm2d(3), nn.ReLU()

            def forward(self, x):
                y = self.bn(self.conv(x))
                return self.relu(y + x if left else x + y)

        x = draw(t, 1, 3, 4, 4)
        backend = q.backend_config.get_onednn_backend_config()
        model = q.quantize_fx.prepare_fx(on_grid(t, Sum().eval()), default(t), (x,), backend_config=backend)
        model(x)
        return [text(model.graph), q.quantize_fx.convert_to_reference_fx(model, backend_config=backend)(x)]

    assert_same(program, atol=0.03)


def test_wrong_uses():
    def program(t):
        with pytest.raises(AssertionError):
            t.ao.quantization.quantize_fx.convert_fx(t.fx.symbolic_trace(t.nn.Linear(2, 2)))
        with pytest.raises(ValueError):
            t.ao.quantization.quantize_fx.convert_fx(t.nn.Linear(2, 2))
        with pytest.raises(LookupError):
            mapping = t.ao.quantization.QConfigMapping().set_object_type(t.nn.Linear, t.ao.quantization.default_qconfig)
            model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.ReLU()).eval()
            t.ao.quantization.quantize_fx.prepare_fx(model, mapping, (t.ones(1, 2),))
        return []

    assert_same(program)


def test_tensors_of_integers():
    def program(t):
        model, inputs = prepared(t, linear)
        model(*inputs)
        model = t.ao.quantization.quantize_fx._convert_to_reference_decomposed_fx(model)
        ops, x = t.ops.quantized_decomposed, draw(t, 3, 4)
        scales, zeros = t.tensor([0.1, 0.02, 0.3, 0.5]), t.tensor([0, 3, -5, 1])
        channels = ops.quantize_per_channel(x, scales, zeros, 1, -128, 127, t.int8)
        return [text(model.graph), model(*inputs), channels,
                ops.dequantize_per_channel(channels, scales, zeros, 1, -128, 127, t.int8),
                ops.choose_qparams.tensor(x, 0, 255, 1e-7, t.uint8),
                ops.choose_qparams_symmetric.tensor(x, -128, 127, 1e-7, t.int8)]

    assert_same(program, atol=1e-5)
