"""Ops whose arguments in programs differ from the public functions'."""

from __future__ import annotations

import functools

import ftorch as torch

from ....eager.tensor import TensorBase
from .builtins import SCALAR, to_int
from .types import DTYPE_OF, LAYOUTS, MEMORY_FORMATS, code

__all__ = ["ADAPTED"]


def _multi_head_attention(*args, **kwargs):
    out, weights = torch._native_multi_head_attention(*args, **kwargs)
    return out, torch.empty(0) if weights is None else weights  # which is a tensor in scripts


def _dtype(value):
    return DTYPE_OF[value] if type(value) is int else value


def _layout(value):
    return LAYOUTS[value] if type(value) is int else value


def _memory_format(value):
    return MEMORY_FORMATS[value] if type(value) is int else value


_CONVERT = {"dtype": _dtype, "layout": _layout, "memory_format": _memory_format}
_DROPPED = {"pin_memory", "layout", "non_blocking", "generator", "implicit", "device", "dtype"}


def _keywords(kwargs):
    """Keyword arguments as Python's functions take them."""
    out = {}
    for name, value in kwargs.items():
        if value is None and name in _DROPPED or name == "pin_memory" and not value:
            continue
        convert = _CONVERT.get(name)
        value = convert(value) if convert else value
        if name == "layout" and value is torch.strided:
            continue
        out["input" if name == "self" else name] = value
    return out




def _tensor(data, *, dtype=None, device=None, requires_grad=False):
    return torch.tensor(data, dtype=_dtype(dtype), device=device, requires_grad=requires_grad)


def div_before_4(a, b, rounding_mode=None):
    """``div`` of files before version 4: of integer tensors it gave integers."""
    def is_float(x):
        return x.is_floating_point() or x.is_complex() if isinstance(x, TensorBase) else (
            isinstance(x, (float, complex))
        )

    if not isinstance(a, TensorBase) and not isinstance(b, TensorBase):
        return SCALAR["div"](a, b)
    if rounding_mode is None and not is_float(a) and not is_float(b):
        rounding_mode = "trunc"
    return torch.div(a, b, rounding_mode=rounding_mode)


def _to(x, *args, **kwargs):
    """All overloads of aten::to."""
    kwargs = {k: v for k, v in _keywords(kwargs).items() if v is not None}
    first = args[0] if args else None
    if isinstance(first, TensorBase):  # to.other
        return x.to(first, *args[1:3])
    if len(args) >= 2 and not isinstance(first, int):  # to.device(device, dtype, ...)
        options = {"device": first, "dtype": _dtype(args[1])}
        rest = args[2:]
    elif isinstance(first, bool) or not args:  # to.prim_other, to.dtype_layout
        options, rest = {}, args
    elif isinstance(first, int):
        options, rest = {"dtype": _dtype(first)}, args[1:]
    else:
        options, rest = {"device": first}, args[1:]
    for key, value in zip(("non_blocking", "copy", "memory_format"), rest):
        if value is not None:
            options[key] = _memory_format(value) if key == "memory_format" else value
    options.update(kwargs)
    options = {k: v for k, v in options.items() if v is not None and k != "layout"}
    return x.to(**options)


def _view(x, *args, dtype=None, size=None):
    if size is not None:
        return x.view(size)
    if dtype is None and len(args) == 1 and type(args[0]) is int:
        dtype = args[0]  # sizes come as a list
    return x.view(*args) if dtype is None else x.view(_dtype(dtype))


def _slice(x, *args):
    if isinstance(x, TensorBase):
        dim, start, end, step = (*args, *((0, None, None, 1)[len(args) :]))
        index = (slice(None),) * (dim if dim >= 0 else dim + x.dim())
        start, end = (None if e is None else to_int(e) for e in (start, end))
        return x[(*index, slice(start, end, step))]
    return SCALAR["slice"](x, *args)


def _select(x, *args):
    if isinstance(x, TensorBase):
        return x.select(args[0], to_int(args[1]))
    return x[args[0]]


def _index(x, indices, *rest):
    if isinstance(x, TensorBase):
        return x[tuple(slice(None) if i is None else i for i in indices)]
    return SCALAR["index"](x, indices, *rest)


