"""What packed weights keep, what layers make of them under each engine, bags of embeddings, and movements of tensors with a
scale for each channel are PyTorch's."""

import numpy as np
import pytest
import torch

import ftorch

from ..oracle.programs import assert_shows_same
from .comparing import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")
ENGINES = ("x86", "fbgemm", "onednn", "qnnpack")


@pytest.fixture(params=["x86", "fbgemm", "onednn"])
def engine(request):
    before = [t.backends.quantized.engine for t in (torch, ftorch)]
    for t in (torch, ftorch):
        t.backends.quantized.engine = request.param
    yield request.param
    for t, name in zip((torch, ftorch), before):
        t.backends.quantized.engine = name


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("turned", ["", "_transpose"])
def test_weights_of_convolutions(engine, dims, turned):
    for point in (0,) if engine == "onednn" else (0, 3):
        def program(L):
            weight = L.quantize_per_tensor(L.arange(8 * 2.0**dims).reshape(2, 4, *(2,) * dims) / 8, 0.0213, point, L.qint8)
            settings = [[1] * dims, [0] * dims, *([[0] * dims] if turned else []), [1] * dims, 1]
            bias = L.nn.Parameter(L.ones(4 if turned else 2))
            operators = L.ops.quantized
            packed = getattr(operators, f"conv{turned}{dims}d_prepack")(weight, bias, *settings)
            weight, kept = getattr(operators, f"conv{turned}{dims}d_unpack")(packed)
            return weight, weight.stride(), kept is bias

        assert_same(program)


def test_weights_of_linear_layers(engine):
    def program(L):
        weight, bias = L.quantize_per_tensor(L.arange(8.0).reshape(2, 4) / 8, 0.0213, 0, L.qint8), L.nn.Parameter(L.ones(2))
        weight, kept = L.ops.quantized.linear_unpack(L.ops.quantized.linear_prepack(weight, bias))
        return weight, kept is bias

    assert_same(program)


def test_weights_that_engines_refuse():
    for t in (torch, ftorch):
        weight = t.quantize_per_channel(t.ones(2, 3, 2, 2), t.ones(2), t.zeros(2, dtype=t.int64), 0, t.qint8)
        with pytest.raises(RuntimeError, match="Per Channel Quantization is currently disabled for transposed conv"):
            t.ops.quantized.conv_transpose2d_prepack(weight, None, [1, 1], [0, 0], [0, 0], [1, 1], 1)
        packed = t.ops.quantized.linear_prepack(t.quantize_per_tensor(t.ones(2, 2), 0.1, 0, t.qint8), None)
        x = t.quantize_per_tensor(t.ones(2, 2), 0.1, 0, t.quint8)
        with pytest.raises(RuntimeError, match="Didn't find engine for operation quantized::linear_tanh X86"):
            t.ops.quantized.linear_tanh(x, packed, 0.1, 0)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("offsets", [None, [0, 2], [0, 2, 6], [1, 2, 3], [0, 0, 5]])
def test_ends_of_bags(offsets, last):
    found = []
    for t in (torch, ftorch):
        table = t.quantize_per_channel(t.arange(40.0).reshape(10, 4), t.ones(10) / 8, t.zeros(10), 0, t.quint8)
        indices = t.tensor([[1, 2, 3], [4, 5, 6]])
        given = (indices, None) if offsets is None else (indices.flatten(), t.tensor(offsets))
        packed = t.ops.quantized.embedding_bag_prepack(table)
        found.append(t.ops.quantized.embedding_bag_byte(packed, *given, False, 0, False, None, None, last).numpy())
    np.testing.assert_allclose(found[1], found[0])


