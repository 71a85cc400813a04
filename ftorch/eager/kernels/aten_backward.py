"""ATen's backward ops: the gradients of one op each, as graphs and ``__torch_dispatch__`` see them.

Each is the derivative that its forward op declares, by ATen's signature. The engine's own backward passes run
fused kernels instead; these are what they are made of where somebody looks (`ftorch._dispatch.gradient_rules`).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..core.registry import OPS, op
from ._common import up
from .nn.interpolation import PADDINGS, SAMPLINGS

_REDUCTIONS = ("none", "mean", "sum")


def _pulled(function, grad, *xs):
    """The gradients of ``xs`` by ``jax.vjp``."""
    out, pull = jax.vjp(function, *xs)
    return pull(grad.astype(out.dtype))


def _declared(name, grad, **given):
    """The gradients that an op declares, or derives from its kernel, for its floating-point arguments."""
    definition = OPS[name]
    arguments = {a.name: a.default for a in definition.schema.arguments} | given
    if definition.backward is not None:
        known = {**arguments, "needs": (True,) * len(arguments)}
        if "result" in definition.backward_saves:
            known["result"] = definition.kernel(**arguments)
        found = definition.backward(grad, **{n: known[n] for n in definition.backward_saves})
        return found if isinstance(found, (tuple, list)) else (found,)
    first = definition.argument_names[0]
    return _pulled(lambda x: definition.kernel(**{**arguments, first: x}), grad, given[first])


def _first(name, grad, **given):
    return _declared(name, grad, **given)[0]


def _masked(found, mask):
    """What the output mask leaves of some gradients; the others are empty."""
    return tuple(g if m and g is not None else jnp.zeros((0,), found[0].dtype) for g, m in zip(found, mask, strict=True))


# --- activations -----------------------------------------------------------------------------


@op("threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor", forms="")
def threshold_backward(grad_output, self, threshold):
    return jnp.where(self <= jnp.asarray(threshold).astype(self.dtype), jnp.zeros((), grad_output.dtype), grad_output)


@op("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor", forms="")
def sigmoid_backward(grad_output, output):
    return grad_output * jnp.conj(output * (1 - output))


@op("tanh_backward(Tensor grad_output, Tensor output) -> Tensor", forms="")
def tanh_backward(grad_output, output):
    return grad_output * jnp.conj(1 - output * output)


@op("gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor", forms="")
def gelu_backward(grad_output, self, approximate):
    return _first("gelu", grad_output, input=self, approximate=approximate)


@op("silu_backward(Tensor grad_output, Tensor self) -> Tensor", forms="")
def silu_backward(grad_output, self):
    return _first("silu", grad_output, self=self)


@op("mish_backward(Tensor grad_output, Tensor self) -> Tensor", forms="")
def mish_backward(grad_output, self):
    return _first("mish", grad_output, self=self)


@op("hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor", forms="")
def hardsigmoid_backward(grad_output, self):
    return _first("hardsigmoid", grad_output, self=self)


@op("hardswish_backward(Tensor grad_output, Tensor self) -> Tensor", forms="")
def hardswish_backward(grad_output, self):
    return _first("hardswish", grad_output, self=self)


@op("hardshrink_backward(Tensor grad_out, Tensor self, float lambd) -> Tensor", forms="")
def hardshrink_backward(grad_out, self, lambd):
    return _first("hardshrink", grad_out, self=self, lambd=lambd)


@op("softshrink_backward(Tensor grad_output, Tensor self, float lambd) -> Tensor", forms="")
def softshrink_backward(grad_output, self, lambd):
    return _first("softshrink", grad_output, self=self, lambd=lambd)


@op("hardtanh_backward(Tensor grad_output, Tensor self, float min_val, float max_val) -> Tensor", forms="")
def hardtanh_backward(grad_output, self, min_val, max_val):
    return _first("hardtanh", grad_output, self=self, min_val=min_val, max_val=max_val)


@op("leaky_relu_backward(Tensor grad_output, Tensor self, float negative_slope, bool self_is_result) -> Tensor",
    forms="")
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    # The result has the sign of what it is the result of.
    return _first("leaky_relu", grad_output, self=self, negative_slope=negative_slope)


@op("elu_backward(Tensor grad_output, float alpha, float scale, float input_scale, bool is_result, "
    "Tensor self_or_result) -> Tensor", forms="")
def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    if not is_result:
        given = {"self": self_or_result, "alpha": alpha, "scale": scale, "input_scale": input_scale}
        return _first("elu", grad_output, **given)
    y, g = up(self_or_result), up(grad_output)
    slope = jnp.where(y <= 0, input_scale * (y + alpha * scale), scale)
    return (g * slope).astype(grad_output.dtype)


@op("softplus_backward(Tensor grad_output, Tensor self, float beta, float threshold) -> Tensor", forms="")
def softplus_backward(grad_output, self, beta, threshold):
    return _first("softplus", grad_output, self=self, beta=beta, threshold=threshold)


@op("log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor", forms="")
def log_sigmoid_backward(grad_output, self, buffer):
    if buffer.shape != self.shape:
        return _first("logsigmoid", grad_output, input=self)
    g, below, z = up(grad_output), up(self) < 0, up(buffer)  # exp(-|x|)
    return (g * (below - jnp.where(below, 1, -1) * (z / (1 + z)))).astype(grad_output.dtype)


@op("glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor", forms="")
def glu_backward(grad_output, self, dim):
    return _first("glu", grad_output, input=self, dim=dim)


# --- losses ----------------------------------------------------------------------------------


@op("mse_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction) -> Tensor", forms="")
def mse_loss_backward(grad_output, self, target, reduction):
    return _first("mse_loss", grad_output, input=self, target=target, reduction=_REDUCTIONS[reduction])


@op("smooth_l1_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float beta) -> Tensor",
    forms="")
def smooth_l1_loss_backward(grad_output, self, target, reduction, beta):
    given = {"input": self, "target": target, "reduction": _REDUCTIONS[reduction], "beta": beta}
    return _first("smooth_l1_loss", grad_output, **given)


@op("huber_loss_backward(Tensor grad_output, Tensor self, Tensor target, int reduction, float delta) -> Tensor",
    forms="")
def huber_loss_backward(grad_output, self, target, reduction, delta):
    given = {"input": self, "target": target, "reduction": _REDUCTIONS[reduction], "delta": delta}
    return _first("huber_loss", grad_output, **given)


@op("binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight=None, "
    "int reduction=1) -> Tensor", forms="")
def binary_cross_entropy_backward(grad_output, self, target, weight, reduction):
    given = {"input": self, "target": target, "weight": weight, "reduction": _REDUCTIONS[reduction]}
    return _first("binary_cross_entropy", grad_output, **given)


_NLL = ("(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index, "
        "Tensor total_weight) -> Tensor")


def _nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    given = {"input": self, "target": target, "weight": weight, "reduction": _REDUCTIONS[reduction],
             "ignore_index": ignore_index}
    return _first("nll_loss", grad_output, **given)


for _name in ("nll_loss_backward", "nll_loss2d_backward"):
    op(_name + _NLL, forms="")(_nll_loss_backward)


# --- normalization, convolution, pooling -----------------------------------------------------


@op("native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, "
    "Tensor? weight, Tensor? bias, bool[] output_mask) -> (Tensor, Tensor, Tensor)", forms="")
def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    return _masked(_normalized(grad_out, input, axes, mean, rstd, weight, range(input.ndim - len(axes))), output_mask)


def _normalized(grad, x, axes, mean, rstd, weight, rows):
    """The gradients of what was normalized over ``axes``, of its weight and of its bias."""
    shape = [1 if d in axes else n for d, n in enumerate(x.shape)]
    g, x_up = up(grad), up(x)
    scale = up(rstd).reshape(shape)
    unit = (x_up - up(mean).reshape(shape)) * scale
    rows = tuple(rows)
    d_weight, d_bias = (g * unit).sum(rows, dtype=g.dtype), g.sum(rows, dtype=g.dtype)
    if weight is not None:
        g = g * up(weight).reshape([1 if d in rows else n for d, n in enumerate(x.shape)])
    centered = g - g.mean(axes, keepdims=True) - unit * (g * unit).mean(axes, keepdims=True)
    of = grad.dtype if weight is None else weight.dtype
    return (centered * scale).astype(x.dtype), d_weight.astype(of), d_bias.astype(of)


@op("native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N, "
    "SymInt C, SymInt HxW, int group, bool[] output_mask) -> (Tensor, Tensor, Tensor)", forms="")
def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):  # noqa: N803
    cells = (N, group, C // group, HxW)
    x, g = input.reshape(cells), grad_out.reshape(cells)
    scaled = g if weight is None else up(g) * up(weight).reshape(1, group, C // group, 1)
    d_input, *_ = _normalized(scaled, x, (2, 3), mean, rstd, None, (0,))
    _, d_weight, d_bias = _normalized(g, x, (2, 3), mean, rstd, None, (0, 3))
    of = grad_out.dtype if weight is None else weight.dtype
    found = d_input.astype(input.dtype).reshape(input.shape), d_weight.reshape(C), d_bias.reshape(C)
    return _masked([found[0], *(d.astype(of) for d in found[1:])], output_mask)


@op("native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float eps, bool[] output_mask) "
    "-> (Tensor, Tensor, Tensor)", forms="")
def native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
                               output_mask):
    rows = (0, *range(2, input.ndim))
    shape = [1 if d in rows else n for d, n in enumerate(input.shape)]
    if train:
        wide = up(grad_out) if weight is None else up(grad_out) * up(weight).reshape(shape)
        d_input, *_ = _normalized(wide, input, rows, save_mean, save_invstd, None, rows)
        _, d_weight, d_bias = _normalized(grad_out, input, rows, save_mean, save_invstd, None, rows)
    else:
        scale = jax.lax.rsqrt(up(running_var) + eps).reshape(shape)
        g = up(grad_out)
        unit = (up(input) - up(running_mean).reshape(shape)) * scale
        d_weight, d_bias = (g * unit).sum(rows, dtype=g.dtype), g.sum(rows, dtype=g.dtype)
        d_input = (g * scale if weight is None else g * scale * up(weight).reshape(shape)).astype(input.dtype)
    of = grad_out.dtype if weight is None else weight.dtype
    return _masked([d_input, d_weight.astype(of), d_bias.astype(of)], output_mask)


@op("convolution_backward(Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, SymInt[] stride, "
    "SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups, "
    "bool[] output_mask) -> (Tensor, Tensor, Tensor)", forms="")
def convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
                         groups, output_mask):
    kernel = OPS["convolution"].kernel

    def forward(x, w):
        return kernel(x, w, None, stride, padding, dilation, transposed, output_padding, groups)

    d_input, d_weight = _pulled(forward, grad_output, input, weight)
    rows = (0, *range(2, grad_output.ndim)) if input.ndim == weight.ndim else tuple(range(1, grad_output.ndim))
    return _masked([d_input, d_weight, grad_output.sum(rows, dtype=grad_output.dtype)], output_mask)


_POOL = ("int[{n}] kernel_size, int[{n}] stride, int[{n}] padding, bool ceil_mode, bool count_include_pad, "
         "int? divisor_override) -> Tensor")


def _pooling(nd):
    @op(f"avg_pool{nd}d_backward(Tensor grad_output, Tensor self, {_POOL.format(n=nd)}", forms="")
    def avg_pool(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
        given = {"self": self, "kernel_size": kernel_size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode,
                 "count_include_pad": count_include_pad, "divisor_override": divisor_override}
        return _first(f"avg_pool{nd}d", grad_output, **given)

    @op(f"_adaptive_avg_pool{nd}d_backward(Tensor grad_output, Tensor self) -> Tensor", forms="")
    def adaptive(grad_output, self):
        size = grad_output.shape[-nd:]
        return _first(f"adaptive_avg_pool{nd}d", grad_output, self=self, output_size=size)


for _nd in (2, 3):
    _pooling(_nd)


# --- indexing and views ----------------------------------------------------------------------


@op("embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, "
    "bool scale_grad_by_freq) -> Tensor", forms="")
def embedding_dense_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    weight = jnp.zeros((num_weights, grad_output.shape[-1]), grad_output.dtype)
    given = {"weight": weight, "indices": indices, "padding_idx": padding_idx, "scale_grad_by_freq": scale_grad_by_freq}
    return _first("embedding", grad_output, **given)


def _into(grad, sizes, index):
    return jnp.zeros(tuple(sizes), grad.dtype).at[index].set(grad)


@op("select_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt index) -> Tensor", forms="")
def select_backward(grad_output, input_sizes, dim, index):
    size = input_sizes[dim % len(input_sizes)]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input_sizes)} at dimension "
            f"{dim % len(input_sizes)}"
        )
    return _into(grad_output, input_sizes, (slice(None),) * (dim % len(input_sizes)) + (index,))


@select_backward.by_regime
def _(input_sizes, dim, index):
    size = input_sizes[dim % max(len(input_sizes), 1)] if input_sizes else 0
    return -size <= index < size


@op("slice_backward(Tensor grad_output, SymInt[] input_sizes, int dim, SymInt start, SymInt end, SymInt step) -> Tensor",
    forms="")
def slice_backward(grad_output, input_sizes, dim, start, end, step):
    dim %= len(input_sizes)
    part = slice(start, min(end, input_sizes[dim]), step)
    return _into(grad_output, input_sizes, (slice(None),) * dim + (part,))


@op("diagonal_backward(Tensor grad_output, SymInt[] input_sizes, int offset, int dim1, int dim2) -> Tensor", forms="")
def diagonal_backward(grad_output, input_sizes, offset, dim1, dim2):
    zeros = jnp.zeros(tuple(input_sizes), grad_output.dtype)
    return _pulled(lambda x: jnp.diagonal(x, offset, dim1, dim2), grad_output, zeros)[0]


@op("unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step) -> Tensor", forms="")
def unfold_backward(grad_in, input_sizes, dim, size, step):
    dim %= len(input_sizes)
    count = (input_sizes[dim] - size) // step + 1
    at = jnp.arange(count)[:, None] * step + jnp.arange(size)[None]

    def unfolded(x):
        return jnp.moveaxis(jnp.take(x, at.reshape(-1), dim).reshape(*x.shape[:dim], count, size, *x.shape[dim + 1 :]),
                            dim + 1, -1)

    return _pulled(unfolded, grad_in, jnp.zeros(tuple(input_sizes), grad_in.dtype))[0]


@op("trace_backward(Tensor grad, SymInt[] sizes) -> Tensor", forms="")
def trace_backward(grad, sizes):
    return jnp.eye(*sizes, dtype=grad.dtype) * grad


# --- resampling ------------------------------------------------------------------------------


def _shrunk(grad, size, shape, mode, aligned, *scales):
    """The gradient of an image that was enlarged."""
    image = jnp.zeros(tuple(shape), grad.dtype)
    return _first("_interpolate", grad, input=image, size=tuple(size), mode=mode, align_corners=aligned,
                  scales=scales if all(scales) else None, antialias=False)


_SIZES = "Tensor grad_output, SymInt[{0}] output_size, SymInt[{1}] input_size, "
_OF_LINES, _OF_IMAGES, _OF_VOLUMES = (_SIZES.format(n, n + 2) for n in (1, 2, 3))


def _nearest(name, mode):
    @op(f"{name}1d_backward({_OF_LINES}float? scales=None) -> Tensor", forms="")
    def of_lines(grad_output, output_size, input_size, scales):
        return _shrunk(grad_output, output_size, input_size, mode, False, scales)

    @op(f"{name}2d_backward({_OF_IMAGES}float? scales_h=None, float? scales_w=None) -> Tensor", forms="")
    def of_images(grad_output, output_size, input_size, scales_h, scales_w):
        return _shrunk(grad_output, output_size, input_size, mode, False, scales_h, scales_w)

    @op(f"{name}3d_backward({_OF_VOLUMES}float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor", forms="")
    def of_volumes(grad_output, output_size, input_size, scales_d, scales_h, scales_w):
        return _shrunk(grad_output, output_size, input_size, mode, False, scales_d, scales_h, scales_w)


_nearest("upsample_nearest", "nearest")
_nearest("_upsample_nearest_exact", "nearest-exact")


@op(f"upsample_linear1d_backward({_OF_LINES}bool align_corners, float? scales=None) -> Tensor", forms="")
def upsample_linear1d_backward(grad_output, output_size, input_size, align_corners, scales):
    return _shrunk(grad_output, output_size, input_size, "linear", align_corners, scales)


@op(f"upsample_bilinear2d_backward({_OF_IMAGES}bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    forms="")
def upsample_bilinear2d_backward(grad_output, output_size, input_size, align_corners, scales_h, scales_w):
    return _shrunk(grad_output, output_size, input_size, "bilinear", align_corners, scales_h, scales_w)


@op(f"upsample_bicubic2d_backward({_OF_IMAGES}bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor",
    forms="")
def upsample_bicubic2d_backward(grad_output, output_size, input_size, align_corners, scales_h, scales_w):
    return _shrunk(grad_output, output_size, input_size, "bicubic", align_corners, scales_h, scales_w)


@op(f"upsample_trilinear3d_backward({_OF_VOLUMES}bool align_corners, float? scales_d=None, float? scales_h=None, "
    "float? scales_w=None) -> Tensor", forms="")
def upsample_trilinear3d_backward(grad_output, output_size, input_size, align_corners, scales_d, scales_h, scales_w):
    return _shrunk(grad_output, output_size, input_size, "trilinear", align_corners, scales_d, scales_h, scales_w)


def _grids(n):
    @op(f"grid_sampler_{n}d_backward(Tensor grad_output, Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
        "bool align_corners, bool[2] output_mask) -> (Tensor, Tensor)", forms="")
    def gradient(grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask):
        kernel, how = OPS["grid_sample"].kernel, (SAMPLINGS[interpolation_mode], PADDINGS[padding_mode], align_corners)
        found = _pulled(lambda x, g: kernel(x, g, *how), grad_output, input, grid)
        return _masked(found, output_mask)


for _n in (2, 3):
    _grids(_n)
