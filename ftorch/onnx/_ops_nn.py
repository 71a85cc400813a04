"""ONNX forms of layers: products, convolutions, pooling, normalization, attention, recurrence."""

from __future__ import annotations

import math

import numpy as np

from ..eager.core import dtype as dtypes
from ._builder import Value, is_static
from ._table import translation


def _many(value, rank):
    value = [value] if isinstance(value, int) else list(value)
    return value * rank if len(value) == 1 else value


# --- products


@translation("linear")
def _linear(g, x, weight, bias=None):
    if x.rank == 2 and bias is not None:
        return g.op("Gemm", x, weight, bias, shape=g.result.shape, transB=1)
    out = g.op("MatMul", x, g.transpose(weight, list(range(weight.rank))[::-1]), shape=g.result.shape)
    return out if bias is None else g.op("Add", out, bias)


@translation("_linear_dynamic_int8")
def _linear_dynamic_int8(g, x, weight, packed, sums, scales, bias, reduce_range):
    """The range of the input, its bytes, the product of integers, both scales."""
    largest, nothing = g.number(127 if reduce_range else 255, dtypes.float32).name, g.number(0, dtypes.float32).name
    low = g.raw("Min", g.raw("ReduceMin", x.name, keepdims=0), nothing)
    high = g.raw("Max", g.raw("ReduceMax", x.name, keepdims=0), nothing)
    scale = g.raw("Div", g.raw("Sub", high, low), largest)
    scale = g.raw("Where", g.raw("Equal", scale, nothing), g.number(0.1, dtypes.float32).name, scale)
    point = g.raw("Round", g.raw("Clip", g.raw("Neg", g.raw("Div", low, scale)), nothing, largest))
    point = g.raw("Cast", point, to=2)  # uint8
    levels = g.raw("QuantizeLinear", x.name, scale, point)
    columns = g.transpose(g.squeeze(weight, [0]), [1, 0])
    total = g.raw("Cast", g.raw("MatMulInteger", levels, columns.name, point), to=1)
    factor = g.raw("Mul", g.squeeze(scales, [0]).name, scale)
    out = Value(g.raw("Mul", total, factor), tuple(g.result.shape), dtypes.float32)
    return out if bias is None else g.op("Add", out, g.squeeze(bias, [0]))


@translation("matmul mm bmm mv dot")
def _matmul(g, x, y):
    return g.op("MatMul", x, y, shape=g.result.shape)


@translation("addmm baddbmm addmv addbmm")
def _addmm(g, bias, x, y, beta=1, alpha=1):
    out = g.op("MatMul", x, y, shape=g.result.shape)
    if alpha != 1:
        out = g.op("Mul", out, g.number(alpha, out.dtype))
    if beta != 1:
        bias = g.op("Mul", bias, g.number(beta, bias.dtype))
    return g.op("Add", out, bias)


@translation("einsum")
def _einsum(g, equation, values, path=None):
    return g.op("Einsum", *values, shape=g.result.shape, equation=equation.replace(" ", ""))


@translation("outer")
def _outer(g, x, y):
    return g.op("Mul", g.unsqueeze(x, [1]), g.unsqueeze(y, [0]), shape=g.result.shape)


# --- convolutions


