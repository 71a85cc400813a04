"""`torch.ops.quantized`: random calls give PyTorch's integers."""

import numpy as np
import pytest
import torch

import ftorch

from .comparing import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")


class Draws:
    """Random tensors and quantizers, the same in both libraries."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def numbers(self, *shape, scale=1.0):
        return (self.rng.normal(size=shape) * scale).astype(np.float32)

    def shape(self):
        return tuple(self.rng.integers(1, 12, self.rng.integers(1, 4)).tolist())

    def quantizer(self, dtype="quint8"):
        zero = self.rng.integers(0, 256) - (128 if dtype == "qint8" else 0)
        return float(self.rng.uniform(0.005, 0.2)), int(zero)


def quantized(t, x, quantizer, dtype="quint8"):
    return t.quantize_per_tensor(t.tensor(x), *quantizer, getattr(t, dtype))


SIMPLE = {
    "add": lambda o, a, b, p: o.add(a, b, *p),
    "add_relu": lambda o, a, b, p: o.add_relu(a, b, *p),
    "mul": lambda o, a, b, p: o.mul(a, b, *p),
    "mul_relu": lambda o, a, b, p: o.mul_relu(a, b, *p),
    "numbers": lambda o, a, b, p: [
        f(a, x)
        for x in (1.3, -0.7, 0.0, 40.0)
        for f in (o.add_scalar, o.add_scalar_relu, o.mul_scalar, o.mul_scalar_relu)
    ],
    "cat": lambda o, a, b, p: [
        o.cat([a, b], 0, *p),
        o.cat_relu([a, b], 0, *p),
        o.cat([a, b], dim=0, scale=None, zero_point=None),
    ],
    "activations": lambda o, a, b, p: [
        o.leaky_relu(a, 0.1, False, *p),
        o.hardswish(a, *p),
        o.relu6(a),
        o.clamp(a, -1.0, 0.7),
        o.threshold(a, 0.1, 0.3),
        o.sigmoid(a, *p),
    ],
}


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("seed", range(6))
def test_elementwise(name, seed):
    draw = Draws(seed)
    dtype = ["quint8", "qint8"][seed % 2]
    shape = draw.shape()
    x, y = draw.numbers(*shape, scale=3), draw.numbers(*shape, scale=3)
    p, r, s = (draw.quantizer(dtype) for _ in range(3))
    assert_same(lambda t: SIMPLE[name](t.ops.quantized, quantized(t, x, p, dtype), quantized(t, y, r, dtype), s))


@pytest.fixture(params=["x86", "fbgemm", "onednn"])
def engine(request):
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = ftorch.backends.quantized.engine = request.param
    yield request.param
    torch.backends.quantized.engine = ftorch.backends.quantized.engine = before


def weight_of(t, w, scales, channels):
    if channels:
        return t.quantize_per_channel(t.tensor(w), t.tensor(scales), t.zeros(len(scales), dtype=t.long), 0, t.qint8)
    return t.quantize_per_tensor(t.tensor(w), float(scales[0]), 0, t.qint8)


@pytest.mark.parametrize("seed", range(6))
def test_linear(engine, seed):
    draw = Draws(seed)
    n, k, m = draw.rng.integers(1, 120, 3).tolist()
    x, w, b = draw.numbers(n, k), draw.numbers(m, k), draw.numbers(m)
    scales, p = draw.rng.uniform(0.005, 0.1, m), draw.quantizer()
    out = (float(draw.rng.uniform(0.05, 3)), 60)

    def program(t):
        o = t.ops.quantized
        # Packed twice: oneDNN keeps what it made of the first call, with or without a ReLU.
        packed, again = (
            o.linear_prepack(weight_of(t, w, scales, seed % 2), t.tensor(b) if seed % 3 else None) for _ in range(2)
        )
        given = quantized(t, x, p)
        results = [o.linear(given, packed, *out), o.linear_relu(given, again, *out), packed.unpack()[0]]
        if engine != "onednn":
            results += [o.linear_dynamic(t.tensor(x), packed, True), o.linear_relu_dynamic(t.tensor(x), packed)]
        return results

    assert_same(program, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_convolution(engine, dims, seed):
    draw = Draws(seed * 3 + dims)
    groups = [1, 2, 1][seed]
    ci, co = (groups * draw.rng.integers(1, 10, 2)).tolist()
    x, w, b = draw.numbers(2, ci, *(6,) * dims), draw.numbers(co, ci // groups, *(3,) * dims), draw.numbers(co)
    scales, p, out = draw.rng.uniform(0.005, 0.1, co), draw.quantizer(), (0.3, 70)
    stride, padding, dilation = [[1 + seed % 2] * dims, [seed] * dims, [1 + (seed == 1)] * dims]

    def program(t):
        o = t.ops.quantized
        packed, again = (
            getattr(o, f"conv{dims}d_prepack")(weight_of(t, w, scales, seed % 2), t.tensor(b) if seed else None, stride,
                                               padding, dilation, groups) for _ in range(2))
        given = quantized(t, x, p)
        result = getattr(o, f"conv{dims}d")(given, packed, *out)
        return [result, getattr(o, f"conv{dims}d_relu")(given, again, *out), list(result.stride())]

    assert_same(program)


def test_transposed_convolution():
    draw = Draws(5)
    x, w = draw.numbers(2, 4, 6, 6), draw.numbers(4, 3, 3, 3)

    def program(t):
        t.backends.quantized.engine = "fbgemm"
        try:
            o = t.ops.quantized
            packed = o.conv_transpose2d_prepack(weight_of(t, w, [0.03], 0), None, [2, 2], [1, 1], [1, 1], [1, 1], 1)
            return o.conv_transpose2d(quantized(t, x, (0.05, 100)), packed, 0.3, 70)
        finally:
            t.backends.quantized.engine = "x86"

    assert_same(program)


def test_normalizations_and_pooling():
    draw = Draws(7)
    x = draw.numbers(2, 4, 5, 6, scale=2)
    vectors = [draw.numbers(4) for _ in range(3)] + [draw.rng.uniform(0.3, 2, 4).astype(np.float32)]

    def program(t):
        o, f = t.ops.quantized, t.nn.functional
        q = quantized(t, x, (0.03, 100))
        given = [t.tensor(v) for v in vectors]
        return [
            o.batch_norm2d(q, *given, 1e-5, 0.1, 90), o.batch_norm2d_relu(q, *given, 1e-5, 0.1, 90),
            o.layer_norm(q, [6], t.ones(6), t.zeros(6), 1e-5, 0.05, 100),
            o.group_norm(q, 2, given[0], given[1], 1e-5, 0.05, 100), f.max_pool2d(q, 3, 2, 1),
        ]

    assert_same(program)


@pytest.mark.parametrize("kind", ["byte", "4bit", "2bit"])
def test_embeddings(kind):
    draw = Draws(9)
    table, index, offsets = draw.numbers(10, 12), draw.rng.integers(0, 10, 15), np.array([0, 3, 3, 9])
    scales, zeros = draw.rng.uniform(0.02, 0.2, 10).astype("f4"), draw.rng.uniform(0, 8, 10).astype("f4")

    def program(t):
        o = t.ops.quantized
        packed = getattr(o, f"embedding_bag_{kind}_prepack")(t.tensor(table))
        results = [packed, getattr(o, f"embedding_bag_{kind}_unpack")(packed),
                   getattr(o, f"embedding_bag_{kind}_rowwise_offsets")(packed, t.tensor(index), t.tensor(offsets))]
        if kind != "2bit":
            rows = t.quantize_per_channel(t.tensor(table), t.tensor(scales), t.tensor(zeros), 0,
                                          t.quint8 if kind == "byte" else t.quint4x2)
            rows = o.embedding_bag_prepack(rows)
            results += [getattr(o, f"embedding_{kind}")(rows, t.tensor(index)),
                        getattr(o, f"embedding_bag_{kind}")(rows, t.tensor(index), t.tensor(offsets))]
        return results

    assert_same(program, rtol=1e-4, atol=1e-4)


def test_functions_of_the_top_level():
    def program(t):
        draws = Draws(7)

        def some(*shape, dtype="quint8"):
            return quantized(t, draws.numbers(*shape), draws.quantizer(dtype), dtype)

        numbers = [t.tensor(abs(draws.numbers(3)) + 0.5) for _ in range(4)]
        return [
            t.quantized_max_pool1d(some(2, 3, 9), [2]), t.quantized_max_pool1d(some(2, 3, 9), 2, 3, 1),
            t.quantized_max_pool2d(some(2, 3, 9, 9), [2, 3], [1, 2], [1, 1], [1, 1], True),
            t.quantized_max_pool2d(some(2, 3, 9, 9, dtype="qint8"), 3),
            t.quantized_max_pool3d(some(2, 3, 4, 5, 6), [2, 2, 2], [1, 1, 1], [1, 1, 1]),
            t.quantized_batch_norm(some(2, 3, 4, 5), *numbers, 1e-5, 0.2, 3),
        ]

    assert all(x.is_quantized for x in program(torch))
    assert_same(program)


@pytest.mark.parametrize("call", [
    lambda t: t.quantized_max_pool2d(t.ones(1, 2, 4, 4), 2),
    lambda t: t.quantized_batch_norm(
        t.quantize_per_tensor(t.ones(1, 3, 2, 2), 0.1, 0, t.quint8), None, None, t.ones(3), t.ones(3), 1e-5, 0.2, 3),
])
def test_errors_of_functions_of_the_top_level(call):
    raised = []
    for t in (ftorch, torch):
        with pytest.raises((RuntimeError, NotImplementedError)) as caught:
            call(t)
        raised.append((caught.type.__name__, str(caught.value).partition(". ")[0]))
    assert raised[0] == raised[1]
