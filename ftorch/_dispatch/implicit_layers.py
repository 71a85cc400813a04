"""Layers and losses as the calls of ATen's that users' ``__torch_dispatch__`` sees of them (see `composition`)."""

from __future__ import annotations

import math

from .. import _ops
from ..autograd import no_grad
from ..eager.core import api, dtype
from ..eager.kernels.nn.activation import SELU
from ..eager.kernels.nn.interpolation import PADDINGS, SAMPLINGS
from . import gradients
from .composition import call_named, composes, first, numbers, renames
from .layer_gradients import upsampling


def _reduced(x, reduction):
    return x if reduction == "none" else getattr(x, reduction)()


@renames("_interpolate")
def _interpolate(aten, _, given):
    x, size, mode = given["input"], list(given["size"]), given["mode"]
    n = x.dim() - 2
    scales = [] if given["scales"] is None else list(given["scales"])
    found = upsampling(n, mode, bool(given["align_corners"]), given["antialias"])
    if found is None:
        return None
    name, aligned = found
    return getattr(aten, name).default, (x, size, *aligned, *scales), {}, None


@renames("_scaled_dot_product_attention")
def _attention(aten, _, given):
    q, k, v, mask = (given[name] for name in ("query", "key", "value", "attn_mask"))
    same = q.dim() == k.dim() == v.dim() == 4 and q.shape[-1] == k.shape[-1] == v.shape[-1] and q.shape[:2] == k.shape[:2]
    if not same or given["dropout_factor"] is not None or given["enable_gqa"] or q.device.type != "cpu":
        return None
    if not q.is_floating_point() or (mask is not None and mask.requires_grad) or 0 in (*q.shape, *k.shape):
        return None
    named = {name: given[name] for name in ("attn_mask", "scale") if given[name] is not None}
    causal = (0.0, True) if given["is_causal"] else ()
    return aten._scaled_dot_product_flash_attention_for_cpu.default, (q, k, v, *causal), named, 0


@composes("_scaled_dot_product_attention")
def _attention_by_products(q, k, v, mask, factor, is_causal, scale, enable_gqa):
    if q.dim() == 4 or mask is not None or factor is not None or is_causal or enable_gqa:
        return None
    root = math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else abs(scale))
    with gradients.composing:
        scores = _product(q * (-root if scale is not None and scale < 0 else root), k.transpose(-2, -1) * root)
        return _product(_ops.ops.aten._safe_softmax.default(scores, -1), v)


def _product(x, y):
    return call_named("matmul", x, y)


@renames("grid_sample")
def _grid_sample(aten, _, given):
    x, grid = given["input"], given["grid"]
    modes = SAMPLINGS.index(given["mode"]), PADDINGS.index(given["padding_mode"])
    return getattr(aten, f"grid_sampler_{x.dim() - 2}d").default, (x, grid, *modes, bool(given["align_corners"])), {}, None


@renames("affine_grid")
def _affine_grid(aten, _, given):
    args = given["theta"], list(given["size"]), bool(given["align_corners"])
    return aten.affine_grid_generator.default, args, {}, None


@renames("relu6")
def _relu6(aten, _, given):
    return aten.hardtanh.default, (first(given), 0, 6), {}, None


@renames("selu")
def _selu(aten, _, given):
    return aten.elu.default, (first(given), *SELU[:2]), {}, None


@renames("soft_margin_loss")
def _soft_margin_loss(aten, _, given):
    args = (given["input"], given["target"])
    return None if given["reduction"] != "mean" else (aten.soft_margin_loss.default, args, {}, None)


@composes("tanhshrink")
def _tanhshrink(x):
    return x - x.tanh()


@composes("softsign")
def _softsign(x):
    return x / (x.abs() + 1)


