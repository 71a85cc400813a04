"""``torch.onnx``: models run by onnxruntime agree with PyTorch's modules."""

import io

import numpy as np
import pytest
import torch as pt

import ftorch as ft

from ..export import programs
from ..export.test_export import pair
from ..oracle import array, to_ftorch

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


def run(model, *arrays):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays)))


def assert_same(outputs, expected, tolerance=1e-5):
    expected = pt.utils._pytree.tree_leaves(expected)
    assert len(outputs) == len(expected)
    for a, b in zip(outputs, expected):
        assert a.dtype == b.detach().numpy().dtype and a.shape == tuple(b.shape)
        np.testing.assert_allclose(
            a.astype(np.float64), array(b).astype(np.float64), atol=tolerance, rtol=1e-4
        )


def dims(names):
    return ({i: ft.export.Dim(n, max=12 if n == "length" else None) for i, n in enumerate(names)},)


@pytest.mark.parametrize("name", ["mlp", "resnet", "lstm", "transformer"])
def test_models(name):
    make, example, other, names = programs.MODELS[name]
    mine, theirs = pair(make)
    program = ft.onnx.export(mine, (example(ft),), dynamic_shapes=dims(names), input_names=["given"])
    assert [i.name for i in program.model_proto.graph.input] == ["given"]
    shown = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param for d in shown][: len(names)] == list(names)
    for inputs in (example, other):
        assert_same(run(program.model_proto, inputs(ft).numpy()), theirs(inputs(pt)))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent(kind):
    mine, theirs = pair(programs.recurrent, kind, bidirectional=True)
    program = ft.onnx.export(mine, (programs.tokens(ft),), optimize=False)
    assert_same(run(program.model_proto, programs.tokens(ft).numpy()), theirs(programs.tokens(pt)))


def x(torch):
    return torch.linspace(-2, 3, 48).reshape(2, 3, 8)


def square(torch):
    return torch.linspace(-2, 3, 2 * 4 * 6 * 6).reshape(2, 4, 6, 6)