@pytest.mark.parametrize("move", [
    lambda q: q[0], lambda q: q.unbind()[0], lambda q: q.reshape(-1), lambda q: q.unsqueeze(0), lambda q: q.select(0, 0),
    lambda q: q.view(2, 12), lambda q: q.squeeze(), lambda q: list(q)[0],  # others PyTorch reads from where they are not
])
def test_parts_of_half_bytes(move):
    found = []
    for t in (torch, ftorch):
        x = t.arange(24.0).reshape(4, 6) / 8
        q = move(t.quantize_per_channel(x, t.arange(1, 5) / 20.0, t.arange(4) / 2.0, 0, t.quint4x2))
        found.append((str(q.dtype).split(".")[1], tuple(q.shape), q.int_repr().tolist()))
    assert found[1] == found[0]


@pytest.mark.parametrize("move", [
    lambda t, q: q.sort(1), lambda t, q: q.topk(2), lambda t, q: q.std(1), lambda t, q: q.relu(), lambda t, q: q.sigmoid(),
    lambda t, q: q.tanh(), lambda t, q: q.clamp(-1, 1), lambda t, q: t.cat([q, q]), lambda t, q: q.masked_fill(q > 0, 0.5),
])
def test_what_one_scale_is_needed_for(move):
    texts = []
    for t in (torch, ftorch):
        q = t.quantize_per_channel(t.arange(6.0).reshape(2, 3), t.ones(2), t.zeros(2, dtype=t.int64), 0, t.quint8)
        with pytest.raises(RuntimeError) as raised:
            move(t, q)
        texts.append(str(raised.value))
    assert texts[1] == texts[0]


def test_integers_are_in_order():
    def program(L):
        q = L.quantize_per_tensor(L.arange(6.0).reshape(2, 3), 0.5, 3, L.qint32)
        images = L.quantize_per_tensor(L.ones(1, 2, 3, 3), 0.5, 3, L.quint8).contiguous(memory_format=L.channels_last)
        return (q.t().int_repr().stride(), images.int_repr().stride(), q.sigmoid(), L.full_like(q, 1.5), 2.5 in q, 7.0 in q,
                L.nn.functional.hardsigmoid(q))

    assert_same(program)


@pytest.mark.parametrize("call", [
    lambda t, p: t.ops.quantized.linear_dynamic(t.ones(4), p), lambda t, p: t.ops.quantized.linear_relu_dynamic(t.ones(4), p),
    lambda t, p: t.ops.quantized.linear_dynamic(t.ones(2, 4).double(), p),
    lambda t, p: t.ops.quantized.linear_dynamic(t.ones(2, 5), p),
    lambda t, p: t.ops.quantized.linear(t.quantize_per_tensor(t.ones(4), 0.1, 0, t.quint8), p, 0.1, 0),
    lambda t, p: t.ops.quantized.linear_dynamic_fp16(t.ones(4), t.ops.quantized.linear_prepack_fp16(t.ones(2, 4), None)),
])
def test_inputs_that_linear_layers_refuse(call):
    texts = []
    for t in (torch, ftorch):
        weight = t.quantize_per_tensor(t.arange(8.0).reshape(2, 4) / 8, 0.02, 0, t.qint8)
        with pytest.raises(RuntimeError) as raised:
            call(t, t.ops.quantized.linear_prepack(weight, None))
        texts.append(str(raised.value)[:60])
    assert texts[1] == texts[0]


@pytest.mark.parametrize("extra", [0, 1])  # added on one side: another kernel
@pytest.mark.parametrize("dims", [1, 2])
def test_transposed_convolutions_between_two_integers(dims, extra):
    for point in (0, 3):
        found = []
        for t in (torch, ftorch):
            random = np.random.RandomState(dims)
            draw = lambda *shape: t.tensor(random.randint(-16, 17, shape).astype("f") / 8)  # noqa: E731, B023
            weight = t.quantize_per_tensor(draw(4, 4, *(3,) * dims), 0.125, point, t.qint8)
            packed = getattr(t.ops.quantized, f"conv_transpose{dims}d_prepack")(
                weight, None, [2] * dims, [1] * dims, [extra] * dims, [1] * dims, 1)
            x = t.quantize_per_tensor(draw(1, 4, *(5,) * dims), 0.0213, 0, t.quint8)
            found.append(getattr(t.ops.quantized, f"conv_transpose{dims}d")(x, packed, 0.0213, 5).int_repr().numpy())
        np.testing.assert_array_equal(found[1], found[0])


