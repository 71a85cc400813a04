"""Moving elements of tensors with a scale for each channel, joining tensors, padding."""

from __future__ import annotations

import warnings

from ..eager.core import api as torch
from ..eager.core import determinism
from . import _quantizer as q
from ._tensor import (
    QuantizedTensor,
    adopt,
    build,
    integers,
    per_tensor,
    quantized_op,
    real,
    with_integers,
)

# Other sizes of the same elements in the same order; whatever else moves elements needs one scale.
_RESHAPING = frozenset("view reshape flatten unflatten view_as reshape_as ravel unsqueeze squeeze alias channel_shuffle "
                       "pixel_shuffle pixel_unshuffle max_pool2d".split())


def _part(quantizer, dim, start, end, step, drops):
    """The quantizer of a slice of a dimension, or of one index of it (``drops``)."""
    scales, zeros, axis = quantizer.scales, quantizer.zero_points, quantizer.axis
    if quantizer.floating and not (drops and dim == axis):
        raise RuntimeError("Setting strides is possible only on uniformly or per channel quantized tensors")
    if dim == axis:
        scales, zeros = scales[start:end:step].contiguous(), zeros[start:end:step].contiguous()
        if scales.numel() == 1:
            return q.PerTensor(scales.item(), zeros.item())
    return q.PerChannel(scales, zeros, axis - (drops and dim < axis))


def per_channel_moved(func, name, t, args, kwargs):
    """What `moved` does for tensors with a scale for each channel: slices, and other sizes of one."""
    quantizer = t._quantizer
    if name == "__getitem__":
        return _indexed(t, args[1])
    if name in ("select", "narrow", "slice", "unbind"):
        return _sliced(name, t, args[1:], kwargs)
    if name in ("split", "chunk", "tensor_split", "unsafe_split", "unsafe_chunk", "hsplit", "vsplit", "dsplit"):
        return _cut(t, func(*args, **kwargs))
    if name == "index_select":
        per_tensor(t, name)
    if quantizer.floating and name in ("flip", "fliplr", "flipud", "rot90"):
        raise RuntimeError("Unsupported qscheme: per_channel_affine_float_qparams")
    if name not in _RESHAPING:
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    out = func(*args, **kwargs)
    if name == "unsqueeze":
        dim = args[1] if len(args) > 1 else kwargs["dim"]
        dim %= t.dim() + 1
        return build(
            out, q.PerChannel(quantizer.scales, quantizer.zero_points, quantizer.axis + (dim <= quantizer.axis))
        )
    if name == "squeeze":
        return build(out, q.PerChannel(quantizer.scales, quantizer.zero_points, _squeezed_axis(t, args[1:], kwargs)))
    return build(out, quantizer)  # whether the scales still fit is asked when numbers are


