"""Gradients of losses, normalizations, convolutions and pooling."""

from __future__ import annotations

import math

from ..eager.core import api
from ..eager.core.formats import contiguous_format
from ..eager.kernels.nn.interpolation import PADDINGS, SAMPLINGS
from .gradient_rules import Missing, aten_op, rule, whole

# --- losses, normalization, convolution, pooling ---------------------------------------------------


def upsampling(n, mode, align_corners, antialias):
    """(name of ATen's op, its argument about corners) for enlarging images of ``n`` dimensions, or None."""
    if mode in ("nearest", "nearest-exact"):
        return (f"upsample_nearest{n}d" if mode == "nearest" else f"_upsample_nearest_exact{n}d"), ()
    if mode in ("linear", "bilinear", "trilinear", "bicubic"):
        name = f"upsample_{mode}{n}d"
        return (f"_{name}_aa" if antialias else name), (align_corners,)
    return None


_REDUCTIONS = ("none", "mean", "sum")


def _reduction(saved):
    kind = saved["reduction"]
    names = saved.plan.op.definition.argument_names
    if kind not in _REDUCTIONS or any(n in names and saved[n] is not None for n in ("size_average", "reduce")):
        raise Missing
    return _REDUCTIONS.index(kind)


@rule("mse_loss")
def _mse_loss(saved, grad, index):
    if len(saved.plan.inputs) != 2:
        raise Missing
    mine, other = saved.tensor(index), saved.tensor(1 - index)
    return aten_op("mse_loss_backward")(grad, mine, other, _reduction(saved))


@rule("smooth_l1_loss huber_loss")
def _smooth(saved, grad, index):
    if len(saved.plan.inputs) != 2:
        raise Missing
    name = saved.plan.op.definition.name
    width = saved["beta" if name == "smooth_l1_loss" else "delta"]
    mine, other = saved.tensor(index), saved.tensor(1 - index)
    return aten_op(f"{name}_backward")(grad, mine, other, _reduction(saved), width)


@rule("binary_cross_entropy")
def _binary_cross_entropy(saved, grad, index):
    weight, reduction = saved["weight"], _reduction(saved)
    if saved.has_tensor("weight") and index == saved.place("weight"):
        raise Missing
    if index == saved.place("input"):
        return aten_op("binary_cross_entropy_backward")(grad, saved["input"], saved["target"], weight, reduction)
    found = _averaged(saved["input"].logit().neg_() * grad, reduction)
    return found if weight is None else found * weight


@rule("binary_cross_entropy_with_logits")
def _with_logits(saved, grad, index):
    if len(saved.plan.inputs) != 2:
        raise Missing
    x, reduction = saved["input"], _reduction(saved)
    if index == saved.place("input"):
        return _averaged((x.sigmoid() - saved["target"]) * grad, reduction)
    return _averaged(x.neg() * grad, reduction)


def _averaged(found, reduction):
    return found.div_(found.numel()) if reduction == 1 else found


@rule("nll_loss")
def _nll_loss(saved, grad, _):
    x = saved["input"]
    if x.dim() > 2:
        raise Missing
    total = saved.beside[1] if len(saved.beside) > 1 else aten_op("new_zeros")(grad, [])
    args = (x, saved["target"], saved["weight"], _reduction(saved), saved["ignore_index"], total)
    return aten_op("nll_loss_backward")(grad, *args)


def _three(saved, names, mask):
    """Which of three gradients are wanted, and where they go among the inputs."""
    places = [saved.place(n) if saved.has_tensor(n) else None for n in names]
    return places, [p is not None and bool(mask[p]) for p in places]


def _placed(places, wanted, found, count):
    result = [None] * count
    for place, is_wanted, grad in zip(places, wanted, found):
        if is_wanted:
            result[place] = grad
    return result


@whole("layer_norm")
def _layer_norm(saved, grad, mask):
    if len(saved.beside) < 3:
        return None
    places, wanted = _three(saved, ("input", "weight", "bias"), mask)
    bias = saved["bias"] if places[2] is not None else None
    weight = saved["weight"] if places[1] is not None else None
    args = (saved["input"], list(saved["normalized_shape"]), *saved.beside[1:3], weight, bias, wanted)
    found = aten_op("native_layer_norm_backward")(grad, *args)
    return _placed(places, wanted, found, len(mask))


@whole("_batch_norm_train _batch_norm_eval")
def _batch_norm(saved, grad, mask):
    x, eps = saved["input"], saved["eps"]
    is_training = saved.plan.op.definition.name == "_batch_norm_train"
    places, wanted = _three(saved, ("input", "weight", "bias"), mask)
    weight = saved["weight"] if places[1] is not None else None
    running = [None if is_training else saved[n] for n in ("running_mean", "running_var")]
    statistics: tuple = (None, None)
    if is_training:  # PyTorch's node has kept them
        if len(saved.beside) == 3:
            statistics = saved.beside[1:]
            running = [saved[n] for n in ("running_mean", "running_var")]
        else:
            variance, mean = api.var_mean(x, [0, *range(2, x.dim())], correction=0)
            statistics = (mean, (variance + eps).rsqrt())
    args = (x, weight, *running, *statistics, is_training, eps, wanted)
    return _placed(places, wanted, aten_op("native_batch_norm_backward")(grad, *args), len(mask))


