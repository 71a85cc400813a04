"""What ``torch.ops.aten`` has of layers and losses, by ATen's signatures (see ``aten.py``)."""

from __future__ import annotations

import math

import ftorch as torch

from ..eager.core.errors import could_not_run
from .aten import _FUNCTIONS, _LOSSES, _REDUCTIONS, aten


@aten
def dropout(input, p, train):
    return torch.nn.functional.dropout(input, p, train)


@aten
def native_dropout(input, p, train):
    return torch.native_dropout(input, p, train)


@aten
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    padding = None if padding_idx < 0 else padding_idx
    return torch.nn.functional.embedding(indices, weight, padding, None, 2.0, scale_grad_by_freq, sparse)


@aten
def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):
    out = torch.nn.functional.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode], sparse,
        per_sample_weights, include_last_offset, padding_idx,
    )
    return out, torch.empty(0), torch.empty(0), torch.empty(0)


@aten
def _embedding_bag_forward_only(*args, **kwargs):
    return embedding_bag(*args, **kwargs)


def _filled(name):
    """The op that draws a tensor of another's form, by the method that fills one."""
    def draw(self, *args, generator=None):
        return getattr(torch.empty_like(self), name)(*args, generator=generator)

    draw.__name__ = draw.__qualname__ = {"normal_": "normal_functional"}.get(name, name.removesuffix("_"))
    aten(draw)


for _name in ("cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_"):
    _filled(_name)


@aten
def convert_element_type(a, dtype):  # of prims
    return a.to(dtype)


@aten
def _efficientzerotensor(*size, dtype=None, layout=None, device=None, pin_memory=None):
    return torch.zeros(*size, dtype=dtype, device=device)


@aten
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return torch.nn.functional.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


@aten
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    return torch.nn.functional.group_norm(input, num_groups, weight, bias, eps)


@aten
def _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum,
                                         eps):
    out = torch.nn.functional.batch_norm(
        input, running_mean, running_var, weight, bias, False, momentum, eps
    )
    return out, input.new_empty(0), input.new_empty(0)


@aten
def _native_batch_norm_legit(input, weight, bias, *rest):
    return torch.native_batch_norm(input, weight, bias, *(rest if len(rest) == 5 else
                                                          (None, None, *rest)))


@aten
def _native_batch_norm_legit_functional(input, weight, bias, running_mean, running_var, training,
                                        momentum, eps):
    mean, var = running_mean.clone(), running_var.clone()
    out, *saved = torch.native_batch_norm(
        input, weight, bias, mean, var, training, momentum, eps
    )
    return (out, *saved, mean, var)


def _norm_of_gpus(name, input, *rest):
    if input.device.type != "cuda":
        raise could_not_run(name, input.device.type.upper())
    return torch.native_batch_norm(input, *rest)


@aten
def _mkldnn_transpose(self, dim0, dim1):
    raise could_not_run("_mkldnn_transpose", self.device.type.upper())  # its layout is none of ours


@aten
def cudnn_batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    found = _norm_of_gpus("cudnn_batch_norm", input, weight, bias, running_mean, running_var, training,
                          exponential_average_factor, epsilon)
    return (*found, input.new_empty(0, dtype=torch.uint8))


@aten
def miopen_batch_norm(input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon):
    return _norm_of_gpus("miopen_batch_norm", input, weight, bias, running_mean, running_var, training,
                         exponential_average_factor, epsilon)


@aten
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    rank = input.dim() - 2
    if transposed:
        function = getattr(torch.nn.functional, f"conv_transpose{rank}d")
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    function = getattr(torch.nn.functional, f"conv{rank}d")
    return function(input, weight, bias, stride, padding, dilation, groups)


@aten
def _convolution(*args):
    return convolution(*args[:9])


@aten
def _softmax(self, dim, half_to_float):
    return torch.softmax(self, dim, dtype=torch.float32 if half_to_float else None)


