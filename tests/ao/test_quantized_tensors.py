"""Quantized tensors: what they say, views, writes, printing and files, as PyTorch has them."""

import copy
import io

import numpy as np
import pytest
import torch

import ftorch

from .comparing import assert_same, shown_parts

pytestmark = pytest.mark.filterwarnings("ignore")


def names(t):
    """Tensors of every kind, by name."""
    t.manual_seed(0)
    x = t.randn(2, 3)
    scales = t.tensor([0.1, 0.2])
    return {
        "t": t, "x": x, "F": t.nn.functional,
        "q": t.quantize_per_tensor(x, 0.1, 10, t.quint8),
        "s": t.quantize_per_tensor(x, 0.05, -3, t.qint8),
        "w": t.quantize_per_tensor(x, 0.01, 5, t.qint32),
        "c": t.quantize_per_channel(x, scales, t.tensor([1, 2]), 0, t.qint8),
        "f": t.quantize_per_channel(x, scales, t.tensor([1.5, 2]), 0, t.quint8),
        "b": t.quantize_per_channel(t.randn(2, 4), scales, t.tensor([1.5, 2.0]), 0, t.quint4x2),
        "i": t.quantize_per_tensor(t.randn(1, 4, 4, 6), 0.05, 100, t.quint8),
    }


EXPRESSIONS = """
repr(q), repr(c), repr(b), repr(f), repr(s), repr(w), repr(q[:0])
q, s, w, c, f, b, b.dequantize(), b.element_size(), b.numel(), b.stride()
q.q_scale(), q.q_zero_point(), c.q_per_channel_scales(), c.q_per_channel_zero_points(), c.q_per_channel_axis()
c.q_scale()
q.q_per_channel_scales()
x.q_scale()
x.int_repr()
x.dequantize(), t.dequantize([q, s]), q.is_quantized, x.is_quantized
q + q
q * q
q.sum()
q.argmax()
-q
q.float()
q.to(t.qint8)
q.numpy()
q.tolist()
q.is_signed()
q.requires_grad_()
q == q, q == x, q > 0, q.ne(s), q.lt(0.3), q.equal(q), t.equal(q, s)
q.allclose(q)
q.relu(), t.sigmoid(q), t.tanh(s), t.clamp(q, 0, 1), F.hardtanh(q), F.leaky_relu(q, 0.2), F.hardsigmoid(q)
q.max(), q.max(0)[0], q.min(1), q.sort(), q.topk(2), q.mean(), q.mean(0), q.argsort()
q[0], q[0, 1], q[0, 1].item(), q.t(), q[:, 1:], q[x > 0], q[t.tensor([1, 0])], q.index_select(0, t.tensor([1]))
c[0], c[1:], c[:1], c.unsqueeze(0), c.clone(), c.detach(), c.contiguous()
c.t()
c.index_select(0, t.tensor([0]))
t.cat([q, q]), t.stack([q, q]), t.cat([q, t.quantize_per_tensor(x, 0.3, 2, t.quint8)], 1)
q.copy_(x * 2), s.copy_(s), c.copy_(x), w.fill_(0.333)
x.clone().copy_(q)
q.masked_fill(x > 0, 0.25), q.index_put((t.tensor([0]),), t.tensor(1.0))
c.view(-1), c.view(3, 2).int_repr(), c.reshape(-1), c.flatten(), c.ravel().q_per_channel_axis()
c.view(-1).dequantize()
c.view(3, 2).dequantize()
c.unflatten(1, (3, 1)).dequantize()
c[None], c[None, 1:].dequantize(), c[..., 1:, None].dequantize(), c[None, :, 1].shape
c.split(1), c.split([1, 2], 1), c.chunk(2, 1), c.tensor_split(2), c.hsplit(3)
c.flip(0)
c.expand(4, 2, 3)
c.repeat(2, 1)
c.diagonal()
c.movedim(0, 1)
c.max(1)
c.mean(1)
c.resize_(1)
q.t_(), s.unsqueeze_(0), s.squeeze_(), q.stride(), w.resize_(2, 2), q.repeat_interleave(2), q.repeat_interleave(3, 1)
q.index_put_((t.tensor([0]),), q[:1])
__import__("copy").copy(q), __import__("copy").copy(c)
F.max_pool3d(i.reshape(1, 1, 4, 4, 6), 2)
q.flip(0), q.repeat(2, 1), q.expand(2, 2, 3), q.permute(1, 0).contiguous(), q.chunk(2), q.unbind(), q.narrow(0, 1, 1)
F.max_pool2d(i, 2), F.avg_pool2d(i, 2), F.interpolate(i, scale_factor=2), F.pad(i, (1, 1), value=0.3)
t.quantize_per_tensor([x, x], t.tensor([0.1, 0.2]), t.tensor([1, 2]), t.quint8)
t.quantize_per_tensor(x, 0.1, 1, t.float)
t.quantize_per_tensor(x.double(), 0.1, 1, t.quint8)
t.quantize_per_tensor(x, 0.1, 300, t.quint8)
t.quantize_per_tensor(x, 0.1, 1, t.quint4x2).dequantize()
t.quantize_per_channel(x, t.tensor([0.1]), t.tensor([1]), 0, t.quint8)
t.quantize_per_tensor_dynamic(x, t.quint8, False), t.quantize_per_tensor_dynamic(x, t.qint8, True)
t._choose_qparams_per_tensor(x, True), t.choose_qparams_optimized(x, 6, 200, 0.16, 8)
t._make_per_tensor_quantized_tensor(t.tensor([1, 2], dtype=t.uint8), 0.1, 1)
t._make_per_channel_quantized_tensor(t.tensor([1, 2], dtype=t.uint8), t.ones(2), t.zeros(2), 0)
t.quantize_per_tensor(t.tensor([float("nan"), float("inf"), -1e30, 0.25, 0.75, -0.25]), 0.5, 3, t.quint8)
t.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 15)
t.nn.Parameter(q, requires_grad=False), q.type(), str(q.dtype), q.storage().dtype is q.dtype
""".strip().splitlines()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression):
    assert_same(lambda t: eval(expression, names(t)))  # noqa: S307