def _index_put(inplace):
    def call(x, indices, values, accumulate=False, *_):
        return torch.ops.aten.index_put_(x if inplace else x.clone(), list(indices), values, accumulate)

    return call


def _convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
                 groups, *_):
    return torch.convolution(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


def _convolution_mode(input, weight, bias, stride, padding, dilation, groups):
    return getattr(torch, f"conv{input.dim() - 2}d")(input, weight, bias, stride, padding, dilation, groups)


def _conv(n):
    @functools.cache
    def function():
        return getattr(torch, f"conv{n}d")

    def call(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        return function()(input, weight, bias, stride, padding, dilation, groups)

    return call


def _max_pool(n):
    def call(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        from ....nn import functional as F

        return getattr(F, f"max_pool{n}d")(
            input, kernel_size, stride or None, padding, dilation, ceil_mode
        )

    return call


def _max_pool_with_indices(n):
    def call(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        from ....nn import functional as F

        return getattr(F, f"max_pool{n}d")(
            input, kernel_size, stride or None, padding, dilation, ceil_mode, return_indices=True
        )

    return call


def _adaptive_max_pool(n):
    def call(input, output_size):
        from ....nn import functional as F

        return getattr(F, f"adaptive_max_pool{n}d")(input, output_size, return_indices=True)

    return call


_REDUCTIONS = ("none", "mean", "sum")


def _loss(name, *order):
    """A loss whose reduction comes as a number; ``order`` names the arguments after the target."""

    def call(input, target, *args, **kwargs):
        from ....nn import functional as F

        options = dict(zip(order, args), **kwargs)
        options["reduction"] = _REDUCTIONS[options.get("reduction", 1)]
        return getattr(F, name)(input, target, **options)

    return call


def _upsample(mode, dims, antialias=False):
    corners = mode in ("linear", "bilinear", "bicubic", "trilinear")

    def call(input, output_size=None, *args, **kwargs):
        from ....nn import functional as F

        args = list(args)
        align = args.pop(0) if corners and args else kwargs.get("align_corners", False)
        scales = [a for a in args if a is not None]
        if scales and isinstance(scales[0], (list, tuple)):
            scales = list(scales[0])
        options = {"align_corners": align, "antialias": antialias} if corners else {}
        if output_size is not None:
            size = [to_int(s) for s in output_size]
            return F.interpolate(input, size=size, mode=mode, **options)
        return F.interpolate(
            input, scale_factor=scales, mode=mode, recompute_scale_factor=False, **options
        )

    return call


def _interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None,
                 recompute_scale_factor=None, antialias=False):
    from ....nn import functional as F

    return F.interpolate(
        input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias
    )


def _set_grad_enabled(value):
    torch.set_grad_enabled(bool(value))


def _embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
                   per_sample_weights=None, include_last_offset=False, padding_idx=None):
    from ....nn import functional as F

    result = F.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode],
        sparse, per_sample_weights, include_last_offset, padding_idx,
    )
    return result, indices, offsets, indices


def _pad(prefix, mode):
    def call(input, padding):
        from ....nn import functional as F

        return F.pad(input, padding, mode=mode)

    return call


def _pack_padded(input, lengths, batch_first):
    from ....nn.utils import rnn

    packed = rnn.pack_padded_sequence(input, lengths, batch_first)
    return packed.data, packed.batch_sizes


def _pad_packed(data, batch_sizes, batch_first, padding_value, total_length):
    from ....nn.utils import rnn

    packed = rnn.PackedSequence(data, batch_sizes)
    total = None if total_length is None or total_length < 0 else total_length
    return rnn.pad_packed_sequence(packed, batch_first, padding_value, total)


def _size(x, dim=None):
    return x.size(dim) if dim is not None else list(x.shape)


def _stride(x, dim=None):
    return x.stride(dim) if dim is not None else list(x.stride())


def _inplace_activation(name):
    def call(x, *args, **kwargs):
        from ....nn import functional as F

        return x.copy_(getattr(F, name)(x, *args, **kwargs))

    return call


def _arange(*args, **kwargs):
    return torch.arange(*args, **_keywords(kwargs))


