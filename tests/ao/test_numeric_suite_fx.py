"""Comparing graph modules with their quantized forms, part by part (``torch.ao.ns._numeric_suite_fx``)."""

import importlib
import re

import pytest

from . import fx_models
from .comparing import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = ["linear", "conv_bn_relu", "residual", "activations", "conv1d", "functional"]


def _suite(t):
    return importlib.import_module(f"{t.__name__}.ao.ns._numeric_suite_fx")


def _utils(t):
    return importlib.import_module(f"{t.__name__}.ao.ns.fx.utils")


def functional(t):
    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = t.nn.Parameter(t.randn(6, 8)), t.nn.Parameter(t.randn(6))
            self.kernel = t.nn.Parameter(t.randn(4, 6))

        def forward(self, x):
            x = t.nn.functional.relu(t.nn.functional.linear(x, self.weight, self.bias))
            x = t.nn.functional.linear(x, self.kernel)
            return t.nn.functional.hardswish(t.cat([x, x * 2], 1) + 1).sigmoid()

    return Model(), (fx_models.draw(t, 5, 8),), fx_models.default(t)


def _pair(t, name):
    q = t.ao.quantization.quantize_fx if hasattr(t.ao.quantization, "quantize_fx") else None
    q = q or importlib.import_module(f"{t.__name__}.ao.quantization.quantize_fx")
    model, inputs, mapping = (functional if name == "functional" else getattr(fx_models, name))(t)
    model = fx_models.on_grid(t, model).eval()
    prepared = q.prepare_fx(model, mapping, inputs)
    prepared(*inputs)
    # The copy as a float graph: what is joined in the quantized model is joined here.
    floating = q.fuse_fx(model)
    return floating, prepared, q.convert_fx(importlib.import_module("copy").deepcopy(prepared)), inputs


