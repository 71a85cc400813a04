"""ONNX models of ops that have no translation of their own, and of those whose results' sizes are data's."""

import numpy as np
import pytest
import torch as pt

import ftorch as ft

from .test_onnx import assert_same, onnx, run, square, wrapped, x

ROWS = [1, 0]

# Functions of x (2, 3, 8), in both libraries.
FUNCTIONS = {
    "elementwise": lambda torch, F, x: (
        torch.atan2(x, x - 1), torch.hypot(x, x + 1), torch.logaddexp(x, -x), torch.copysign(x, x - 1),
        torch.sinc(x), torch.heaviside(x, x[0, 0, 0]), torch.isfinite(x), torch.fmax(x, x * 2),
        torch.deg2rad(x), torch.special.erfc(x), torch.logit(x.sigmoid()), x.round(decimals=2),
        x.long() << 2, x.long() >> 1, torch.fmod(x.long(), 3), torch.xlogy(x.abs(), x.abs() + 1),
    ),
    "order": lambda torch, F, x: (
        *x.kthvalue(2, 1), *x.median(2, keepdim=True), x.median(), torch.msort(x),
        *torch.sort(x, 2, descending=True),
    ),
    "runs": lambda torch, F, x: (
        x.cumprod(2), x.logcumsumexp(1), *x.cummax(2), *x.cummin(1), x.diff(), x.roll(5),
    ),
    "pieces": lambda torch, F, x: (
        x.unfold(2, 3, 2), x.diagonal(0, 1, 2), torch.diag_embed(x), torch.rot90(x, 1, (1, 2)),
        x.repeat_interleave(2, 1), torch.block_diag(x[0], x[1]), torch.kron(x[0], x[1]),
        torch.tril_indices(3, 3), torch.linspace(0, 1, 5), torch.trace(x[0]),
        torch.take_along_dim(x, x.argsort(2), 2), torch.take(x, torch.tensor([3, 47])),
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 2.0])),
    ),
    "norms": lambda torch, F, x: (
        torch.linalg.vector_norm(x, 3, 1), x.norm(float("inf"), 2), torch.linalg.matrix_norm(x),
        *torch.std_mean(x, 1), *torch.aminmax(x), x.nansum(1), torch.count_nonzero(x), torch.cdist(x, x + 1),
        F.pairwise_distance(x[0], x[1]),
    ),
    "writes": lambda torch, F, x: (
        x.scatter_reduce(2, x.argsort(2), x * 2, "amax"), x.index_add(0, torch.tensor(ROWS), x),
        x.scatter_reduce(2, x.argsort(2)[..., :3], x, "prod", include_self=False),
        x.index_copy(2, torch.tensor([5, 1]), x[..., :2] * 3), x.index_fill(1, torch.tensor([0]), 7.0),
        x.index_put((torch.tensor(ROWS),), x), x.masked_scatter(x > 0, x.flip(2)),
        x.index_put((torch.tensor([0, 0]), torch.tensor([1, -1])), x[0, :2], accumulate=True),
        x.index_put((x > 0,), torch.tensor(9.0)), x[:, torch.tensor([2, 0]), torch.tensor([1, 3])],
    ),
    "masks": lambda torch, F, x: (
        x[x > 0], x.nonzero(), torch.masked_select(x, x[0, :, :1] > -1), x[torch.tensor([True, False])],
        *torch.unique(x.long(), return_inverse=True, return_counts=True),
    ),
    "losses": lambda torch, F, x: (
        F.smooth_l1_loss(x, x * 2), F.huber_loss(x, x * 3, delta=0.5), F.kl_div(x, x.sigmoid(), reduction="sum"),
        F.binary_cross_entropy_with_logits(x, x.sigmoid()), F.soft_margin_loss(x, x.sign()),
        F.binary_cross_entropy(x.sigmoid(), x.sigmoid()), F.triplet_margin_loss(x, x + 1, x - 1),
        F.cross_entropy(x[0], torch.tensor([1, 0, 3]), label_smoothing=0.1), F.cross_entropy(x, x.softmax(1)),
    ),
    "tables": lambda torch, F, x: (
        F.embedding_bag(torch.tensor([[1, 2], [0, 1]]), x[0], mode="mean"),
        F.embedding_bag(torch.tensor([[1, 2], [0, 1]]), x[0], mode="max"),
        F.bilinear(x[0], x[1], x.new_ones(2, 8, 8) / 8), F.one_hot(torch.tensor(ROWS), 3),
    ),
}