def _number(kind):
    def call(x, *_):
        return kind(x)

    return call


def _local_scalar(x):
    return x.item()


def _split(x, sizes, dim=0):
    if isinstance(x, str):
        return x.split(sizes) if sizes is not None else x.split()
    return list(torch.split(x, sizes, dim))


def _listed(name):
    def call(*args, **kwargs):
        return list(getattr(torch, name)(*args, **kwargs))

    return call


def _log_sigmoid(x):
    from ....nn import functional as F

    return F.logsigmoid(x)


def _sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
          enable_gqa=False):
    from ....nn import functional as F

    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _im2col(x, kernel_size, dilation, padding, stride):
    from ....nn import functional as F

    return F.unfold(x, tuple(kernel_size), tuple(dilation), tuple(padding), tuple(stride))


def _col2im(x, output_size, kernel_size, dilation, padding, stride):
    from ....nn import functional as F

    sizes = (tuple(s) for s in (output_size, kernel_size, dilation, padding, stride))
    return F.fold(x, *sizes)


def _pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    return torch.nn.utils.rnn.pad_sequence(sequences, batch_first, padding_value, padding_side)


def _stft(x, n_fft, hop_length=None, win_length=None, window=None, *rest, **options):
    """Both overloads of ``aten::stft``: with ``center`` and how it pads, or of a signal that is padded already."""
    if "center" not in options and not (len(rest) > 1 and isinstance(rest[1], str)):
        options.update(zip(("normalized", "onesided", "return_complex", "align_to_window"), rest), center=False)
        rest = ()
    return torch.stft(x, n_fft, hop_length, win_length, window, *rest, **options)


def _manual_seed(seed):
    torch.manual_seed(seed)


def _type_as(x, other):
    return x.to(other.dtype)


def _is_first(x, *args):
    return x