@translation("conv1d conv2d conv3d")
def _conv(g, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    rank = weight.rank - 2
    auto = None
    if isinstance(padding, str):
        auto, pads = ("SAME_UPPER" if padding == "same" else "VALID"), None
        if padding == "same" and set(_many(stride, rank)) == {1}:
            total = [(k - 1) * d for k, d in zip(weight.shape[2:], _many(dilation, rank))]
            auto, pads = None, [t // 2 for t in total] + [t - t // 2 for t in total]
    else:
        pads = _many(padding, rank) * 2
    single = x.rank == rank + 1
    if single:
        x = g.unsqueeze(x, [0])
    operands = [x, weight] + ([bias] if bias is not None else [])
    shape = g.result.shape if not single else (1, *g.result.shape)
    out = g.op(
        "Conv", *operands, shape=shape, kernel_shape=list(weight.shape[2:]), pads=pads,
        strides=_many(stride, rank), dilations=_many(dilation, rank), group=groups, auto_pad=auto,
    )
    return g.squeeze(out, [0]) if single else out


@translation("conv_transpose1d conv_transpose2d conv_transpose3d")
def _conv_transpose(g, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                    dilation=1):
    rank = weight.rank - 2
    operands = [x, weight] + ([bias] if bias is not None else [])
    return g.op(
        "ConvTranspose", *operands, shape=g.result.shape, kernel_shape=list(weight.shape[2:]),
        pads=_many(padding, rank) * 2, strides=_many(stride, rank), group=groups,
        dilations=_many(dilation, rank), output_padding=_many(output_padding, rank),
    )


@translation("convolution _convolution")
def _convolution(g, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups,
                 *rest):
    if transposed:
        return _conv_transpose(g, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(g, x, weight, bias, stride, padding, dilation, groups)


# --- pooling


@translation("max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool1d_with_indices")
def _max_pool(g, x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    rank = int(g.name[len("max_pool")])
    kernel = _many(kernel, rank)
    many = len(g.results) > 1
    names = g.raw(
        "MaxPool", x.name, outputs=1 + many, kernel_shape=kernel,
        strides=_many(stride, rank) if stride else kernel, pads=_many(padding, rank) * 2,
        dilations=_many(dilation, rank), ceil_mode=int(ceil_mode),
    )
    if not many:
        return Value(names, tuple(g.result.shape), x.dtype)
    out, index = (Value(n, tuple(r.shape), r.dtype) for n, r in zip(names, g.results))
    plane = g.raw("ReduceProd", g.shape_of(x, range(x.rank - rank, x.rank)), keepdims=0)
    return out, g.op("Mod", index, plane)  # ONNX counts through all planes


@translation("avg_pool1d avg_pool2d avg_pool3d")
def _avg_pool(g, x, kernel, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
              divisor_override=None):
    rank = int(g.name[len("avg_pool")])
    kernel = _many(kernel, rank)
    if divisor_override:
        raise g.error("divisor_override")
    return g.op(
        "AveragePool", x, shape=g.result.shape, kernel_shape=kernel,
        strides=_many(stride, rank) if stride else kernel, pads=_many(padding, rank) * 2,
        ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad),
    )


@translation("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d "
             "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive(g, x, size):
    rank = int(g.name[-2])
    size, kind = _many(size, rank), "Average" if "avg" in g.name else "Max"
    if kind == "Max" and len(g.results) > 1:
        raise g.error("indices")
    if set(size) == {1}:
        out = g.op(f"Global{kind}Pool", x, shape=g.result.shape)
    else:
        spatial = x.shape[-rank:]
        if any(not is_static(n) or n % s for n, s in zip(spatial, size)):
            raise g.error(f"pooling of {list(spatial)} to {size}: sizes must be multiples")
        kernel = [n // s for n, s in zip(spatial, size)]
        out = g.op(f"{kind}Pool", x, shape=g.result.shape, kernel_shape=kernel, strides=kernel)
    return out


@translation("upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d "
             "upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d _upsample_nearest_exact1d "
             "_upsample_nearest_exact2d _upsample_nearest_exact3d")
def _upsample(g, x, size, *rest):
    rest = list(rest)
    nearest = "nearest" in g.name
    align = False if nearest else rest.pop(0)
    scales = rest[0] if rest and isinstance(rest[0], (list, tuple)) else None
    mode = "nearest" if nearest else "cubic" if "cubic" in g.name else "linear"
    exact = "exact" in g.name
    where = "half_pixel" if exact else "asymmetric" if nearest else "align_corners" if align else "pytorch_half_pixel"
    options = {"mode": mode, "coordinate_transformation_mode": where}
    if nearest:
        options["nearest_mode"] = "round_prefer_ceil" if exact else "floor"
    if mode == "cubic":
        options["cubic_coeff_a"] = -0.75
    if scales is not None and size is None:
        factors = g.array(np.array([1, 1, *scales], np.float32))
        return g.op("Resize", x, "", factors, shape=g.result.shape, **options)
    sizes = g.raw("Concat", g.shape_of(x, [0, 1]), g.sizes(size), axis=0)
    return g.op("Resize", x, "", "", sizes, shape=g.result.shape, **options)


@translation("grid_sample grid_sampler grid_sampler_2d")
def _grid_sample(g, x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    modes, paddings = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    mode = modes[mode] if isinstance(mode, int) else mode
    padding = paddings[padding_mode] if isinstance(padding_mode, int) else padding_mode
    if g.opset >= 20:
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    elif x.rank != 4:
        raise g.error(f"of {x.rank - 2} dimensions needs opset_version 20")
    return g.op("GridSample", x, grid, shape=g.result.shape, mode=mode, padding_mode=padding,
                align_corners=int(bool(align_corners)))


@translation("affine_grid_generator")
def _affine_grid(g, theta, size, align_corners=False):
    if g.opset < 20:
        raise g.error("needs opset_version 20")
    return g.op("AffineGrid", theta, g.sizes(size), shape=g.result.shape, align_corners=int(bool(align_corners)))


@translation("pixel_shuffle pixel_unshuffle")
def _pixel_shuffle(g, x, factor):
    if g.name == "pixel_shuffle":
        return g.op("DepthToSpace", x, shape=g.result.shape, blocksize=factor, mode="CRD")
    n, c, h, w = x.shape
    split = g.reshape(x, (n, c, h // factor, factor, w // factor, factor))
    return g.reshape(g.transpose(split, [0, 1, 3, 5, 2, 4]), g.result.shape)


# --- normalization


@translation("batch_norm _native_batch_norm_legit_no_training _batch_norm_eval")
def _batch_norm(g, x, weight, bias, mean, var, *rest):
    if g.name == "batch_norm":
        training, _, eps = rest[:3]
        if training or mean is None:
            raise g.error("batch normalization in training mode; call model.eval() first")
    else:
        eps = rest[-1]
    count = mean.shape[0]
    weight = weight or Value(g.array(np.ones(count, x.dtype.numpy)), (count,), x.dtype)
    bias = bias or Value(g.array(np.zeros(count, x.dtype.numpy)), (count,), x.dtype)
    out = g.op("BatchNormalization", x, weight, bias, mean, var, epsilon=float(eps))
    return (out, None, None) if len(g.results) > 1 else out


@translation("layer_norm native_layer_norm")
def _layer_norm(g, x, shape, weight=None, bias=None, eps=1e-5, *_):
    size = tuple(shape)
    weight = weight or Value(g.array(np.ones(size, x.dtype.numpy)), size, x.dtype)
    operands = [x, weight] + ([bias] if bias is not None else [])
    out = g.op("LayerNormalization", *operands, axis=-len(size), epsilon=float(eps))
    return (out, None, None) if len(g.results) > 1 else out


@translation("rms_norm _fused_rms_norm")
def _rms_norm(g, x, shape, weight=None, eps=None):
    eps = float(np.finfo(x.dtype.numpy).eps) if eps is None else eps
    dims = g.ints(range(-len(shape), 0))
    squares = g.op("ReduceMean", g.op("Mul", x, x), dims, keepdims=1)
    root = g.op("Sqrt", g.op("Add", squares, g.number(eps, x.dtype)))
    out = g.op("Div", x, root)
    return out if weight is None else g.op("Mul", out, weight)


def _affine(g, out, weight, bias):
    for kind, value in (("Mul", weight), ("Add", bias)):
        if value is not None:
            value = g.unsqueeze(value, list(range(1, out.rank - 1)))
            out = g.op(kind, out, value)
    return out


def _normalized_groups(g, x, groups, eps):
    # InstanceNormalization over (N, groups, everything else).
    if not all(is_static(n) for n in x.shape[1:]):
        raise g.error("normalization of sizes that vary")
    flat = g.op("Reshape", x, g.ints([0, groups, -1]), shape=(x.shape[0], groups, 1))
    ones = g.array(np.ones(groups, x.dtype.numpy))
    zeros = g.array(np.zeros(groups, x.dtype.numpy))
    out = g.op("InstanceNormalization", flat, ones, zeros, epsilon=float(eps))
    return g.op("Reshape", out, g.raw("Shape", x.name), shape=x.shape)


@translation("group_norm")
def _group_norm(g, x, groups, weight=None, bias=None, eps=1e-5, *_):
    return _affine(g, _normalized_groups(g, x, groups, eps), weight, bias)


@translation("instance_norm")
def _instance_norm(g, x, weight, bias, mean, var, use_input_stats, momentum, eps, *_):
    if not use_input_stats:
        return g.translate("batch_norm", x, weight, bias, mean, var, False, momentum, eps)
    return _affine(g, _normalized_groups(g, x, x.shape[1], eps), weight, bias)


@translation("softmax _softmax log_softmax _log_softmax _safe_softmax")
def _softmax(g, x, dim, *rest, dtype=None):
    kind = "LogSoftmax" if "log" in g.name else "Softmax"
    return g.op(kind, g.cast(x, g.result.dtype), axis=dim)


# --- attention


@translation("scaled_dot_product_attention _scaled_dot_product_flash_attention_for_cpu")
def _attention(g, query, key, value, mask=None, dropout=0.0, causal=False, *, scale=None,
               enable_gqa=False, attn_mask=None):
    mask = attn_mask if attn_mask is not None else mask
    if isinstance(mask, float):  # the flash op has no mask there
        mask, dropout, causal = None, mask, dropout
    if enable_gqa:
        times = query.shape[-3] // key.shape[-3]
        key, value = (_repeated(g, v, times) for v in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    query = g.op("Mul", query, g.number(scale, query.dtype))
    scores = g.op("MatMul", query, g.transpose(key, order),
                  shape=(*query.shape[:-1], key.shape[-2]))
    if causal:
        mask = _causal(g, scores)
    if mask is not None:
        if mask.dtype is dtypes.bool:
            low = g.number(-math.inf, scores.dtype)
            scores = g.op("Where", mask, scores, low, shape=scores.shape, dtype=scores.dtype)
        else:
            scores = g.op("Add", scores, g.cast(mask, scores.dtype))
    weights = g.op("Softmax", scores, axis=-1)
    if dropout:
        weights = g.translate("dropout", weights, dropout, True)
    out = g.op("MatMul", weights, value, shape=g.results[0].shape)
    return (out, None) if len(g.results) > 1 else out


def _repeated(g, x, times):
    sizes = [1] * (x.rank + 1)
    sizes[-3] = times
    wide = g.unsqueeze(x, [x.rank - 2])
    tiled = g.op("Tile", wide, g.ints(sizes), shape=wide.shape)
    shape = list(x.shape)
    shape[-3] *= times
    return g.op("Reshape", tiled, g.ints([n if is_static(n) else -1 for n in shape]), shape=shape)


def _causal(g, scores):
    rows, columns = scores.shape[-2:]
    if is_static(rows) and is_static(columns):
        allowed = np.tri(rows, columns, dtype=bool)
        return Value(g.array(allowed), allowed.shape, dtypes.bool)
    sizes = g.shape_of(scores, [scores.rank - 2, scores.rank - 1])
    ones = g.op("Expand", g.number(1, dtypes.int64), sizes, shape=(rows, columns))
    return g.cast(g.op("Trilu", ones, upper=0), dtypes.bool)


# --- recurrence

# PyTorch's order of gates, and where each goes in ONNX's.
_GATES = {"lstm": [0, 3, 1, 2], "gru": [1, 0, 2], "rnn_tanh": [0], "rnn_relu": [0]}
_KINDS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


def _gates(g, w, name, size):
    """A weight with its gates in ONNX's order, with a dimension for the direction."""
    order = _GATES[name]
    if len(order) > 1:
        index = np.concatenate([np.arange(i * size, (i + 1) * size) for i in order])
        w = g.op("Gather", w, g.array(index.astype(np.int64)), axis=0)
    return g.unsqueeze(w, [0])


@translation("lstm gru rnn_tanh rnn_relu")
def _recurrent(g, x, hx, params, has_biases, layers, dropout, train, bidirectional, batch_first):
    name, directions = g.name, 2 if bidirectional else 1
    states = list(hx) if name == "lstm" else [hx]
    count = 4 if has_biases else 2
    if len(params) != layers * directions * count:
        raise g.error("an LSTM with projections")
    size = states[0].shape[-1]
    if batch_first:
        x = g.transpose(x, [1, 0, 2])
    last: list[list[Value]] = [[] for _ in states]
    for layer in range(layers):
        own = params[layer * directions * count : (layer + 1) * directions * count]
        groups = [own[i * count : (i + 1) * count] for i in range(directions)]
        w, r = (g.concat([_gates(g, p[k], name, size) for p in groups], 0) for k in (0, 1))
        bias = None
        if has_biases:
            both = [g.concat([_gates(g, p[2], name, size), _gates(g, p[3], name, size)], 1)
                    for p in groups]
            bias = g.concat(both, 0)
        start = layer * directions
        initial = [g.slice(s, 0, start, start + directions) for s in states]
        options = {"hidden_size": size, "direction": "bidirectional" if bidirectional else "forward"}
        if name == "gru":
            options["linear_before_reset"] = 1
        if name == "rnn_relu":
            options["activations"] = ["Relu"] * directions
        names = g.raw(
            _KINDS[name], x.name, w.name, r.name, bias.name if bias else "", "",
            *(s.name for s in initial), outputs=1 + len(states), **options,
        )
        # (length, directions, batch, size) to (length, batch, directions * size)
        out = Value(names[0], (x.shape[0], directions, x.shape[1], size), x.dtype)
        out = g.transpose(out, [0, 2, 1, 3])
        x = g.op("Reshape", out, g.ints([0, 0, directions * size]),
                 shape=(x.shape[0], x.shape[1], directions * size))
        for collected, state in zip(last, names[1:]):
            collected.append(Value(state, (directions, *states[0].shape[1:]), x.dtype))
    if batch_first:
        x = g.transpose(x, [1, 0, 2])
    return [x, *(g.concat(s, 0) if len(s) > 1 else s[0] for s in last)]


# --- losses


@translation("cross_entropy_loss nll_loss_nd nll_loss")
def _cross_entropy(g, x, target, weight=None, reduction=1, ignore_index=-100, smoothing=0.0):
    if smoothing or target.dtype.is_floating_point:
        raise g.error("label smoothing and probabilities as targets")
    kind = "SoftmaxCrossEntropyLoss" if "cross" in g.name else "NegativeLogLikelihoodLoss"
    return g.op(kind, x, target, weight, shape=g.result.shape, ignore_index=ignore_index,
                reduction=("none", "mean", "sum")[reduction])


@translation("mse_loss l1_loss")
def _distance(g, x, y, reduction=1):
    apart = g.op("Sub", x, y)
    out = g.op("Mul", apart, apart) if g.name == "mse_loss" else g.op("Abs", apart)
    if reduction == 0:
        return out
    return g.op("ReduceMean" if reduction == 1 else "ReduceSum", out, shape=(), keepdims=0)