# Functions of images (2, 4, 6, 6).
IMAGES = {
    "sampling": lambda torch, F, x: (
        F.interpolate(x, scale_factor=2, mode="nearest-exact"), F.interpolate(x, size=(4, 5), mode="area"),
        F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), F.unfold(x, 2, padding=1, stride=2),
        F.affine_grid(x[:, 0, :2, :3] / 3, (2, 4, 3, 5), align_corners=False),
        F.fold(F.unfold(x, 2), (6, 6), 2), F.channel_shuffle(x, 2), F.local_response_norm(x, 3),
        F.adaptive_avg_pool2d(x, (4, 5)), F.avg_pool2d(x, 2, divisor_override=3),
        *F.max_pool2d(x, 2, return_indices=True), *F.adaptive_max_pool2d(x, (4, 3), return_indices=True),
        F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), F.lp_pool2d(x, 2, 2),
    ),
    "grids": lambda torch, F, x: tuple(
        F.grid_sample(x, x[:, :2].movedim(1, -1) / 3, mode=mode, padding_mode=padding, align_corners=align)
        for mode in ("bilinear", "nearest", "bicubic")
        for padding, align in (("zeros", False), ("border", True), ("reflection", False))
    ),
}


@pytest.mark.parametrize("name", [*FUNCTIONS, *IMAGES])
def test_ops(name):
    function, example = (FUNCTIONS[name], x) if name in FUNCTIONS else (IMAGES[name], square)
    program = ft.onnx.export(wrapped(ft, function), (example(ft),))
    expected = wrapped(pt, function)(example(pt))
    assert_same(run(program.model_proto, example(ft).numpy()), expected, 1e-4)


def test_sizes_that_vary():
    function = lambda torch, F, x: (  # noqa: E731
        F.grid_sample(x, x[:, :2].movedim(1, -1) / 3, align_corners=False), x.masked_select(x > 0),
        torch.atan2(x, x - 1), torch.xlogy(x.abs(), x.abs() + 1), F.smooth_l1_loss(x, -x, reduction="none"),
        torch.special.erfc(x), torch.logaddexp(x, x[0, 0]), F.huber_loss(x, x * 3, reduction="sum"),
    )
    batch = ({0: ft.export.Dim("batch")},)
    program = ft.onnx.export(wrapped(ft, function), (square(ft),), dynamic_shapes=batch)
    more = np.concatenate([square(pt).numpy(), -square(pt).numpy()])
    assert_same(run(program.model_proto, more), wrapped(pt, function)(pt.from_numpy(more)), 1e-4)
    with pytest.raises(ft.onnx.UnsupportedOperatorError, match="of sizes that vary"):
        module = wrapped(ft, lambda torch, F, x: F.smooth_l1_loss(x, -x))  # divides by a number of elements
        ft.onnx.export(module, (square(ft),), dynamic_shapes=batch)


@pytest.mark.parametrize("mode", ["EVAL", "TRAINING", "PRESERVE"])
def test_training_modes_of_the_older_exporter(mode):
    module = ft.nn.Sequential(ft.nn.Linear(3, 2), ft.nn.Dropout())
    program = ft.onnx.export(
        module, ft.ones(1, 3), dynamo=False, training=getattr(ft.onnx.TrainingMode, mode)
    )
    kinds = {node.op_type for node in program.model_proto.graph.node}
    assert ("RandomUniformLike" in kinds) == (mode != "EVAL") and module.training
    onnx.checker.check_model(program.model_proto)
    with ft.onnx.select_model_mode_for_export(module, getattr(ft.onnx.TrainingMode, mode)):
        assert module.training == (mode != "EVAL")