ADAPTED: dict = {
    "view": _view,
    "tensor": _tensor, "as_tensor": _tensor, "to": _to, "slice": _slice, "select": _select,
    "index": _index, "index_put_": _index_put(True), "index_put": _index_put(False),
    "_convolution": _convolution, "_convolution_mode": _convolution_mode, **{f"conv{n}d": _conv(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d": _max_pool(n) for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": _max_pool_with_indices(n) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": _adaptive_max_pool(n) for n in (1, 2, 3)},
    "cross_entropy_loss": _loss("cross_entropy", "weight", "reduction", "ignore_index",
                                "label_smoothing"),
    "nll_loss": _loss("nll_loss", "weight", "reduction", "ignore_index"),
    "nll_loss_nd": _loss("nll_loss", "weight", "reduction", "ignore_index"),
    "nll_loss2d": _loss("nll_loss", "weight", "reduction", "ignore_index"),
    "mse_loss": _loss("mse_loss", "reduction"), "l1_loss": _loss("l1_loss", "reduction"),
    "smooth_l1_loss": _loss("smooth_l1_loss", "reduction", "beta"),
    "huber_loss": _loss("huber_loss", "reduction", "delta"),
    "binary_cross_entropy": _loss("binary_cross_entropy", "weight", "reduction"),
    "binary_cross_entropy_with_logits": _loss(
        "binary_cross_entropy_with_logits", "weight", "pos_weight", "reduction"),
    "soft_margin_loss": _loss("soft_margin_loss", "reduction"),
    "multilabel_margin_loss": _loss("multilabel_margin_loss", "reduction"),
    "multi_margin_loss": _loss("multi_margin_loss", "p", "margin", "weight", "reduction"),
    **{f"upsample_nearest{n}d": _upsample("nearest", n) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": _upsample("nearest-exact", n) for n in (1, 2, 3)},
    "upsample_linear1d": _upsample("linear", 1), "upsample_bilinear2d": _upsample("bilinear", 2),
    "upsample_bicubic2d": _upsample("bicubic", 2),
    "upsample_trilinear3d": _upsample("trilinear", 3), "__interpolate": _interpolate,
    "set_grad_enabled": _set_grad_enabled, "is_grad_enabled": lambda: torch.is_grad_enabled(),
    "embedding_bag": _embedding_bag, "_pack_padded_sequence": _pack_padded,
    "_pad_packed_sequence": _pad_packed,
    "_transformer_encoder_layer_fwd": lambda *args, **kwargs: torch._transformer_encoder_layer_fwd(*args, **kwargs),
    "_native_multi_head_attention": _multi_head_attention,
    **{f"reflection_pad{n}d": _pad("reflection_pad", "reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _pad("replication_pad", "replicate") for n in (1, 2, 3)},
    "size": _size, "stride": _stride, "sym_size": _size, "arange": _arange,
    "ScalarImplicit": _local_scalar, "IntImplicit": _number(int), "FloatImplicit": _number(float),
    "ComplexImplicit": _number(complex), "Complex": SCALAR["Complex"],
    "item": _local_scalar, "_local_scalar_dense": _local_scalar, "split": _split,
    "split_with_sizes": _split, **{n: _listed(n) for n in ("chunk", "unbind", "tensor_split")},
    "meshgrid": lambda ts, **k: list(torch.meshgrid(*ts, **k)),
    "broadcast_tensors": lambda *ts: list(
        torch.broadcast_tensors(*(ts[0] if type(ts[0]) in (list, tuple) else ts))
    ),
    "_nested_tensor_from_mask_left_aligned": lambda *_: False,  # then no nested tensor is made
    "_upsample_bilinear2d_aa": _upsample("bilinear", 2, True),
    "_upsample_bicubic2d_aa": _upsample("bicubic", 2, True),
    "tensordot": lambda a, b, dims_self, dims_other: torch.tensordot(a, b, dims=(dims_self, dims_other)),
    "block_diag": lambda *ts: torch.block_diag(*(ts[0] if type(ts[0]) in (list, tuple) else ts)),
    "promote_types": lambda a, b: code(torch.promote_types(_dtype(a), _dtype(b))),
    "can_cast": lambda a, b: torch.can_cast(_dtype(a), _dtype(b)), "result_type": lambda a, b: code(torch.result_type(a, b)),
    "pad_sequence": _pad_sequence, "stft": _stft,
    "log_sigmoid": _log_sigmoid, "scaled_dot_product_attention": _sdpa, "type_as": _type_as,
    **{f"{n}_": _inplace_activation(n) for n in ("gelu", "silu", "mish", "hardswish", "relu6",
                                                "hardsigmoid", "selu", "celu")},
    "manual_seed": _manual_seed, "is_scripting": lambda: True,
    "lift_fresh": _is_first, "_reshape_alias": lambda x, size, stride: x.reshape(size),
    "_unsafe_view": lambda x, size: x.view(size), "_to_copy": _to, "_shape_as_tensor":
    lambda x: torch.tensor(list(x.shape)), "_cast_Float": lambda x, *_: x.float(),
    "_cast_Long": lambda x, *_: x.long(), "backward": lambda x, *a, **k: torch.autograd.backward(x, *a, **k),
    "grad": lambda *a, **k: list(torch.autograd.grad(*a, **k)),
    "sym_numel": lambda x: x.numel(), "has_torch_function": lambda *_: False,
    "_log_softmax": lambda x, dim, half: torch.log_softmax(x, dim),
    "_softmax": lambda x, dim, half: torch.softmax(x, dim),
    "get_device": lambda x: x.get_device(), "_assert_tensor_metadata": lambda *a, **k: None,
    "is_autocast_enabled": lambda *_: torch.is_autocast_enabled(),
    "get_autocast_dtype": lambda kind: code(torch.get_autocast_dtype(kind)),
    "is_autocast_cpu_enabled": lambda *_: torch.is_autocast_enabled("cpu"), "im2col": _im2col, "col2im": _col2im,
    "_get_tracing_state": lambda: False, "numpy_T": lambda x: x.T, "matrix_H": lambda x: x.H,
    **{n: (lambda name: lambda x: getattr(x, name))(n) for n in ("mT", "mH")},
    "unique_consecutive": lambda *a, **k: torch.ops.aten.unique_consecutive(*a, **k),  # always with three results
    "unique_dim": lambda *a, **k: torch.ops.aten.unique_dim(*a, **k),
}