def test_views_share_memory_and_writes_are_seen():
    def program(t):
        q = names(t)["q"]
        view, row = q.t(), q[1]
        row[0] = 0.7
        q[0] = t.tensor([1.0, 2.0, 3.0])
        view[2, 1] = -0.4
        clone = q.clone()
        clone.fill_(0.1)
        return q, view, row, clone, q.data_ptr() == view.data_ptr()

    assert_same(program)


@pytest.mark.parametrize("name", ["q", "s", "w", "c", "f", "b"])
def test_files_go_both_ways(name):
    ours, theirs = names(ftorch)[name], names(torch)[name]
    for value, writer, reader in ((ours, ftorch, torch), (theirs, torch, ftorch)):
        for weights_only in (True, False):
            file = io.BytesIO()
            writer.save({"value": value, "part": value[:1] if name in "qsw" else 0}, file)
            file.seek(0)
            found = reader.load(file, weights_only=weights_only)
            assert repr(found["value"]) == repr(value)
            assert (found["value"].int_repr().numpy() == value.int_repr().numpy()).all()
            if name in "qsw":
                assert repr(found["part"]) == repr(value[:1])


def test_copies():
    q = names(ftorch)["c"]
    assert copy.deepcopy(q).equal(q) and q.clone().equal(q)


def test_random_numbers_quantize_to_the_same_integers():
    rng = np.random.default_rng(0)
    for _ in range(60):
        shape = tuple(rng.integers(1, 30, rng.integers(1, 4)).tolist())
        x = (rng.normal(size=shape) * rng.choice([0.1, 1, 30])).astype(np.float32)
        scale, zero = float(rng.choice([0.5, 0.1, rng.uniform(1e-3, 1)])), int(rng.integers(-100, 100))
        axis = int(rng.integers(len(shape)))
        scales = rng.uniform(1e-3, 1, shape[axis])
        zeros = rng.integers(-100, 100, shape[axis])

        def program(t):
            given = t.tensor(x)  # noqa: B023
            return (
                t.quantize_per_tensor(given, scale, zero, t.qint8),  # noqa: B023
                t.quantize_per_tensor(given, scale, zero + 100, t.quint8),  # noqa: B023
                t.quantize_per_tensor(given, scale, zero * 1000, t.qint32),  # noqa: B023
                t.quantize_per_channel(given, t.tensor(scales), t.tensor(zeros), axis, t.qint8),  # noqa: B023
                t.quantize_per_channel(given, t.tensor(scales), t.tensor(zeros / 7), axis, t.quint8),  # noqa: B023
                t.quantize_per_tensor(given, scale, zero, t.qint8).dequantize(),  # noqa: B023
            )

        assert_same(program)