def _plain(t, value):
    """Results with library's own names as text."""
    if isinstance(value, dict):
        return {k: _plain(t, v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(t, v) for v in value]
    if not isinstance(value, str):
        return value
    # Functions and operators are of other types.
    value = re.sub(r"[\w.]*\b(_VariableFunctionsClass|_C\._nn)\.", "torch.", value)
    value = re.sub(r"[\w.]*pybind11\w*\.\w+|[\w.]*OpOverloadPacket|[\w.]*QuantizedOperator", "operator", value)
    return value.replace(t.__name__ + ".", "torch.").replace("torch.nn.functional.linear", "torch.linear")


@pytest.mark.parametrize("name", MODELS)
def test_weights(name):
    def program(t):
        floating, prepared, quantized, _ = _pair(t, name)
        suite = _suite(t)
        found = suite.extract_weights("a", floating, "b", quantized)
        suite.extend_logger_results_with_comparison(found, "a", "b", _utils(t).compute_sqnr, "sqnr")
        return _plain(t, [found, suite.extract_weights("a", floating, "b", prepared)])

    assert_same(program, rtol=1e-4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("inputs", [False, True])
def test_results(name, inputs):
    def program(t):
        floating, _, quantized, x = _pair(t, name)
        suite = _suite(t)
        a, b = suite.add_loggers("a", floating, "b", quantized, suite.OutputLogger, should_log_inputs=inputs)
        a(*x), b(*x)
        found = suite.extract_logger_info(a, b, suite.OutputLogger, "b")
        for function in ("compute_sqnr", "compute_normalized_l2_error", "compute_cosine_similarity"):
            suite.extend_logger_results_with_comparison(found, "a", "b", getattr(_utils(t), function), function)
        return _plain(t, [found, [n.name for n in b.graph.nodes]])

    assert_same(program, rtol=1e-3)


@pytest.mark.parametrize("name", ["linear", "conv_bn_relu", "residual", "conv1d"])
@pytest.mark.parametrize("inputs", [False, True])
def test_shadows(name, inputs, capsys):
    said = []

    def program(t):
        floating, _, quantized, x = _pair(t, name)
        suite = _suite(t)
        both = suite.add_shadow_loggers("a", floating, "b", quantized, suite.OutputLogger, should_log_inputs=inputs)
        result = both(*x)
        other = suite.add_shadow_loggers("a", quantized, "b", floating, suite.OutputLogger)
        said.append(_plain(t, capsys.readouterr().out))
        found = suite.extract_shadow_logger_info(both, suite.OutputLogger, "b")
        return _plain(t, [result, found, [n.name for n in both.graph.nodes], other(*x)])

    assert_same(program, rtol=1e-3)
    assert said[0] == said[1]


def _both_mappings(t):
    q = t.ao.quantization
    several = importlib.import_module(f"{t.__name__}.ao.ns.fx.qconfig_multi_mapping").QConfigMultiMapping
    return several().set_global([q.default_qconfig, q.default_per_channel_qconfig, q.default_qconfig]).set_object_type(
        t.nn.Sigmoid, [None]
    )


@pytest.mark.parametrize("name", ["linear", "conv_bn_relu", "functional", "activations"])
def test_several_shadows(name, capsys):
    def program(t):
        model, inputs, _ = (functional if name == "functional" else getattr(fx_models, name))(t)
        model, suite = fx_models.on_grid(t, model).eval(), _suite(t)
        backend = t.ao.quantization.backend_config.get_native_backend_config()
        prepared = suite.prepare_n_shadows_model(model, inputs, _both_mappings(t), backend)
        prepared(*inputs)
        converted = suite.convert_n_shadows_model(prepared)
        suite.loggers_set_enabled(converted, True)
        suite.loggers_set_save_activations(converted, name != "linear")
        result = converted(*inputs)
        found = suite.extract_results_n_shadows_model(converted)
        suite.print_comparisons_n_shadows_model(found)
        for by_model in found["model"].values():
            for results in by_model.values():
                for entry in results:
                    entry["qconfig_str"] = bool(entry["qconfig_str"])
        return _plain(t, [result, found, [n.name for n in converted.graph.nodes]])

    assert_same(program, rtol=1e-3)


@pytest.mark.parametrize("name", ["linear", "functional"])
def test_one_long_shadow(name):
    def program(t):
        model, inputs, mapping = (functional if name == "functional" else getattr(fx_models, name))(t)
        model, suite = fx_models.on_grid(t, model).eval(), _suite(t)
        backend = t.ao.quantization.backend_config.get_native_backend_config()
        prepared = suite._prepare_n_shadows_add_loggers_model(model, inputs, mapping, backend)
        prepared(*inputs)
        converted = suite.convert_n_shadows_model(prepared)
        suite.loggers_set_enabled(converted, True)
        converted(*inputs)
        weights = suite._n_shadows_compare_weights(model, inputs, mapping, backend)
        found = suite.extract_results_n_shadows_model(converted)
        values = {k: [v[0]["values"], v[0]["comparisons"]] for k, v in found["model"]["node_output"].items()}
        return _plain(t, [values, weights, [(n.name, str(n.args)) for n in converted.graph.nodes]])

    assert_same(program, rtol=1e-3)


def test_mappings():
    def program(t):
        several = importlib.import_module(f"{t.__name__}.ao.ns.fx.qconfig_multi_mapping").QConfigMultiMapping
        q = t.ao.quantization
        one = q.QConfigMapping().set_global(q.default_qconfig).set_module_name("a", None)
        two = q.QConfigMapping().set_global(q.default_dynamic_qconfig).set_module_name_object_type_order(
            "a", t.nn.Linear, 0, q.default_qconfig)
        found = [several.from_list_qconfig_mapping([one, two]), _both_mappings(t)]
        return [str([[k, v is None, k and str(k)] for m in many.qconfig_mappings_list for k, v in (
            ("global", m.global_qconfig), *m.object_type_qconfigs.items(), *m.module_name_qconfigs.items())]).replace(
                t.__name__ + ".", "torch.") for many in found]

    assert_same(program)


def test_related_operators():
    def program(t):
        mappings = importlib.import_module(f"{t.__name__}.ao.ns.fx.mappings")
        related = mappings.get_base_name_to_sets_of_related_ops()
        nnq, q = t.ao.nn.quantized, t.ops.quantized
        ops = [t.nn.Linear, nnq.Linear, t.ao.nn.intrinsic.ConvReLU2d, q.conv2d_relu, t.relu, t.ao.nn.qat.Conv3d, q.add,
               t.nn.LSTM, nnq.dynamic.LSTM, t.nn.functional.prelu, t.nn.Softmax, t.sin]
        mappings.add_op_to_sets_of_related_ops(related, t.cos, None)
        mappings.add_op_to_sets_of_related_ops(related, t.sin, t.cos)
        names = [mappings.get_base_name_for_op(related, op) for op in ops]
        kinds = {k: len(v) for k, v in mappings.get_node_type_to_io_type_map().items()}
        unmatchable = {k: len(v) for k, v in mappings.get_unmatchable_types_map().items()}
        return [names, [len(related[str(i)]) for i in range(len(related))], kinds, unmatchable]

    assert_same(program)


def test_other_models_do_not_match():
    def program(t):
        nn, suite = t.nn, _suite(t)
        a, b = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Sequential(nn.Conv1d(2, 2, 1), nn.Tanh())
        found = []
        for pair in ((a, b), (a, nn.Sequential(nn.ReLU()))):
            try:
                suite.extract_weights("a", pair[0], "b", pair[1])
            except Exception as error:  # noqa: BLE001
                found.append([type(error).__name__, str(error).replace(t.__name__ + ".", "torch.")])
        return found

    assert_same(program)