# Functions of x, in both libraries: ``torch`` is the library, ``F`` its functional module.
FUNCTIONS = {
    "unary": lambda torch, F, x: (
        x.abs() + x.exp() - x.sin() * x.cos() + x.tanh() + x.sigmoid() + x.floor() + x.ceil()
        + x.sign() + x.erf() + (x.abs() + 1).log() + (x.abs() + 1).rsqrt() + x.square() + x.expm1()
        + (x.abs() + 1).log2() + x.log1p().nan_to_num() + x.reciprocal().clamp(-5, 5) + x.trunc()
    ),
    "activations": lambda torch, F, x: (
        F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), F.softplus(x, beta=2),
        F.elu(x), F.celu(x, 1.5), F.leaky_relu(x, 0.1), F.hardswish(x), F.hardsigmoid(x),
        F.hardtanh(x), F.relu6(x), F.glu(x, -1), F.logsigmoid(x), F.softsign(x), F.selu(x),
        F.threshold(x, 0.5, 7.0), F.softshrink(x), F.hardshrink(x), F.tanhshrink(x),
    ),
    "binary": lambda torch, F, x: (
        x + 2 * x - x / 3, 1 - x, x // 0.7, x % 0.7, torch.fmod(x, 0.7), x ** 2, 2.0 ** x,
        torch.maximum(x, -x), torch.minimum(x, x * 0), torch.div(x, 2, rounding_mode="trunc"),
        torch.lerp(x, x + 1, 0.3), torch.addcmul(x, x, x, value=0.5), x.add(x, alpha=3),
        x.long() // 2, x.long() % 3, x.long() * 1.5, x.double() + x,
    ),
    "comparisons": lambda torch, F, x: (
        x > 0, x <= 1, x == x, x != 0, (x > 0) & (x < 1), (x > 0) | (x < -1), ~(x > 0), x.isnan(),
        torch.where(x > 0, x, -x), torch.where(x > 0, x, 0.0), x.masked_fill(x > 1, float("-inf")),
        x.clamp(min=0.5), x.clamp(-1, 1), torch.logical_xor(x > 0, x > 1), (x > 0).float(),
    ),
    "reductions": lambda torch, F, x: (
        x.sum(), x.sum(1), x.mean((0, 2), keepdim=True), x.amax(1), x.amin((1, 2)), x.prod(2),
        x.max(), x.max(1).values, x.min(2).indices, x.argmax(), x.argmin(1, keepdim=True), x.var(1),
        x.std(), x.var((0, 1), correction=0), x.logsumexp(1), x.norm(), torch.linalg.vector_norm(x, 1, 2),
        (x > 0).any(1), (x > -5).all(), x.cumsum(1), x.long().sum(1), (x > 0).sum(),
        x.topk(3).values, x.topk(2, dim=1, largest=False).indices, x.sort(2).values,
    ),
    "shapes": lambda torch, F, x: (
        x.reshape(6, 8), x.view(2, -1), x.flatten(1), x.unflatten(2, (2, 4)), x.permute(2, 0, 1),
        x.transpose(0, 2), x.mT, x.unsqueeze(1), x[:, :1].squeeze(1), x[:1].expand(4, 3, 8),
        x.repeat(2, 1, 1), x[0], x[:, -1], x[..., 1:6:2], x[:, None], torch.cat([x, x], 1),
        torch.stack([x, x], 1), *x.split(3, 2), *x.chunk(2, 2), *x.unbind(1), x.flip(2),
        x.roll(3, 2), x.tril(), x.triu(1), F.pad(x, (1, 2)), F.pad(x, (2, 2), mode="reflect"),
        x.movedim(0, 2), x.narrow(2, 1, 3), torch.full_like(x, 3), x.new_zeros(2), torch.arange(4) + x.shape[0],
    ),
    "indices": lambda torch, F, x: (
        x[torch.tensor([1, 0])], x[:, torch.tensor([2, 0])], x[torch.tensor([0, 1]), torch.tensor([2, -1])],
        x.index_select(1, torch.tensor([2, 1])), x.gather(2, torch.zeros(2, 3, 1, dtype=torch.int64)),
        torch.zeros(2, 3, 8).scatter(2, torch.ones(2, 3, 1, dtype=torch.int64), 5.0),
    ),
    "products": lambda torch, F, x: (
        x @ x.mT, torch.bmm(x, x.mT), torch.einsum("bij,bkj->bik", x, x), F.linear(x, x[0]),
        torch.addmm(x[0, :, :3], x[0], x[1].mT, beta=0.5, alpha=2.0), torch.outer(x[0, 0], x[1, 1]),
        F.scaled_dot_product_attention(x, x, x), F.scaled_dot_product_attention(x, x, x, is_causal=True),
        F.scaled_dot_product_attention(x, x, x, attn_mask=torch.ones(3, 3).tril().bool()),
    ),
    "norms": lambda torch, F, x: (
        F.layer_norm(x, (8,)), F.layer_norm(x, (3, 8), x[0], x[1]), F.softmax(x, 1),
        F.log_softmax(x, -1), F.normalize(x, dim=2), F.rms_norm(x, (8,), x[0, 0]),
        F.group_norm(x[:, :2], 2), F.instance_norm(x), F.cosine_similarity(x, x + 1, dim=2),
        F.mse_loss(x, x * 2), F.l1_loss(x, x * 2, reduction="sum"),
        F.cross_entropy(x, torch.zeros(2, 8, dtype=torch.int64)),
        F.cross_entropy(x[0], torch.tensor([1, 7, 2]), x[0, 0].abs(), reduction="none"),
    ),
    "writes": lambda torch, F, x: (
        (y := x.clone()).mul_(2), y.add_(1), y[:, 1].zero_(), y[:, :, 2:4].fill_(9), y + 0,
    ),
}

IMAGES = {
    "convolutions": lambda torch, F, x: (
        F.conv2d(x, x[:, :, :3, :3], padding=1), F.conv2d(x, x[:, :2, :2, :2], groups=2, stride=2),
        F.conv1d(x[0], x[0][:, :, :3]), F.conv2d(x, x[:, :, :3, :3], padding="same"),
        F.conv_transpose2d(x, x[0][:, None, :2, :2], stride=2, output_padding=1),
    ),
    "pooling": lambda torch, F, x: (
        F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, 2),
        F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), F.adaptive_avg_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, 2), F.max_pool1d(x[0], 2),
    ),
    "resampling": lambda torch, F, x: (
        F.interpolate(x, scale_factor=2), F.interpolate(x, size=(9, 12), mode="bilinear"),
        F.interpolate(x, size=(9, 12), mode="bilinear", align_corners=True), F.pixel_shuffle(x, 2),
        F.pixel_unshuffle(x, 2), F.interpolate(x, size=(9, 9), mode="bicubic"),
    ),
    "batch_norm": lambda torch, F, x: (
        F.batch_norm(x, x.mean((0, 2, 3)), x.var((0, 2, 3)), x[0, :, 0, 0], x[0, :, 1, 1]),
        F.group_norm(x, 2, x[0, :, 0, 0], x[0, :, 1, 1]), F.prelu(x, x[0, :, 0, 0]),
    ),
}