@whole("group_norm")
def _group_norm(saved, grad, mask):
    if len(saved.beside) < 3:
        return None
    places, wanted = _three(saved, ("input", "weight", "bias"), mask)
    x = saved["input"]
    n, c = x.shape[:2]
    weight = saved["weight"] if places[1] is not None else None
    args = (x, *saved.beside[1:3], weight, n, c, x.shape[2:].numel(), saved["num_groups"], wanted)
    grad = grad if grad.is_contiguous() else aten_op("clone")(grad, memory_format=contiguous_format)
    found = aten_op("native_group_norm_backward")(grad, *args)
    return _placed(places, wanted, found, len(mask))


@whole("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution")
def _convolution(saved, grad, mask):
    x, weight = saved["input"], saved["weight"]
    name, nd = saved.plan.op.definition.name, weight.dim() - 2
    if x.dim() != weight.dim() or isinstance(saved["padding"], str):
        return None
    places, wanted = _three(saved, ("input", "weight", "bias"), mask)

    def numbers(argument):
        value = saved[argument]
        value = [value] if isinstance(value, int) else list(value)
        return value * nd if len(value) == 1 else value

    if name == "convolution":
        transposed, output = saved["transposed"], numbers("output_padding")
    else:
        transposed = "transpose" in name
        output = numbers("output_padding") if transposed else [0] * nd
    sizes = [0] if places[2] is None else list(saved.plan.inputs[places[2]].shape)
    args = (x, weight, sizes, numbers("stride"), numbers("padding"), numbers("dilation"), transposed, output)
    found = aten_op("convolution_backward")(grad, *args, saved["groups"], wanted)
    return _placed(places, wanted, found, len(mask))


@rule("avg_pool2d avg_pool3d")
def _avg_pool(saved, grad, _):
    name = saved.plan.op.definition.name
    nd = int(name[-2])

    def numbers(value):
        value = [value] if isinstance(value, int) else list(value)
        return value * nd if len(value) == 1 else value

    args = [numbers(saved[n]) for n in ("kernel_size", "stride", "padding")]
    rest = [saved[n] for n in ("ceil_mode", "count_include_pad", "divisor_override")]
    return aten_op(f"{name}_backward")(grad, saved.tensor(0), *args, *rest)


@rule("adaptive_avg_pool2d adaptive_avg_pool3d")
def _adaptive(saved, grad, _):
    shape, size = saved.shape(), saved["output_size"]
    nd = int(saved.plan.op.definition.name[-2])
    size = [size] if isinstance(size, int) else list(size)
    if all(n == 1 for n in size):
        return grad.expand(shape) / math.prod(shape[-nd:])
    return aten_op(f"_adaptive_avg_pool{nd}d_backward")(grad, saved.tensor(0))


@rule("max_pool2d")
def _max_pool(saved, grad, _):
    if len(saved.beside) < 2:
        raise Missing

    def numbers(value):
        value = [value] if isinstance(value, int) else list(value)
        return value * 2 if len(value) == 1 else value

    args = [numbers(saved[n]) if saved[n] else [] for n in ("kernel_size", "stride", "padding", "dilation")]
    args = [args[0], args[1], args[2] or [0, 0], args[3] or [1, 1]]
    return aten_op("max_pool2d_with_indices_backward")(
        grad, saved.tensor(0), *args, bool(saved["ceil_mode"]), saved.beside[1])


@rule("im2col")
def _im2col(saved, grad, _):
    args = [_pair(saved[n]) for n in ("kernel_size", "dilation", "padding", "stride")]
    return aten_op("col2im")(grad, saved.shape()[-2:], *args)


def _pair(value):
    value = [value] if isinstance(value, int) else list(value)
    return value * 2 if len(value) == 1 else value


@rule("pixel_shuffle")
def _pixel_shuffle(saved, grad, _):
    return aten_op("pixel_unshuffle")(grad, saved["upscale_factor"])


@rule("pixel_unshuffle")
def _pixel_unshuffle(saved, grad, _):
    return aten_op("pixel_shuffle")(grad, saved["downscale_factor"])


@rule("_interpolate")
def _interpolate(saved, grad, _):
    shape, size, mode = saved.shape(), list(saved["size"]), saved["mode"]
    found = upsampling(len(shape) - 2, mode, bool(saved["align_corners"]), saved["antialias"])
    if found is None:
        raise Missing
    name, aligned = found
    scales = [] if saved["scales"] is None else list(saved["scales"])
    return aten_op(f"{name}_backward")(grad, size, shape, *aligned, *scales)


@whole("grid_sample")
def _grid_sample(saved, grad, mask):
    x, grid = saved["input"], saved["grid"]
    numbers = SAMPLINGS.index(saved["mode"]), PADDINGS.index(saved["padding_mode"]), bool(saved["align_corners"])
    if x.dim() == 4 and numbers[0] == 2:
        return None
    name = f"grid_sampler_{x.dim() - 2}d_backward"
    return list(aten_op(name)(grad, x, grid, *numbers, [bool(m) for m in mask]))


# --- linear algebra ----------------------------------------------------------------------------------


@rule("linalg_inv_ex")
def _inverse(saved, grad, _):
    y = saved.result()
    right = grad.matmul(y.transpose(-2, -1))
    return y.transpose(-2, -1).matmul(right).neg()