@composes("local_response_norm")
def _local_response_norm(x, size, alpha, beta, k):
    if x.dim() < 3 or 0 in x.shape:
        return None
    sides, sizes = (size // 2, (size - 1) // 2), list(x.shape)
    squares = x.mul(x)
    if x.dim() == 3:
        padded = api.nn.functional.pad(squares.unsqueeze(1), (0, 0, *sides))
        means = api.nn.functional.avg_pool2d(padded, (size, 1), stride=1).squeeze(1)
    else:
        planes = squares.view(sizes[0], 1, sizes[1], sizes[2], -1)
        padded = api.nn.functional.pad(planes, (0, 0, 0, 0, *sides))
        means = api.nn.functional.avg_pool3d(padded, (size, 1, 1), stride=1).squeeze(1).view(sizes)
    return x / means.mul(alpha).add(k).pow(beta)


@composes("multilabel_soft_margin_loss")
def _multilabel_soft_margin_loss(x, target, weight, size_average, reduce, reduction):
    if size_average is not None or reduce is not None or not x.dim():
        return None
    log_sigmoid = api.nn.functional.logsigmoid
    loss = -(target * log_sigmoid(x) + (1 - target) * log_sigmoid(-x))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(dim=x.dim() - 1) / x.shape[-1], reduction)


@composes("prelu")
def _prelu(x, weight):
    if x.dim() > 1 or weight.numel() == 1:
        shape = [1] * x.dim()
        if x.dim() > 1:
            shape[1] = weight.numel()
        weight = weight.view(shape)
    return _ops.ops.aten._prelu_kernel.default(x, weight)


def _rows(function):
    """A pooling of rows as that of images of one row."""

    def compose(x, *settings):
        if x.dim() != 3:
            return None
        return function(_ops.ops.aten, x.unsqueeze(-2), *settings)

    return compose


@composes("max_pool1d")
@_rows
def _max_pool1d(aten, x, kernel, stride, padding, dilation, ceil_mode):
    if ceil_mode or tuple(numbers(dilation, 1)) != (1,) or tuple(numbers(padding, 1)) != (0,):
        return None
    kernel = numbers(kernel, 1)
    stride = numbers(stride, 1) if stride else kernel
    out, indices = aten.max_pool2d_with_indices.default(x, [1, *kernel], [1, *stride])
    out = out.squeeze(-2)
    indices.squeeze(-2)
    return out


@composes("avg_pool1d")
@_rows
def _avg_pool1d(aten, x, kernel, stride, padding, ceil_mode, count_include_pad):
    if ceil_mode or not count_include_pad or tuple(numbers(padding, 1)) != (0,):
        return None
    kernel = numbers(kernel, 1)
    stride = numbers(stride, 1) if stride else kernel
    return aten.avg_pool2d.default(x, [1, *kernel], [1, *stride]).squeeze(-2)


@composes("adaptive_avg_pool1d")
@_rows
def _adaptive_avg_pool1d(aten, x, size):
    return aten._adaptive_avg_pool2d.default(x, [1, *numbers(size, 1)]).squeeze(-2)


@composes("rms_norm")
def _rms_norm(x, weight, shape, eps):
    if x.dtype not in (dtype.float32, dtype.float64):
        return None
    eps = dtype.finfo(x.dtype).eps if eps is None else eps
    dims = list(range(x.dim() - len(shape), x.dim()))
    with gradients.composing:
        out = x * (x.pow(2).mean(dims, keepdim=True).add_(eps)).rsqrt()
        return out if weight is None else out * weight


@composes("cosine_similarity")
def _cosine_similarity(x, y, dim, eps):
    if not (x.is_floating_point() and x.dtype == y.dtype):
        return None
    if x.shape != y.shape:
        shape = api.broadcast_shapes(x.shape, y.shape)
        y, x = y.expand(shape), x.expand(shape)
    with gradients.composing:
        clamped = []
        for t in (x, y):  # of the norms the values alone are clamped
            norm = _ops.ops.aten.linalg_vector_norm.default(t, 2, [dim], True)
            clamped.append(norm.clone())
        least = api.scalar_tensor(eps, dtype=x.dtype, device=x.device)
        with no_grad():
            for norm in clamped:
                norm.clamp_min_(least)
        x, y = x / clamped[0], y / clamped[1]
        return (x * y).sum([dim])


@composes("pairwise_distance")
def _pairwise_distance(x, y, p, eps, keepdim):
    dim = max(x.dim(), y.dim()) - 1
    with gradients.composing:
        difference = (x - y) + eps
    rest = (True,) if keepdim else ()
    return _ops.ops.aten.norm.ScalarOpt_dim(difference, p, [dim], *rest)