@aten
def _log_softmax(self, dim, half_to_float):
    return torch.log_softmax(self, dim, dtype=torch.float32 if half_to_float else None)


@aten
def _safe_softmax(self, dim, dtype=None):
    out = torch.softmax(self, dim, dtype=dtype)
    return torch.where(self.eq(-math.inf).all(dim, keepdim=True), torch.zeros_like(out), out)


@aten
def _adaptive_avg_pool2d(self, output_size):
    return torch.nn.functional.adaptive_avg_pool2d(self, output_size)


@aten
def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100,
                       label_smoothing=0.0):
    return torch.nn.functional.cross_entropy(
        self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction],
        label_smoothing=label_smoothing,
    )


@aten
def nll_loss_nd(self, target, weight=None, reduction=1, ignore_index=-100):
    return torch.nn.functional.nll_loss(
        self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction]
    )


def _loss(name, order):
    def call(self, target, *args, **options):
        options.update(zip(order.split(), args))
        reduction = options.get("reduction", 1)
        options["reduction"] = reduction if isinstance(reduction, str) else _REDUCTIONS[reduction]
        return getattr(torch.nn.functional, name)(self, target, **options)

    _FUNCTIONS[name] = call


for _name, _order in _LOSSES.items():
    _loss(_name, _order)


@aten
def log_sigmoid(self):
    return torch.nn.functional.logsigmoid(self)


@aten
def pad(self, pad, mode="constant", value=None):
    return torch.nn.functional.pad(self, pad, mode, value)


def _padding(name, mode):
    _FUNCTIONS[name] = lambda self, padding: torch.nn.functional.pad(self, padding, mode)


for _rank in (1, 2, 3):
    _padding(f"reflection_pad{_rank}d", "reflect")
    _padding(f"replication_pad{_rank}d", "replicate")


_SCALES = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}


def _upsample(name, mode, rank, aligns):
    def call(input, output_size, *rest, out=None, **named):
        names = ("align_corners",) if aligns else ()
        by_list = "scale_factors" in named or isinstance(rest[len(names)] if len(rest) > len(names) else None, (list, tuple))
        given = {**dict(zip((*names, *(("scale_factors",) if by_list else _SCALES[rank])), rest)), **named}
        factors, align = given.get("scale_factors"), given.get("align_corners")
        if (output_size is None) == (factors is None):
            raise RuntimeError("Must specify exactly one of output_size and scale_factors")
        scales = [s if s is not None and s > 0 else None for s in map(given.get, _SCALES[rank])]  # others say nothing
        if output_size is None or not any(scales):
            size, factors = (None if v is None else tuple(v) for v in (output_size, factors))
            result = torch.nn.functional.interpolate(input, size, factors, mode, align)
        else:
            scales = [s or n / m for s, n, m in zip(scales, output_size, input.shape[2:])]
            result = torch._interpolate(input, tuple(output_size), mode, bool(align), scales, False)
        return result if out is None else torch.mul(result, 1, out=out)

    call.__name__ = name
    _FUNCTIONS[name] = call


for _rank, _kind in ((1, "linear"), (2, "bilinear"), (3, "trilinear"), (2, "bicubic")):
    _upsample(f"upsample_{_kind}{_rank}d", _kind, _rank, True)
for _rank in (1, 2, 3):
    _upsample(f"upsample_nearest{_rank}d", "nearest", _rank, False)
    _upsample(f"_upsample_nearest_exact{_rank}d", "nearest-exact", _rank, False)


@aten
def einsum(equation, tensors, *, path=None):
    return torch.einsum(equation, *tensors)


@aten
def _weight_norm(v, g, dim=0):
    return torch._weight_norm(v, g, dim)


@aten
def meshgrid(tensors, indexing="ij"):
    return torch.meshgrid(*tensors, indexing=indexing)


@aten
def type_as(self, other):
    return self.type_as(other)