def wrapped(torch, function):
    class Net(torch.nn.Module):
        def forward(self, x):
            return function(torch, torch.nn.functional, x)

    return Net()


@pytest.mark.parametrize("name", [*FUNCTIONS, *IMAGES])
def test_ops(name):
    function, example = (FUNCTIONS[name], x) if name in FUNCTIONS else (IMAGES[name], square)
    program = ft.onnx.export(wrapped(ft, function), (example(ft),))
    expected = wrapped(pt, function)(example(pt))
    assert_same(run(program.model_proto, example(ft).numpy()), expected, 1e-4)


def test_program_object_and_files(tmp_path):
    mine, theirs = pair(programs.mlp)
    program = ft.onnx.export(
        mine, (programs.rows(ft),), tmp_path / "model.onnx", input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, verify=True, opset_version=20,
    )
    loaded = onnx.load(tmp_path / "model.onnx")
    assert loaded.opset_import[0].version == 20
    assert [o.name for o in loaded.graph.output] == ["y"]
    assert loaded.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    expected = theirs(programs.rows(pt, 5))
    assert_same(run(loaded, programs.rows(ft, 5).numpy()), expected)
    out = program(programs.rows(ft, 5))
    assert isinstance(out[0], ft.Tensor) and out[0].shape == (5, 3)
    reference = onnx.reference.ReferenceEvaluator(loaded)
    assert_same(reference.run(None, {"x": programs.rows(ft, 5).numpy()}), expected)
    program.save(tmp_path / "apart.onnx", external_data=True)
    assert (tmp_path / "apart.onnx.data").exists()
    assert_same(run(onnx.load(tmp_path / "apart.onnx"), programs.rows(ft, 5).numpy()), expected)
    buffer = io.BytesIO()
    ft.onnx.export(mine, programs.rows(ft), buffer)
    onnx.checker.check_model(onnx.load_model_from_string(buffer.getvalue()))


def test_exported_program_of_pytorch(tmp_path):
    _, theirs = pair(programs.cnn)
    batch = ({0: pt.export.Dim("batch")},)
    pt.export.save(pt.export.export(theirs, (programs.images(pt),), dynamic_shapes=batch), tmp_path / "m.pt2")
    program = ft.onnx.export(ft.export.load(tmp_path / "m.pt2"))
    given = programs.more_images(pt)
    assert_same(run(program.model_proto, to_ftorch(given.numpy()).numpy()), theirs(given))


def test_unsupported_ops_are_named():
    with pytest.raises(ft.onnx.UnsupportedOperatorError, match="cumsum.default") as caught:
        ft.onnx.export(wrapped(ft, lambda torch, F, x: torch.fft.fft(x).cumsum(0).real), (x(ft),))
    assert "test_onnx.py" in str(caught.value)
    assert isinstance(caught.value, ft.onnx.OnnxExporterError)
    with pytest.raises(ft.onnx.OnnxExporterError, match="model.eval"):
        ft.onnx.export(ft.nn.AlphaDropout(), (x(ft),))


def test_custom_translation():
    module = wrapped(ft, lambda torch, F, x: torch.sinc(x))
    table = {ft.ops.aten.sinc.default: lambda g, x: g.op("Neg", x)}
    program = ft.onnx.export(module, (x(ft),), custom_translation_table=table)
    np.testing.assert_array_equal(run(program.model_proto, x(ft).numpy())[0], -x(ft).numpy())
    module = wrapped(ft, lambda torch, F, x: torch.sinc(x) + torch.fft.fft(x).real * 0)  # beside complex numbers, too
    program = ft.onnx.export(module, (x(ft),), custom_translation_table=table)
    np.testing.assert_array_equal(run(program.model_proto, x(ft).numpy())[0], -x(ft).numpy())
