"""Sparse quantized layers give the integers that PyTorch's give."""

import importlib

import pytest
import torch

import ftorch

from .comparing import assert_same, shown_parts

pytestmark = pytest.mark.filterwarnings("ignore")


def _under(engine, program):
    def run(t):
        before = t.backends.quantized.engine
        t.backends.quantized.engine = engine
        try:
            return program(t)
        finally:
            t.backends.quantized.engine = before

    return run


def _sparse(t):
    return importlib.import_module(f"{t.__name__}.ao.nn.sparse.quantized")


@pytest.mark.parametrize("per_channel", [False, True])
def test_static(per_channel):
    def program(t):
        q = t.ao.quantization
        model = t.nn.Sequential(t.nn.Linear(12, 8), t.nn.Linear(8, 4, bias=False))
        sparsifier = t.ao.pruning.WeightNormSparsifier(0.5)
        sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "1.weight"}])
        sparsifier.step()
        sparsifier.squash_mask(params_to_keep=("sparse_block_shape",))
        wrapped = q.QuantWrapper(model)
        weight = q.default_per_channel_weight_observer if per_channel else q.default_weight_observer
        wrapped.qconfig = q.QConfig(activation=q.default_observer, weight=weight)
        q.prepare(wrapped, inplace=True)
        x = t.randn(6, 12)
        wrapped(x)
        mapping = importlib.import_module(f"{t.__name__}.ao.pruning._mappings").get_static_sparse_quantized_mapping()
        kept = q.get_default_static_quant_module_mappings()
        converted = q.convert(wrapped, mapping={**kept, **mapping})
        inner = converted.module(converted.quant(x))
        state = {k: str(v) if "dtype" in k else v for k, v in converted.state_dict().items()}
        state = {k: v if "_packed_params._" not in k else v[:2] for k, v in state.items()}
        return [inner, converted(x), repr(converted), state]

    assert_same(_under("fbgemm", program))


@pytest.mark.parametrize("blocks", [(1, 4), (8, 1)])
def test_dynamic(blocks):
    def program(t):
        module = _sparse(t)
        pattern = importlib.import_module(f"{t.__name__}.ao.nn.sparse.quantized.utils").LinearBlockSparsePattern
        linear = t.nn.Linear(12, 8)
        linear.qconfig = t.ao.quantization.default_dynamic_qconfig
        with pattern(*blocks):
            layer = module.dynamic.Linear.from_float(linear)
        x = t.randn(2, 3, 12)
        found = layer(x) if blocks == (1, 4) else t.zeros(1)  # PyTorch's kernel lacks the other one on this processor
        return [found, repr(layer), layer.weight(), layer.bias(), sorted(layer.state_dict()), pattern.block_size()]

    assert_same(_under("qnnpack", program))


@pytest.mark.parametrize("engine", ["x86", "fbgemm", "qnnpack"])
def test_what_engines_lack(engine):
    def tried(t):
        weight = t.quantize_per_tensor(t.randn(8, 12), 0.1, 0, t.qint8)
        other = t.quantize_per_tensor(t.randn(8, 12), 0.1, 3, t.qint8)
        x = t.quantize_per_tensor(t.randn(2, 12), 0.1, 3, t.quint8)
        yield lambda: t.ops.sparse.qlinear_unpack(t.ops.sparse.qlinear_prepack(weight, None, 1, 4))
        yield lambda: t.ops.sparse.qlinear_unpack(t.ops.sparse.qlinear_prepack(weight, None, 4, 4))
        yield lambda: t.ops.sparse.qlinear_unpack(t.ops.sparse.qlinear_prepack(other, None, 1, 4))
        yield lambda: t.ops.sparse.qlinear_unpack(t.ops.sparse.qlinear_prepack(weight, t.ones(3), 1, 4))
        yield lambda: t.ops.sparse.qlinear(x, t.ops.sparse.qlinear_prepack(weight, None, 1, 4), 0.1, 0)
        yield lambda: t.ops.sparse.qlinear_dynamic(t.ones(2, 12), t.ops.sparse.qlinear_prepack(weight, None, 1, 4))

    def program(t):
        return [shown_parts(lambda t, call=call: call(), t) for call in tried(t)]

    # An engine of PyTorch's that packs is not asked for more than it checks.
    found = [_under(engine, lambda t: [str(p) for p in shown_parts(program, t)])(t) for t in (torch, ftorch)]
    assert found[0] == found[1]


def test_states():
    def program(t):
        layer = _sparse(t).Linear(8, 4, 1, 4)
        packed = _sparse(t).LinearPackedParams()
        packed.load_state_dict(layer._packed_params.state_dict())
        return [packed._weight_bias()[2:], repr(layer), list(layer.state_dict())]

    assert_same(_under("fbgemm", program))
    for t in (torch, ftorch):
        with pytest.raises(NotImplementedError, match="QINT8"):
            _sparse(t).Linear(8, 4, 1, 4, dtype=t.quint8)
        with pytest.raises(AssertionError, match="Invalid linear block sparse pattern"):
            importlib.import_module(f"{t.__name__}.ao.nn.sparse.quantized.utils").LinearBlockSparsePattern(2, 2)


def test_older_names():
    reference = importlib.import_module("ftorch.nn.quantized._reference.modules.linear")
    suite = importlib.import_module("ftorch.quantization._numeric_suite_fx")
    handlers = importlib.import_module("ftorch.quantization.fx.quantization_patterns")
    assert reference.Linear is ftorch.ao.nn.quantized.reference.Linear
    assert suite is importlib.import_module("ftorch.ao.ns._numeric_suite_fx")
    assert handlers.QuantizeHandler.__name__ == "QuantizeHandler"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("ftorch.quantization._numeric_suite_fx.none")


def test_patterns_of_exported_graphs():
    def program(t):
        name = f"{t.__name__}.ao.quantization.backend_config"
        importlib.import_module(f"{name}.utils")
        config = importlib.import_module(f"{name}._qnnpack_pt2e").get_qnnpack_pt2e_backend_config()
        return [config.name, sorted((v.observation_type.name, str(v._input_type_to_index))
                                    for v in config._pattern_complex_format_to_config.values())]

    assert_same(program)
