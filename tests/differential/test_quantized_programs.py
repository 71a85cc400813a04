"""Random programs of quantized tensors give PyTorch's integers, quantizers and strides."""

import random

import numpy as np
import pytest
import torch

import ftorch

pytestmark = pytest.mark.filterwarnings("ignore")

UNARY = {
    "relu": lambda t, x, *o: t.relu(x), "relu6": lambda t, x, *o: t.ops.quantized.relu6(x, False),
    "leaky_relu": lambda t, x, *o: t.ops.quantized.leaky_relu(x, 0.3, False, *o),
    "elu": lambda t, x, *o: t.ops.quantized.elu(x, *o, 1.0), "celu": lambda t, x, *o: t.ops.quantized.celu(x, *o, 1.5),
    "sigmoid": lambda t, x, *o: t.ops.quantized.sigmoid(x, *o), "tanh": lambda t, x, *o: t.tanh(x),
    "hardsigmoid": lambda t, x, *o: t.nn.functional.hardsigmoid(x),
    "hardtanh": lambda t, x, *o: t.nn.functional.hardtanh(x, -0.7, 0.9),
    "clamp": lambda t, x, *o: t.ops.quantized.clamp(x, -0.5, 0.8),
    "threshold": lambda t, x, *o: t.ops.quantized.threshold(x, 0.1, 0.3),
    "hardswish": lambda t, x, *o: t.ops.quantized.hardswish(x, *o),
    "add_scalar": lambda t, x, *o: t.ops.quantized.add_scalar(x, 0.3),
    "mul_scalar": lambda t, x, *o: t.ops.quantized.mul_scalar(x, -0.2),
    "t": lambda t, x, *o: x.t(), "reshape": lambda t, x, *o: x.reshape(3, 8), "flip": lambda t, x, *o: x.flip(0),
    "max": lambda t, x, *o: x.max(), "min": lambda t, x, *o: x.min(1), "sort": lambda t, x, *o: x.sort(1)[0],
    "topk": lambda t, x, *o: x.topk(2, 1)[0], "mean": lambda t, x, *o: x.mean(1),
    "compare": lambda t, x, *o: x > x.dequantize().mean(), "slice": lambda t, x, *o: x[1:, ::2],
    "index_select": lambda t, x, *o: t.index_select(x, 1, t.tensor([0, 3])), "clone": lambda t, x, *o: x.clone(),
    "expand": lambda t, x, *o: x.unsqueeze(0).expand(2, 4, 6), "dequantize": lambda t, x, *o: x.dequantize(),
}


class Draw:
    """Random tensors, the same for both libraries."""

    def __init__(self, t, seed):
        self.t, self.random, self.numpy = t, random.Random(seed), np.random.RandomState(seed)

    def quantized(self, *shape, dtype="quint8", channels=False, spread=1.0):
        t, r = self.t, self.random
        x = t.tensor(self.numpy.randn(*shape).astype("f4") * spread)
        scale = r.choice([0.01, 0.05, 0.1, 0.013, 0.25])
        point = r.randint(0, 255) if dtype == "quint8" else r.choice([0, 0, r.randint(-20, 20)])
        if not channels:
            return t.quantize_per_tensor(x, scale, point, getattr(t, dtype))
        scales = t.tensor(self.numpy.rand(shape[0]) * 0.1 + 0.01)
        return t.quantize_per_channel(x, scales, t.zeros(shape[0], dtype=t.int64), 0, getattr(t, dtype))

    def floats(self, n):
        return self.t.tensor(self.numpy.randn(n).astype("f4"))

    def output(self):
        return self.random.choice([0.02, 0.1, 0.037, 0.5]), self.random.randint(0, 255)


def unary(t, d):
    name = d.random.choice(list(UNARY))
    return UNARY[name](t, d.quantized(4, 6, spread=d.random.choice([1, 5])), *d.output())


def prelu(t, d):
    slopes = d.quantized(d.random.choice([1, 4]), spread=0.3)
    return t.ops.quantized.prelu(d.quantized(2, 4, 5, spread=2), slopes, *d.output())


def binary(t, d):
    name = d.random.choice(["add", "mul", "add_relu", "mul_relu", "matmul", "cat"])
    a, q = d.quantized(3, 5), t.ops.quantized
    if name == "matmul":
        return q.matmul(a, d.quantized(5, 4), *d.output())
    b = d.quantized(3, 5, spread=3)
    return q.cat([a, b], d.random.choice([0, 1]), *d.output()) if name == "cat" else getattr(q, name)(a, b, *d.output())