def test_errors_say_what_to_do():
    kind, text = shown_parts(lambda t: names(t)["q"] + 1, ftorch)
    assert kind == "NotImplementedError"
    with pytest.raises(NotImplementedError, match="dequantize"):
        names(ftorch)["q"].cumsum(0)


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("count", [3, 64, 300])
def test_the_range_that_loses_least(bits, count):
    def run(t):
        t.manual_seed(count)
        x = t.randn(count)
        return [float(v) for v in t.choose_qparams_optimized(x, count, 200, 0.16, bits)]

    assert run(ftorch) == run(torch)


@pytest.mark.parametrize("name", ["number", "channel", "rows", "strided", "other scheme"])
def test_parts_of_tensors_with_scales_for_channels_are_written(name):
    def run(t):
        scales, zeros = t.tensor([0.1, 0.2, 0.3], dtype=t.double), t.tensor([1, 2, 3])
        x = t.quantize_per_channel(t.arange(24.0).reshape(2, 3, 4) / 9, scales, zeros, 1, t.quint8)
        if name == "number":
            x[1, 2, 3] = 0.7
        elif name == "channel":
            x[0, 1] = 1.25
        elif name == "rows":
            x[1] = t.ones(3, 4)
        elif name == "strided":
            x[:, 1] = t.ones(2, 4)
        else:
            x[0] = t.quantize_per_tensor(t.ones(3, 4), 0.1, 0, t.quint8)
        return x

    assert_same(run)


@pytest.mark.parametrize("name", ["all", "dim", "several", "channel"])
def test_dimensions_of_one_before_the_channels_are_dropped(name):
    def run(t):
        scales, zeros = t.tensor([0.1, 0.2, 0.3], dtype=t.double), t.tensor([1, 2, 3])
        x = t.quantize_per_channel(t.arange(12.0).reshape(1, 3, 1, 4), scales, zeros, 1, t.quint8)
        if name == "channel":
            x = t.quantize_per_channel(t.ones(1, 3), scales[:1], zeros[:1], 0, t.quint8)
        return {"all": lambda: x.squeeze(), "dim": lambda: x.squeeze(0), "several": lambda: x.squeeze((0, 2)),
                "channel": lambda: x.squeeze()}[name]()

    assert_same(run)


@pytest.mark.parametrize("name", ["qint8", "float32", "float16", "int64", "quint4x2", "complex64", "new"])
def test_what_quantized_tensors_do_not_make(name):
    def run(t):
        x = t.quantize_per_tensor(t.ones(3), 0.1, 0, t.quint8)
        try:
            return x.new(3) if name == "new" else t.empty_like(x, dtype=getattr(t, name))
        except RuntimeError as error:
            return str(error)

    assert run(ftorch) == run(torch) and isinstance(run(ftorch), str)


def test_weights_too_large_for_half_precision_are_limited():
    def run(t):
        weight = t.tensor([[1e6, -1e6, 2.0], [1e-9, 65504.0, 65505.0]])
        result = t._saturate_weight_to_fp16(weight)
        turned = t._saturate_weight_to_fp16(t.tensor([[1e6, 1.0]]).t())
        return [weight, result.data_ptr() == weight.data_ptr(), turned]

    assert_same(run)


def test_slopes_of_quantized_tensors():
    assert_same(lambda t: t.prelu(t.quantize_per_tensor(t.arange(-6.0, 6.0).reshape(3, 4), 0.1, 70, t.quint8),
                                  t.quantize_per_tensor(t.tensor([0.25]), 0.05, 3, t.quint8)))


def test_packed_weights_are_objects_of_scripts():
    packed = ftorch.ops.quantized.linear_prepack(ftorch.quantize_per_tensor(ftorch.ones(2, 2), 0.1, 0, ftorch.qint8), None)
    assert isinstance(packed, ftorch.ScriptObject) and ftorch._C.ScriptObject is ftorch.ScriptObject


def test_resizing_is_not_deterministic():
    def error(package):
        x = package.quantize_per_tensor(package.arange(5.), 0.1, 10, package.qint8)
        package.use_deterministic_algorithms(True)
        try:
            x.resize_(10)
        except RuntimeError as e:
            return str(e)
        finally:
            package.use_deterministic_algorithms(False)
        return None

    assert error(ftorch) == error(torch) is not None
