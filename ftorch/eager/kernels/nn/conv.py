"""Convolutions and transposed convolutions in one, two and three dimensions."""

from __future__ import annotations

import jax.numpy as jnp

from ...core.registry import op
from ...core.user_warnings import warn_once
from .._common import dtype_name, is_complex, is_integral
from . import conv_cpu, conv_xla
from ._windows import ntuple, sizes

_DIMENSIONS = {1: ("width",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_CPP_NAMES = {
    "Float": "float", "Double": "double", "Half": "c10::Half", "BFloat16": "c10::BFloat16",
    "Long": "long int", "Int": "int", "Short": "short int", "Char": "signed char",
    "Byte": "unsigned char", "Bool": "bool", "ComplexFloat": "c10::complex<float>",
    "ComplexDouble": "c10::complex<double>",
}


# --- argument checks ---------------------------------------------------------------------


def _check_input(name, x, nd):
    if x.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(
            f"Expected {nd + 1}D (unbatched) or {nd + 2}D (batched) input to {name}, but got input "
            f"of size: {sizes(x.shape)}"
        )


def _check_dtypes(x, weight, bias, nd, transposed):
    kind = dtype_name(x.dtype)
    if x.dtype == jnp.bool_ or (transposed and is_integral(x) and x.dtype != jnp.int64):
        where = "slow_conv_transpose2d_out_cpu" if transposed else "slow_conv2d_cpu"
        where = where.replace("2d", "3d") if nd == 3 else where
        if transposed or x.dtype == weight.dtype:
            raise NotImplementedError(f"\"{where}\" not implemented for '{kind}'")
    if bias is not None and bias.dtype != x.dtype and not transposed and (weight.dtype != x.dtype or kind not in _ONEDNN):
        _refuse_pair("bias", _CPP_NAMES[kind], _CPP_NAMES[dtype_name(bias.dtype)])
    for name, other in (("weight", weight), ("bias", bias)):
        if other is None or other.dtype == x.dtype:
            continue
        found = dtype_name(other.dtype)
        if is_complex(x):
            _refuse_pair(name, f"CPU{kind}Type", f"torch.{found}Tensor")
        if kind == "BFloat16":
            more = f" or input should be a MKLDNN tensor and {name} is a dense tensor"
            _refuse_pair(name, f"CPU{kind}Type", f"torch.{found}Tensor", more)
        if name == "weight" or nd == 3:
            raise RuntimeError(f"expected scalar type {kind} but found {found}")


# The dtypes whose biases PyTorch compares where its library for them is called.
_ONEDNN = ("BFloat16", "ComplexFloat", "ComplexDouble")


def _refuse_pair(name, have, other, more=""):
    raise RuntimeError(f"Input type ({have}) and {name} type ({other}) should be the same{more}")


def _expand(name, value, n):
    """A window argument as ``n`` integers."""
    values = ntuple(value, n)
    if len(values) != n:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {n} values to match the "
            f"convolution dimensions, but got {name}={sizes(values)}"
        )
    return values


def _check_window(weight, stride, padding, output_padding, dilation, groups, transposed):
    """Checks in PyTorch's order; the channel checks come in `_check_channels`."""
    if any(p < 0 for p in padding):
        raise RuntimeError("negative padding is not supported")
    if any(p < 0 for p in output_padding):
        raise RuntimeError("negative output_padding is not supported")
    if any(s <= 0 for s in stride):
        raise RuntimeError("non-positive stride is not supported")
    if any(d < 0 for d in dilation):
        raise RuntimeError("dilation should be greater than zero")
    if groups <= 0:
        raise RuntimeError("non-positive groups is not supported")
    if weight.shape[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but "
            f"got weight of size {sizes(weight.shape)} instead"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
            f"but got weight of size [{sizes(weight.shape)}] instead"
        )
    if any(d == 0 for d in dilation):
        raise RuntimeError(f"dilation should be greater than zero, but got {sizes(dilation)}")
    if transposed and any(
        o >= max(s, d) for o, s, d in zip(output_padding, stride, dilation, strict=True)
    ):
        raise RuntimeError(_output_padding_message(output_padding, stride, dilation))


def _output_padding_message(output_padding, stride, dilation):
    named = {"output_padding": output_padding, "stride": stride, "dilation": dilation}
    if len(stride) == 1:  # PyTorch runs these as two-dimensional ones of height 1
        named = {n: (0 if n == "output_padding" else 1, *v) for n, v in named.items()}
    n = len(named["stride"])
    listed = " ".join(
        f"{name}_{d}: {v}"
        for name, values in named.items()
        for d, v in zip(_DIMENSIONS[n], values, strict=True)
    )
    return f"output padding must be smaller than either stride or dilation, but got {listed}"


def _check_channels(x, weight, bias, groups, transposed):
    wanted = weight.shape[0] if transposed else weight.shape[1] * groups
    outputs = weight.shape[1] * groups if transposed else weight.shape[0]
    given = f"Given {'transposed=1' if transposed else f'groups={groups}'}, weight of size"
    if x.shape[1] != wanted:
        raise RuntimeError(
            f"{given} {sizes(weight.shape)}, expected input{sizes(x.shape)} to have {wanted} "
            f"channels, but got {x.shape[1]} channels instead"
        )
    if bias is not None and bias.shape != (outputs,):
        given = given if transposed else "Given weight of size"
        raise RuntimeError(
            f"{given} {sizes(weight.shape)}, expected bias to be 1-dimensional with {outputs} "
            f"elements, but got bias of size {sizes(bias.shape)} instead"
        )


def _check_extent(x, weight, pads, dilation):
    padded = [n + low + high for n, (low, high) in zip(x.shape[2:], pads, strict=True)]
    kernel = [d * (k - 1) + 1 for k, d in zip(weight.shape[2:], dilation, strict=True)]
    if any(k > n for k, n in zip(kernel, padded, strict=True)):
        given, wanted = (" x ".join(map(str, v)) for v in (padded, kernel))
        raise RuntimeError(
            f"Calculated padded input size per channel: ({given}). Kernel size: ({wanted}). "
            "Kernel size can't be greater than actual input size"
        )


def _check_nonempty(x, weight):
    if 0 in x.shape[2:] and 0 not in x.shape[:2]:
        raise RuntimeError(
            "Only zero batch or zero channel inputs are supported, but got input shape: "
            f"{sizes(x.shape)}"
        )
    if 0 in weight.shape[2:]:
        kernel = weight.shape[2:] if weight.ndim > 3 else (1, *weight.shape[2:])
        names = _DIMENSIONS[len(kernel)]
        listed = " ".join(f"kernel_{d}: {k}" for d, k in zip(names, kernel, strict=True))
        raise RuntimeError(f"kernel size should be greater than zero, but got {listed}")


# --- the computation ---------------------------------------------------------------------


def _is_empty(x, weight):
    return 0 in x.shape[:2] or 0 in weight.shape[:2]


def _convolve(x, weight, stride, pads, dilation, groups, routines):
    if not _is_empty(x, weight):
        return routines.convolve(x, weight, stride, pads, dilation, groups)
    extents = [
        (n + low + high - d * (k - 1) - 1) // step + 1
        for n, k, (low, high), step, d in zip(
            x.shape[2:], weight.shape[2:], pads, stride, dilation, strict=True
        )
    ]
    # PyTorch's result for an input without channels has no channels either.
    channels = weight.shape[0] if x.shape[1] else 0
    return jnp.zeros((x.shape[0], channels, *extents), x.dtype)


def _finish(y, bias, dtype, batched):
    if bias is not None and y.shape[1]:
        y = y + bias.astype(y.dtype).reshape(-1, *(1,) * (y.ndim - 2))
    y = y.astype(dtype)
    return y if batched else y[0]


def _conv(nd, routines, input, weight, bias, stride, padding, dilation, groups):
    name = f"conv{nd}d"
    _check_input(name, input, nd)
    batched = input.ndim == nd + 2
    x = input if batched else input[None]
    stride, dilation = ntuple(stride, nd), ntuple(dilation, nd)
    pads = _prepare(x, weight, bias, stride, padding, dilation, groups)
    y = None if _is_empty(x, weight) else routines.convolve_narrow(x, weight, bias, stride, pads, dilation, groups)
    if y is not None:
        return y if batched else y[0]
    y = _convolve(x, weight, stride, pads, dilation, groups, routines)
    return _finish(y, bias, input.dtype, batched)


def _prepare(x, weight, bias, stride, padding, dilation, groups):
    """Checks the arguments of a convolution; returns the padding before and after, by dimension."""
    if weight.ndim < 3:
        raise RuntimeError("weight should have at least three dimensions")
    nd = weight.ndim - 2  # PyTorch expands to the dimensions of the weight
    stride = _expand("stride", stride, nd)
    dilation = _expand("dilation", dilation, nd)
    if isinstance(padding, str):
        pads = _named_padding(padding, weight, stride, dilation)
        padding = (0,) * nd
    else:
        padding = _expand("padding", padding, nd)
        pads = [(p, p) for p in padding]
    _check_window(weight, stride, padding, (0,) * nd, dilation, groups, transposed=False)
    if x.ndim != weight.ndim:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight "
            f"{sizes(weight.shape)}, but got {x.ndim}-dimensional input of size {sizes(x.shape)} "
            "instead"
        )
    _check_channels(x, weight, bias, groups, transposed=False)
    _check_extent(x, weight, pads, dilation)
    _check_nonempty(x, weight)
    _check_dtypes(x, weight, bias, nd, transposed=False)
    return pads