def linear(t, d):
    r, q = d.random, t.ops.quantized
    i, o = r.choice([3, 8, 33, 128]), r.choice([1, 5, 16])
    weight = d.quantized(o, i, dtype="qint8", channels=r.random() < 0.5)
    packed = q.linear_prepack(weight, d.floats(o) if r.random() < 0.6 else None)
    return r.choice([q.linear, q.linear_relu])(d.quantized(4, i), packed, *d.output())


def convolution(t, d, large=False):
    r, q = d.random, t.ops.quantized
    n, groups = (2, 1) if large else (r.choice([1, 2, 3]), r.choice([1, 1, 2]))
    i, o = 256 if large else groups * r.choice([1, 3, 4]), groups * r.choice([2, 4])
    weight = d.quantized(o, i // groups, *(3,) * n, dtype="qint8", channels=r.random() < 0.5, spread=3 if large else 1)
    bias = d.floats(o) if r.random() < 0.6 else None
    settings = [r.choice([1, 2])] * n, [r.choice([0, 1])] * n, [r.choice([1, 1, 2])] * n
    packed = getattr(q, f"conv{n}d_prepack")(weight, bias, *settings, groups)
    x = d.quantized(2, i, *(7,) * n, spread=5 if large else 1)
    return getattr(q, f"conv{n}d" + r.choice(["", "_relu"]))(x, packed, *d.output())


def large_convolution(t, d):
    return convolution(t, d, True)


def pooling(t, d):
    F, r, x = t.nn.functional, d.random, d.quantized(2, 3, 8, 8)
    return r.choice([
        lambda: F.max_pool2d(x, r.choice([2, 3]), r.choice([1, 2]), r.choice([0, 1])),
        lambda: F.avg_pool2d(x, r.choice([2, 3]), r.choice([1, 2]), 1, r.random() < 0.5, r.random() < 0.5),
        lambda: F.adaptive_avg_pool2d(x, r.choice([1, 3, 5])), lambda: F.interpolate(x, scale_factor=2, mode="nearest"),
        lambda: F.interpolate(x, size=(11, 5), mode="bilinear", align_corners=r.random() < 0.5),
    ])()


def interpolation(t, d):
    r, x = d.random, d.quantized(2, 3, 8, 9)
    how = r.choice([{"size": (11, 5)}, {"size": (1, 20)}, {"scale_factor": 2}, {"scale_factor": (1.7, 0.6)}])
    return t.nn.functional.interpolate(x, mode="bilinear", align_corners=r.random() < 0.5, **how)


def normalization(t, d):
    q, x = t.ops.quantized, d.quantized(2, 4, 6)
    kind, weight = d.random.choice(["layer", "group", "instance"]), d.floats(4)
    if kind == "layer":
        weight = d.floats(6)
        return q.layer_norm(x, [6], weight, weight, 1e-5, *d.output())
    if kind == "group":
        return q.group_norm(x, 2, weight, weight, 1e-5, *d.output())
    return q.instance_norm(x, weight, weight, 1e-5, *d.output())


PROGRAMS = [unary, prelu, binary, linear, convolution, large_convolution, pooling, interpolation, normalization]


def integers_of(program, t, seed):
    found = program(t, Draw(t, seed))
    for x in found if isinstance(found, tuple) else (found,):
        if x.is_quantized:
            yield from (x.int_repr().numpy(), str(x.qscheme()), str(x.dtype), tuple(x.stride()))
        else:
            yield x.numpy()


def assert_same_integers(program, seeds):
    for seed in seeds:
        for expected, found in zip(integers_of(program, torch, seed), integers_of(program, ftorch, seed), strict=True):
            if isinstance(expected, np.ndarray):
                np.testing.assert_array_equal(found, expected, err_msg=f"{program.__name__} {seed}")
            else:
                assert found == expected, (program.__name__, seed)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_integers_are_those_of_pytorch(program):
    assert_same_integers(program, range(30 if program is interpolation else 6))


# Sums that lie next to the middle of two integers: the order of multiplications and of sums decides.
TIES = [(binary, 41083), (binary, 41101), (convolution, 41006), (convolution, 41082), (convolution, 41097)]


@pytest.mark.parametrize("program, seed", TIES, ids=lambda p: getattr(p, "__name__", str(p)))
def test_what_lies_between_two_integers(program, seed):
    assert_same_integers(program, [seed])