@composes("kl_div")
def _kl_div(x, target, size_average, reduce, reduction, log_target):
    if size_average is not None or reduce is not None:
        return None
    with gradients.composing:
        if log_target:
            difference = target - x
            out = target.exp() * difference
        else:
            product = target * x
            out = api.xlogy(target, target) - product
        if reduction != "batchmean":
            return _reduced(out, reduction)
        out = out.sum()
    return out / x.shape[0] if x.dim() else out


@composes("cross_entropy")
def _cross_entropy(x, target, weight, size_average, ignore_index, reduce, reduction, smoothing):
    if size_average is not None or reduce is not None or x.dim() > 2 or (smoothing and weight is not None):
        return None
    dim = 0 if x.dim() == 1 else 1
    if target.dtype.is_floating_point:
        if weight is not None or smoothing:
            return None
        return _of_probabilities(api.log_softmax(x, dim), target, dim, reduction)
    log = api.log_softmax(x, dim)
    loss = api.nn.functional.nll_loss(log, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not smoothing:
        return loss
    with gradients.composing:
        smooth = -log.sum([dim])
        mask = target == ignore_index
        smooth.masked_fill_(mask, 0.0)
        if reduction == "mean":
            count = (~mask).sum()
            smooth = smooth.sum() / count
        elif reduction == "sum":
            smooth = smooth.sum()
        smooth = smooth * (smoothing / x.shape[dim])
        return loss * (1 - smoothing) + smooth


def _of_probabilities(log, target, dim, reduction):
    with gradients.composing:
        product = log * target
        if reduction == "none":
            return -product.sum([dim])
        total = -product.sum()
        return total if reduction == "sum" else total / (log.numel() // log.shape[dim])


@composes("poisson_nll_loss")
def _poisson_nll_loss(x, target, log_input, full, size_average, eps, reduce, reduction):
    if not log_input or full or size_average is not None or reduce is not None:
        return None
    with gradients.composing:
        product = target * x
        return _reduced(x.exp() - product, reduction)


@composes("margin_ranking_loss")
def _margin_ranking_loss(x, y, target, margin, size_average, reduce, reduction):
    if size_average is not None or reduce is not None:
        return None
    with gradients.composing:
        difference = x - y
        return _reduced((-target * difference + float(margin)).clamp_min_(0), reduction)


@composes("triplet_margin_loss")
def _triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, size_average, reduce, reduction):
    if swap or size_average is not None or reduce is not None or anchor.dim() != 2:
        return None
    near = _pairwise_distance(anchor, positive, float(p), eps, False)
    far = _pairwise_distance(anchor, negative, float(p), eps, False)
    with gradients.composing:
        return _reduced((near + float(margin) - far).clamp_min(0), reduction)


# --- steps of recurrent layers ------------------------------------------------------------


def _gates(x, weight, bias):
    return api.nn.functional.linear(x, weight, bias)


def _parts(gates, count):
    return api.unsafe_chunk(gates, count, 1)


def _simple(activation):
    def step(x, state, w_ih, w_hh, b_ih, b_hh):
        with gradients.composing:
            return getattr(_gates(state, w_hh, b_hh).add_(_gates(x, w_ih, b_ih)), activation)()

    return step


composes("rnn_tanh_cell")(_simple("tanh"))
composes("rnn_relu_cell")(_simple("relu"))


@composes("gru_cell")
def _gru_cell(x, state, w_ih, w_hh, b_ih, b_hh):
    with gradients.composing:
        reset, update, new = _parts(_gates(x, w_ih, b_ih), 3)
        old_reset, old_update, old = _parts(_gates(state, w_hh, b_hh), 3)
        reset = old_reset.add_(reset).sigmoid_()
        update = old_update.add_(update).sigmoid_()
        new = new.add(old.mul_(reset)).tanh_()
        return (state - new).mul_(update).add_(new)


@composes("lstm_cell")
def _lstm_cell(x, state, w_ih, w_hh, b_ih, b_hh):
    if len(state) != 2:
        return None  # which the op refuses
    hidden, cell = state
    with gradients.composing:
        into, kept, new, out = _parts(_gates(hidden, w_hh, b_hh).add_(_gates(x, w_ih, b_ih)), 4)
        into, kept, new, out = into.sigmoid_(), kept.sigmoid_(), new.tanh_(), out.sigmoid_()
        cell = (kept * cell).add_(into * new)
        return out * cell.tanh(), cell
