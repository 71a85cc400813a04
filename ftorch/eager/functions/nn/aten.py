"""Network functions of the top-level namespace, which have ATen's signatures."""

from __future__ import annotations

from ...bindings.outputs import write_same
from ...core import api as torch
from ...core import dtype as _dtype
from ...core.composite import composite
from ...kernels.nn.interpolation import PADDINGS, SAMPLINGS


@composite()
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
               cudnn_enabled):
    """`torch.nn.functional.batch_norm` with ATen's signature."""
    return torch.nn.functional.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )


@composite()
def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps,
                  cudnn_enabled):
    """`torch.nn.functional.instance_norm` with ATen's signature."""
    return torch.nn.functional.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def _statistics(input, dims, eps):
    var = input.var(dims, correction=0, keepdim=True)
    return input.mean(dims, keepdim=True), (var + eps).rsqrt()


@composite()
def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """Layer normalization, with the mean and the reciprocal standard deviation."""
    dims = tuple(range(-len(normalized_shape), 0))
    out = torch.layer_norm(input, normalized_shape, weight, bias, eps)
    return (out, *_statistics(input, dims, eps))


@composite()
def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, *,
                      out=None):
    """Batch normalization, with the batch's mean and reciprocal standard deviation (training)."""
    if out is not None:
        results = native_batch_norm(
            input, weight, bias, running_mean, running_var, training, momentum, eps
        )
        for result, o in zip(results, out, strict=True):
            write_same(result, o)
        return out
    out = torch.nn.functional.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    dims = (0, *range(2, input.dim()))
    mean, scale = _statistics(input, dims, eps)
    return out, mean.reshape(-1), scale.reshape(-1)


@composite()
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """Group normalization, with means and reciprocal standard deviations (N, group)."""
    out = torch.group_norm(input, group, weight, bias, eps)
    mean, scale = _statistics(input.reshape(N, group, C // group * HxW), -1, eps)
    return out, mean.squeeze(-1), scale.squeeze(-1)


def _declare_grid_sampler(name):
    def function(input, grid, interpolation_mode, padding_mode, align_corners):
        mode, padding = SAMPLINGS[interpolation_mode], PADDINGS[padding_mode]
        return torch.nn.functional.grid_sample(input, grid, mode, padding, align_corners)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "`torch.nn.functional.grid_sample` with ATen's signature."
    composite(name=name)(function)


for _name in ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"):
    _declare_grid_sampler(_name)


@composite()
def affine_grid_generator(theta, size, align_corners):
    """`torch.nn.functional.affine_grid` with ATen's signature."""
    return torch.nn.functional.affine_grid(theta, size, align_corners)


@composite()
def _native_batch_norm_legit(input, weight, bias, *rest, out=None):
    """`native_batch_norm`; without running statistics the arguments for them are left out."""
    if len(rest) == 3:
        rest = (None, None, *rest)
    return native_batch_norm(input, weight, bias, *rest, out=out)


@composite()
def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps, *,
                            out=None):
    """`native_batch_norm` in training, with the (empty) memory that a backward pass would reuse."""
    results = native_batch_norm(
        input, weight, bias, running_mean, running_var, True, momentum, eps,
        out=None if out is None else out[:3],
    )
    reserve = input.new_empty(0, dtype=_dtype.uint8)
    if out is None:
        return (*results, reserve)
    write_same(reserve, out[3])
    return out