def _cut(t, parts):
    """Parts of the integers along one dimension, each with the quantizer of its channels."""
    places = [p.storage_offset() - t._ints.storage_offset() for p in parts]
    dim = next((d for d in range(t.dim()) if any(p.shape[d] != t.shape[d] for p in parts)), 0)
    starts = [at // t.stride()[dim] for at in places]
    return tuple(_piece(t, dim, start, start + p.shape[dim], 1) for start, p in zip(starts, parts))


def _squeezed_axis(t, args, kwargs):
    """The dimension of the channels when dimensions of size one are gone."""
    dims = args[0] if args else kwargs.get("dim")
    dims = range(t.dim()) if dims is None else (dims,) if isinstance(dims, int) else dims
    gone = [d % t.dim() for d in dims if t.shape[d] == 1]
    axis = t._quantizer.axis
    if axis in gone:
        raise RuntimeError("Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors.")
    return axis - sum(d < axis for d in gone)


def _indexed(t, index):
    index = index if isinstance(index, tuple) else (index,)
    dim = 0
    for i, each in enumerate(index):
        if each is Ellipsis:
            dim += t.dim() - dim - sum(each is not None for each in index[i + 1 :])
            continue
        if isinstance(each, slice):
            start, stop, step = each.indices(t.shape[dim])
            if (start, stop, step) != (0, t.shape[dim], 1):
                t = _piece(t, dim, start, max(stop, start), step)
            dim += 1
        elif isinstance(each, int) and not isinstance(each, bool):
            t = _one(t, dim, each)
        elif each is None:
            t = t.unsqueeze(dim)
            dim += 1
        else:
            raise RuntimeError("Only per_tensor quantized quantized tensors are supported by index.")
        if not isinstance(t._quantizer, q.PerChannel):
            return t[(slice(None),) * dim + index[i + 1 :]]
    return t


def _piece(t, dim, start, stop, step):
    cut = (slice(None),) * dim + (slice(start, stop, step),)
    quantizer = t._quantizer
    if isinstance(quantizer, q.PerChannel):
        quantizer = _part(quantizer, dim, start, stop, step, False)
    return build(t._ints[cut], quantizer)


def _one(t, dim, index):
    quantizer = t._quantizer
    if isinstance(quantizer, q.PerChannel):
        at = index % t.shape[dim]
        quantizer = _part(quantizer, dim, at, at + 1, 1, True)
    return build(t._ints.select(dim, index), quantizer)


def _sliced(name, t, args, kwargs):
    if name == "select":
        dim, index = (*args, *(kwargs[k] for k in ("dim", "index")[len(args) :]))
        return _one(t, dim % t.dim(), index)
    if name == "unbind":
        dim = (args[0] if args else kwargs.get("dim", 0)) % t.dim()
        return tuple(_one(t, dim, i) for i in range(t.shape[dim]))
    if name == "narrow":
        dim, start, length = (*args, *(kwargs[k] for k in ("dim", "start", "length")[len(args) :]))
        start %= max(t.shape[dim], 1)
        return _piece(t, dim % t.dim(), start, start + length, 1)
    dim, start, end, step = (*args, *((0, None, None, 1)[len(args) :]))
    start, end, step = slice(start, end, step).indices(t.shape[dim])
    return _piece(t, dim % t.dim(), start, end, step)


def _in_place(name):
    def change(self, *args, **kwargs):
        return adopt(self, getattr(self, name)(*args, **kwargs))

    change.__name__ = f"{name}_"
    setattr(QuantizedTensor, f"{name}_", quantized_op(f"{name}_")(change))


for _name in ("t", "transpose", "squeeze", "unsqueeze"):
    _in_place(_name)


@quantized_op()
def resize_(self, *size, memory_format=None):
    """Another size, in place; as many elements as fit stay as they are."""
    if not isinstance(self._quantizer, q.PerTensor):
        raise RuntimeError("Can only resize quantized tensors with per-tensor schemes!")
    if (text := determinism.alert_now("quantized_resize_cpu_")) is not None:
        warnings.warn(text, stacklevel=3)
    self._ints.resize_(*size)
    return adopt(self, build(self._ints, self._quantizer, self.dtype))


@quantized_op()
def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    """Each element several times."""
    if not isinstance(input._quantizer, q.PerTensor):
        raise RuntimeError("Setting strides is possible only on uniformly quantized tensor")
    return with_integers(input, torch.repeat_interleave(integers(input), repeats, dim, output_size=output_size))


# --- joining -------------------------------------------------------------------------


def _joinable(t):
    if not isinstance(t._quantizer, q.PerTensor):
        raise RuntimeError("Only per-tensor quantization is supported in 'cat'!")
    return t._quantizer


def cat_as(tensors, dim, scale, zero_point, relu=False):
    """Tensors joined in a common quantizer; those that have it already keep their integers."""
    for t in tensors:
        _joinable(t)
    target = q.PerTensor(scale, zero_point)
    dtype = tensors[0].dtype
    parts = []
    for t in tensors:
        if t.dtype is not dtype:
            raise RuntimeError("All dtypes must be the same.")
        if t._quantizer == target:
            part = integers(t)
            parts.append(torch.clamp(part, min=target.zero_point) if relu else part)
        else:
            x = real(t)
            parts.append(target.quantized(torch.relu(x) if relu else x, dtype))
    return build(torch.cat(parts, dim), target)


@quantized_op("cat", "concat", "concatenate")
def cat(tensors, dim=0, *, out=None):
    """Tensors one after the other, in the quantizer of the first."""
    first = next(t for t in tensors if isinstance(t, QuantizedTensor))
    quantizer = _joinable(first)
    joined = cat_as(list(tensors), dim, quantizer.scale, quantizer.zero_point)
    return joined if out is None else out.copy_(joined)


@quantized_op()
def stack(tensors, dim=0, *, out=None):
    """Tensors along a new dimension, in the quantizer of the first."""
    joined = cat([t.unsqueeze(dim) for t in tensors], dim)
    return joined if out is None else out.copy_(joined)


@quantized_op("pad", "constant_pad_nd")
def pad(input, pad, mode="constant", value=None):
    """Padding by a quantized number, or by the tensor's own elements."""
    padding = torch.nn.functional.pad
    if mode != "constant":
        return build(padding(integers(input), pad, mode), input._quantizer)
    filling = q.PerTensor.quantized(
        per_tensor(input, "pad")._quantizer, torch.tensor(float(value or 0.0)), input.dtype
    )
    return build(padding(integers(input), pad, "constant", int(filling)), input._quantizer)