def _named_padding(padding, weight, stride, dilation):
    if padding == "valid":
        return [(0, 0)] * len(stride)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(t % 2 for t in totals):
        warn_once(
            "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input "
            "be created"
        )
    return [(t // 2, t - t // 2) for t in totals]


def _conv_transpose(nd, routines, input, weight, bias, stride, padding, output_padding, groups,
                    dilation):
    _check_input(f"conv_transpose{nd}d", input, nd)
    batched = input.ndim == nd + 2
    x = input if batched else input[None]
    stride, padding, output_padding, dilation = (
        _expand(name, ntuple(value, nd), weight.ndim - 2)
        for name, value in (
            ("stride", stride), ("padding", padding), ("output_padding", output_padding),
            ("dilation", dilation),
        )
    )
    _check_window(weight, stride, padding, output_padding, dilation, groups, transposed=True)
    _check_channels(x, weight, bias, groups, transposed=True)
    _check_nonempty(x, weight)
    _check_dtypes(x, weight, bias, nd, transposed=True)
    spans = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    extents = [
        (n - 1) * s - 2 * p + span + o + 1
        for n, s, p, span, o in zip(
            x.shape[2:], stride, padding, spans, output_padding, strict=True
        )
    ]
    if any(e <= 0 for e in extents):
        one = [1] if nd == 1 else []  # computed in two dimensions
        given, calculated = (" x ".join(map(str, one + list(v))) for v in (x.shape[2:], extents))
        raise RuntimeError(
            f"Given input size per channel: ({given}). Calculated output size per channel: "
            f"({calculated}). Output size is too small"
        )
    if _is_empty(x, weight):
        y = jnp.zeros((x.shape[0], weight.shape[1] * groups, *extents), x.dtype)
    else:
        pads = [(-p, o - p) for p, o in zip(padding, output_padding, strict=True)]
        y = routines.convolve_transposed(x, weight, stride, pads, dilation, groups)
    return _finish(y, bias, input.dtype, batched)


_BOTH = {"public": ". nn.functional"}
_CONVOLUTION = {**_BOTH, "layout": "channels"}


def _declare(nd):
    head = f"Tensor input, Tensor weight, Tensor? bias=None, int[{nd}] stride=1"
    tail = f"int[{nd}] dilation=1, int groups=1) -> Tensor"
    schemas = (
        f"conv{nd}d({head}, int[{nd}] padding=0, {tail}",
        f'conv{nd}d.padding({head}, str padding="valid", {tail}',
    )
    for schema in schemas:

        @op(schema, **_CONVOLUTION)
        def conv(input, weight, bias, stride, padding, dilation, groups):
            return _conv(nd, conv_xla, input, weight, bias, stride, padding, dilation, groups)

        @conv.backend("cpu")
        def _(input, weight, bias, stride, padding, dilation, groups):
            return _conv(nd, conv_cpu, input, weight, bias, stride, padding, dilation, groups)

    @op(f"conv_transpose{nd}d{'.input' if nd > 1 else ''}({head}, int[{nd}] padding=0, "
        f"int[{nd}] output_padding=0, int groups=1, int[{nd}] dilation=1) -> Tensor",
        **_CONVOLUTION)
    def transpose(input, weight, bias, stride, padding, output_padding, groups, dilation):
        return _conv_transpose(
            nd, conv_xla, input, weight, bias, stride, padding, output_padding, groups, dilation
        )

    @transpose.backend("cpu")
    def _(input, weight, bias, stride, padding, output_padding, groups, dilation):
        return _conv_transpose(
            nd, conv_cpu, input, weight, bias, stride, padding, output_padding, groups, dilation
        )


for _nd in (1, 2, 3):
    _declare(_nd)


@op("conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor", **_BOTH)
def conv_tbc(self, weight, bias, pad):
    """Time-major convolution: (T, B, C) with (K, C, O)."""
    x, w = self.transpose(1, 2, 0), weight.transpose(2, 1, 0)
    y = _convolve(x, w, (1,), [(pad, pad)], (1,), 1, conv_xla)
    return _finish(y, bias, self.dtype, True).transpose(2, 0, 1)


_GENERAL = (
    "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
    "int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor"
)


def _general(routines):
    def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
                    groups):
        nd = weight.ndim - 2
        if transposed:
            return _conv_transpose(
                nd, routines, input, weight, bias, stride, padding, output_padding, groups,
                dilation,
            )
        return _conv(nd, routines, input, weight, bias, stride, padding, dilation, groups)

    return convolution


convolution = op(_GENERAL)(_general(conv_xla)).backend("cpu")(_general(conv_cpu))
