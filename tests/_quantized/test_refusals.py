"""What operators of quantized tensors refuse: the same calls, under each engine, in PyTorch's words."""

from __future__ import annotations

import pytest
import torch

import ftorch
from ftorch._ops import REGISTERED
from ftorch._quantized._operators import QuantizedOperator

pytestmark = pytest.mark.filterwarnings("ignore")


def quantized(t, shape, dtype="quint8"):
    return t.quantize_per_tensor(t.ones(shape), 0.1, 1 if dtype == "quint8" else 0, getattr(t, dtype))


def said(call):
    """The class of a call's result, with its dtype and integers; or its error and what PyTorch says of the cause."""
    try:
        found = call()
    except Exception as error:
        text = str(error).partition(" If you are a Facebook")[0].partition(" Quantize it first")[0]
        return type(error).__name__, text.partition(" Call .dequantize()")[0]
    return (str(found.dtype).rpartition(".")[2], found.int_repr().tolist()) if hasattr(found, "int_repr") else "made"


def calls(t, engine):
    """Calls, most of which are refused."""
    o = t.ops.quantized
    for dtype in ("quint8", "qint8", "qint32", None):
        w = quantized(t, (2, 2), dtype) if dtype else t.ones(2, 2)
        yield lambda w=w: o.linear_prepack(w)
        yield lambda w=w: o.linear_prepack(w, t.ones(3))
        yield lambda w=w: o.linear_prepack(w, t.ones(1, 2))
        yield lambda w=w: o.linear_prepack(w.reshape(4))
        for name in ("linear", "linear_relu"):
            yield lambda w=w, f=getattr(o, name): f(w, o.linear_prepack(quantized(t, (2, 2), "qint8"), None), 0.1, 0)
    for name in ("linear_tanh", "linear_leaky_relu"):
        for x in (quantized(t, (2, 2), "qint32"), quantized(t, (2, 2)), t.ones(2, 2)):
            rest = (0.1,) if name == "linear_leaky_relu" else ()
            packed = o.linear_prepack(quantized(t, (2, 2), "qint8"), None)
            yield lambda x=x, f=getattr(o, name), p=packed, r=rest: f(x, p, 0.1, 0, *r)
    packed = o.linear_prepack(quantized(t, (2, 2), "qint8"), None)
    yield lambda p=packed: o.linear_dynamic(quantized(t, (2, 2)), p)
    if engine not in ("onednn", "qnnpack"):
        yield lambda p=packed: o.linear_dynamic(t.ones(2, 2).double(), p)
    for dims in (1, 2, 3):
        shape, one, no = (1,) * (dims + 2), [1] * dims, [0] * dims
        prepack, transposed = getattr(o, f"conv{dims}d_prepack"), getattr(o, f"conv_transpose{dims}d_prepack")
        yield lambda p=prepack, s=shape, a=one, b=no: p(t.ones(s), None, a, b, a, 1)
        yield lambda p=prepack, s=shape, a=one, b=no: p(quantized(t, s), None, a, b, a, 1)
        yield lambda p=prepack, s=shape, a=one, b=no: p(quantized(t, s[1:], "qint8"), None, a, b, a, 1)
        yield lambda p=transposed, s=shape, a=one, b=no: p(t.ones(s), None, a, b, b, a, 1)
        packed = prepack(quantized(t, shape, "qint8"), None, one, no, one, 1)
        backwards = transposed(quantized(t, shape, "qint8"), None, one, no, no, one, 1)
        for x in (t.ones(shape), quantized(t, shape, "qint8")):
            for name in (f"conv{dims}d", f"conv{dims}d_relu"):
                yield lambda x=x, f=getattr(o, name), p=packed: f(x, p, 0.1, 0)
            yield lambda x=x, f=getattr(o, f"conv_transpose{dims}d"), p=backwards: f(x, p, 0.1, 0)
        for x in (quantized(t, shape), t.ones(shape).double()):
            yield lambda x=x, f=getattr(o, f"conv{dims}d_dynamic"), p=packed: f(x, p, False)
        if dims == 2:
            for name in ("conv2d_add", "conv2d_add_relu"):
                yield lambda f=getattr(o, name), p=packed: f(quantized(t, (1, 1, 1, 1)), quantized(t, (1, 1, 1, 1)), p, 0.1, 0)


@pytest.mark.parametrize("engine", [e for e in torch.backends.quantized.supported_engines if e != "none"])
def test_layers(engine):
    found = []
    for t in (ftorch, torch):
        before = t.backends.quantized.engine
        t.backends.quantized.engine = engine
        try:
            found.append([said(call) for call in calls(t, engine)])
        finally:
            t.backends.quantized.engine = before
    assert found[0] == found[1]
    assert sum(isinstance(text, tuple) and text[0].endswith("Error") for text in found[1]) > 30


def test_operators_of_ordinary_numbers_are_pytorchs():
    """Which operators compute on quantized tensors, and which on others."""
    known = set(torch._C._dispatch_get_all_op_names())
    compared = 0
    for name, packet in REGISTERED.items():
        if isinstance(packet, QuantizedOperator):
            for backend in ("CPU", "QuantizedCPU"):
                if name in known and torch._C._dispatch_has_kernel_for_dispatch_key(name, backend):
                    compared += 1
                    assert packet._backend == backend or name == "quantized::max_pool2d", name
    assert compared > 100


@pytest.mark.parametrize("program", [
    lambda t, x, f: t.ops.quantized.add(f, f, 0.1, 0), lambda t, x, f: t.ops.quantized.mul_relu(f, 2.0),
    lambda t, x, f: t.ops.quantized.add(2.0, f), lambda t, x, f: t.ops.quantized.add_scalar(f, t.tensor(2.0)),
    lambda t, x, f: t.ops.quantized.cat([f, f], 0, 0.1, 0), lambda t, x, f: t.ops.quantized.sigmoid(f, 0.1, 0),
    lambda t, x, f: t.ops.quantized.embedding_bag_byte_prepack(x), lambda t, x, f: t.ops.quantized.linear_prepack_fp16(x),
    lambda t, x, f: t.ops.sparse.qlinear_prepack(f, None, 1, 4),
])
def test_ordinary_numbers_and_quantized_ones(program):
    mine, theirs = (said(lambda t=t: program(t, quantized(t, (2, 2)), t.ones(2, 2))) for t in (ftorch, torch))
    assert mine == theirs and theirs[0] == "NotImplementedError"


@pytest.mark.parametrize("options", [
    {}, {"mode": "nearest"}, {"mode": "bicubic"}, {"mode": "none"}, {"padding_mode": "none"}, {"dtype": "qint8"},
    {"image": (1, 1, 4, 4, 4), "grid": (1, 2, 2, 2, 3)}, {"image": (1, 4, 4)}, {"grid": (1, 2, 2, 3)}, {"grid": (2, 2, 2, 2)},
    {"of": "quint8"}, {"of": "float64"},
], ids=str)
def test_samples(options):
    """`grid_sample` of quantized images."""
    def program(t, image=(1, 1, 4, 4), grid=(1, 2, 2, 2), dtype="quint8", of="float32", **modes):
        places = quantized(t, grid) if of == "quint8" else t.zeros(grid, dtype=getattr(t, of))
        return t.nn.functional.grid_sample(quantized(t, image, dtype), places, align_corners=False, **modes)

    mine, theirs = (said(lambda t=t: program(t, **options)) for t in (ftorch, torch))
    assert mine == theirs