# --- layers under each engine


@pytest.fixture(autouse=True)
def _engines():
    yield
    for t in (torch, ftorch):
        t.backends.quantized.engine = "x86"


def _draw(t, seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return t.tensor((torch.randint(-16, 17, shape, generator=generator) / 8).numpy())


def _weight(t, shape, axis, by_channel):
    weight = _draw(t, 1, *shape)
    if not by_channel:
        return t.quantize_per_tensor(weight, 0.0371, 0, t.qint8)
    n = shape[axis]
    return t.quantize_per_channel(weight, (t.arange(n) + 1) * 0.011, t.zeros(n, dtype=t.long), axis, t.qint8)


@pytest.mark.parametrize("under", ENGINES)
@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose2d", "Linear"])
def test_biases_are_rounded_as_by_the_engine(under, kind):
    found = []
    for t in (torch, ftorch):
        t.backends.quantized.engine = under
        own = []
        transposed = "Transpose" in kind
        for by_channel in (False, True):
            # Transposed ones of PyTorch compute something else under x86 and onednn; scales for channels are only qnnpack's.
            if transposed and (under in ("x86", "onednn") or by_channel and under != "qnnpack"):
                continue
            if kind == "Linear":
                layer, shape, size = t.ao.nn.quantized.Linear(16, 24), (24, 16), (50, 16)
            else:
                dims = int(kind[-2])
                layer = getattr(t.ao.nn.quantized, kind)(8, 16, 3, padding=1, stride=2)
                shape = ((8, 16) if transposed else (16, 8)) + (3,) * dims
                size = (3, 8) + (6,) * dims
            weight = _weight(t, shape, int(transposed), by_channel)
            layer.set_weight_bias(weight, _draw(t, 2, 24 if kind == "Linear" else 16))
            layer.scale, layer.zero_point = 0.25, 3
            for scale, point in ((0.1, 128), (0.0625, 0), (1 / 3, 3)):
                own.append(layer(t.quantize_per_tensor(_draw(t, 3, *size), scale, point, t.quint8)).int_repr().tolist())
        found.append(own)
    assert found[0] == found[1]


@pytest.mark.parametrize("under", ENGINES)
@pytest.mark.parametrize("kind", ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"])
@pytest.mark.parametrize("size, kernel, padding, stride", [(2, 3, 0, 1), (1, 3, 0, 1), (2, 1, 2, 1), (3, 6, 0, 2)])
def test_results_without_elements(under, kind, size, kernel, padding, stride):
    def program(t):
        t.backends.quantized.engine = under
        layer = getattr(t.ao.nn.quantized, kind)(2, 2, kernel, padding=padding, stride=stride)
        x = t.quantize_per_tensor(t.ones(1, 2, *[size] * int(kind[-2])), 0.1, 3, t.quint8)
        return list(layer(x).shape)

    assert_shows_same(program)


@pytest.mark.parametrize("kind", ["Linear", "LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell"])
@pytest.mark.parametrize("dtype", ["float16", "qint8"])
def test_biases_of_half_precision_have_gradients(kind, dtype):
    """Products have none, neither for what they multiply."""
    found = []
    for t in (torch, ftorch):
        layer = getattr(t.nn, kind)
        model = t.nn.Sequential(layer(4, 3))
        quantized = t.ao.quantization.quantize_dynamic(model, {layer}, dtype=getattr(t, dtype))
        x = t.ones(*((2, 4) if "Cell" in kind or kind == "Linear" else (2, 1, 4)))
        x.requires_grad_(dtype == "float16" and kind == "Linear")
        y = quantized(x)
        while isinstance(y, tuple):
            y = y[0]
        if y.requires_grad:
            y.sum().backward()
        found.append((y.requires_grad, y.grad_fn and y.grad_fn.name(), x.grad))
    assert found[0] == found[1]
