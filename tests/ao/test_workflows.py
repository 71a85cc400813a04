"""Programs as PyTorch's tutorials on quantization have them, in both libraries."""


import numpy as np
import pytest
import torch

import ftorch

from .comparing import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")


def test_training_with_fused_normalization():
    def program(L):
        nn, quantization = L.nn, L.ao.quantization
        model = nn.Sequential(quantization.QuantStub(), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
                              quantization.DeQuantStub()).train()
        model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
        quantization.fuse_modules_qat(model, [["1", "2", "3"]], inplace=True)
        quantization.prepare_qat(model, inplace=True)
        optimizer, x = L.optim.SGD(model.parameters(), lr=0.1), L.randn(2, 3, 5, 5)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss)
        return losses, list(model.state_dict()), repr(model)

    assert_same(program, rtol=1e-4)


def test_linear_with_normalization_draws_as_many_numbers():
    def program(L):
        nn, quantization = L.nn, L.ao.quantization
        model = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)).train()
        model.qconfig = quantization.get_default_qat_qconfig("x86")
        quantization.fuse_modules_qat(model, [["0", "1"]], inplace=True)
        return quantization.prepare_qat(model)(L.randn(6, 4)), L.randn(3)

    assert_same(program)


def test_dynamic_lstm_shows_no_packed_weights():
    def program(L):
        return repr(L.ao.quantization.quantize_dynamic(L.nn.Sequential(L.nn.LSTM(4, 5, 2)), {L.nn.LSTM}))

    assert_same(program)


def test_observers_refuse_other_dtypes():
    assert_same(lambda L: L.ao.quantization.MinMaxObserver(dtype=L.float32))


def test_empty_mappings_are_shown():
    for library in (torch, ftorch):
        text = repr(library.ao.quantization.QConfigMapping())
        assert text.count("OrderedDict()") == 4


def test_means_of_innermost_dimensions_add_integers():
    def program(L):
        q = L.quantize_per_tensor(L.rand(4, 32, 4, 4), 0.0043, 7, L.quint8)
        return q.mean([2, 3]), q.mean(), q.mean(-1, keepdim=True), q.mean(0)

    assert_same(program)


def test_ties_round_as_in_vector_kernels():
    """Numbers in the middle between integers: the order of rounding and of adding the zero point shows."""
    def program(L):
        results = []
        for size in (64, 72, 20):
            ints = [(L.arange(size) * k % 251).to(L.uint8) for k in (7, 11)]
            a, b = (L._make_per_tensor_quantized_tensor(i, s, z) for i, s, z in zip(ints, (0.0437, 0.0874), (57, 3)))
            ops, to = L.ops.quantized, (0.0874, 41)
            results += [ops.add(a, b, *to), ops.add_relu(a, b, *to), ops.leaky_relu(a, 0.5, False, *to),
                        ops.elu(a, *to, 1.0), L.quantize_per_tensor(a.dequantize(), *to, L.quint8)]
        return results

    assert_same(program)


@pytest.mark.parametrize("name", ["Linear", "Conv1d", "Conv2d", "ConvTranspose2d"])
def test_reference_models_round_as_quantized_ones(name):
    """``convert(is_reference=True)`` puts layers that round their weights into the places of the observed ones."""
    def run(t):
        nn, q = t.nn, t.ao.quantization
        make, shape = {"Linear": (lambda: nn.Linear(5, 3), (4, 5)), "Conv1d": (lambda: nn.Conv1d(2, 3, 1), (4, 2, 5)),
                       "Conv2d": (lambda: nn.Conv2d(2, 3, 1), (4, 2, 5, 5)),
                       "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 3, 1), (4, 2, 5, 5))}[name]
        t.manual_seed(0)
        model = nn.Sequential(q.QuantStub(), q.DeQuantStub(), make(), q.QuantStub(), q.DeQuantStub()).eval()
        x = t.randn(shape)
        model.qconfig = q.default_qconfig
        prepared = q.prepare(model)
        prepared(x)
        converted = q.convert(prepared, is_reference=True)
        return converted(x).detach().numpy(), type(converted[2]).__module__.removeprefix("f"), repr(converted)

    (expected, *names), (found, *own) = run(torch), run(ftorch)
    assert own == names
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("name", [
    "DEFAULT_REFERENCE_STATIC_QUANT_MODULE_MAPPINGS", "DEFAULT_STATIC_QUANT_MODULE_MAPPINGS", "DEFAULT_QAT_MODULE_MAPPINGS",
    "DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS", "DEFAULT_STATIC_SPARSE_QUANT_MODULE_MAPPINGS",
    "DEFAULT_DYNAMIC_SPARSE_QUANT_MODULE_MAPPINGS",
])
def test_layers_have_pytorchs_counterparts(name):
    def names(t):
        found = getattr(t.ao.quantization.quantization_mappings, name)
        return {f"{k.__module__}.{k.__qualname__}".removeprefix("f"): f"{v.__module__}.{v.__qualname__}".removeprefix("f")
                for k, v in found.items()}

    assert names(ftorch) == names(torch)


def test_rows_of_bags_need_zero_points_that_are_no_integers():
    def error(t):
        layer = t.nn.EmbeddingBag(4, 3)
        layer.qconfig = t.ao.quantization.default_qat_qconfig
        try:
            t.ao.nn.qat.EmbeddingBag.from_float(layer)
        except AssertionError as problem:
            return str(problem)

    assert error(ftorch) == error(torch) is not None


@pytest.mark.parametrize("name, numbers", [
    (name, numbers)
    for name in ("MinMaxObserver", "MovingAverageMinMaxObserver", "PerChannelMinMaxObserver", "HistogramObserver")
    for numbers in ((float("nan"), 1.0), (float("inf"), 1.0), (2.0, 2.0), (0.0, 0.0))
    if name != "HistogramObserver" or numbers[0] == numbers[0]  # whose error shows the sign of a NaN
])
def test_ranges_of_special_numbers(name, numbers):
    def program(L):
        observer = getattr(L.ao.quantization, name)()
        observer(L.tensor([numbers, numbers]))
        return observer.calculate_qparams()

    assert_same(program)


def test_infinite_numbers_are_warned_of_as_by_pytorch():
    said = []
    for library in (torch, ftorch):
        with pytest.warns(UserWarning, match="detected") as caught:
            library.ao.quantization.HistogramObserver()(library.tensor([float("inf"), 1.0]))
        said.append(str(caught[0].message))
    assert said[0] == said[1]
