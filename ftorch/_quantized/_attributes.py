"""What a quantized tensor says about itself, copies, and comparisons."""

from __future__ import annotations

import functools
import operator

import numpy as np

from ..eager.core import api as torch
from ..eager.core import dtype as _dtype
from ..eager.core import formats
from ..eager.tensor import Tensor
from ..eager.tensor_api.jax_interop import dlpack
from ..eager.tensor_api.legacy_types import cpp_name
from . import _creation
from . import _quantizer as q
from ._tensor import (
    QuantizedTensor,
    adopt,
    build,
    integers,
    not_run,
    quantized,
    quantized_op,
    real,
    with_integers,
)


@quantized_op()
def dequantize(input=None, *, tensors=None):
    return _creation.dequantize(input if tensors is None else tensors)


quantized_op()(dlpack)  # which refuses


@quantized_op()
def int_repr(input):
    """The integers, in new memory (bytes of packed ones, in one dimension) that is in order, or has the channels last."""
    ints = input._ints
    for dims, form in ((4, formats.channels_last), (5, formats.channels_last_3d)):
        if ints.dim() == dims and ints.is_contiguous(memory_format=form):
            return ints.clone()
    return ints.clone(memory_format=formats.contiguous_format)


def _expect(value, text):
    if not value:
        raise RuntimeError(
            f"Expected {text} to be true, but got false.  (Could this error message be improved?  If so, "
            "please report an enhancement request to PyTorch.)"
        )


def affine(input):
    _expect(isinstance(input._quantizer, q.PerTensor), "quantizer->qscheme() == kPerTensorAffine")
    return input._quantizer


def _channels(input):
    _expect(
        isinstance(input._quantizer, q.PerChannel),
        "quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == kPerChannelAffineFloatQParams",
    )
    return input._quantizer


quantized_op("q_scale")(lambda input: affine(input).scale)
quantized_op("q_zero_point")(lambda input: affine(input).zero_point)
quantized_op("q_per_channel_scales")(lambda input: _channels(input).scales)
quantized_op("q_per_channel_zero_points")(lambda input: _channels(input).zero_points)
quantized_op("q_per_channel_axis")(lambda input: _channels(input).axis)
quantized_op("qscheme")(lambda input: input._quantizer.scheme)


@quantized_op()
def is_signed(input):
    raise RuntimeError("isSignedType not supported for quantized types")


@quantized_op("storage", "_typed_storage")
def storage(input):
    from ..eager.tensor_api.storages import TypedStorage

    return TypedStorage(wrap_storage=input._ints.untyped_storage(), dtype=input.dtype, _internal=True)


@quantized_op()
def item(input):
    if input.numel() != 1:
        raise RuntimeError(f"a Tensor with {input.numel()} elements cannot be converted to Scalar")
    return real(input).item()


quantized_op("__float__")(lambda input: float(item(input)))
quantized_op("__int__")(lambda input: int(item(input)))


@quantized_op()
def tolist(input):
    raise RuntimeError("load_scalar: invalid type")


QuantizedTensor.tolist = tolist  # type: ignore[attr-defined]


@quantized_op("numpy", "__array__")
def numpy(input, *args, **kwargs):
    raise TypeError(f"Got unsupported ScalarType {input.dtype.scalar_name}")


@quantized_op("type", "type_")
def type_(input, dtype=None, non_blocking=False, **kwargs):
    if dtype is None:
        return f"torch.quantized.{input.dtype.scalar_name}Tensor"
    return to(input, dtype)


@quantized_op()
def to(input, *args, **kwargs):
    """Another device or memory; other dtypes are refused: `dequantize` makes numbers."""
    dtype, others = kwargs.pop("dtype", None), []
    for a in args:
        if isinstance(a, _dtype.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            dtype = a.dtype
        else:
            others.append(a)
    if dtype is not None and dtype is not input.dtype:
        if dtype not in q.INTEGERS:
            raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")
        _expect(False, "self.scalar_type() == src.scalar_type()")
    if not others and not kwargs:
        return input
    moved = input._ints.to(*others, **kwargs)
    if moved is input._ints:
        return input
    return build(moved, input._quantizer, input.dtype, input.shape)


def _refused(input, *args, **kwargs):
    raise RuntimeError("Creation of quantized tensor requires quantized dtype like torch.quint8")


quantized_op(*"float half double bfloat16 int long short char byte bool cfloat cdouble".split())(_refused)
quantized_op("type_as")(lambda input, other: to(input, other.dtype))
quantized_op("cpu")(lambda input, memory_format=None: to(input, "cpu"))
quantized_op("cuda")(lambda input, device=None, non_blocking=False, memory_format=None: to(
    input, "cuda" if device is None else device))


def _expect_integral(input):
    if isinstance(input._quantizer, q.PerChannel) and input._quantizer.floating:
        raise RuntimeError("Unsupported qscheme: per_channel_affine_float_qparams")


@quantized_op()
def empty_like(input, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False,
               memory_format=None):
    if dtype is not None and dtype is not input.dtype:
        raise RuntimeError(
            "It is currently not supported to specify a dtype that doesn't match the input tensor's dtype via "
            f"empty_like.  Specified: {cpp_name(dtype)} Input tensor's dtype: {cpp_name(input.dtype)}"
        )
    _expect_integral(input)
    if input.dtype in q.PER_BYTE:
        return build(torch.empty_like(input._ints), input._quantizer, input.dtype, input.shape)
    return build(torch.empty_like(input._ints, memory_format=memory_format), input._quantizer.copy())


@quantized_op("new")
def _new(input, *args, **kwargs):
    raise RuntimeError(
        "new(): expected key in DispatchKeySet(CPU, CUDA, HIP, XLA, MPS, IPU, XPU, HPU, Lazy, PrivateUse1, Meta) "
        "but got: QuantizedCPU"
    )


@quantized_op()
def ones_like(input, **kwargs):
    return fill_(empty_like(input), 1.0)


@quantized_op()
def full_like(input, fill_value, **kwargs):
    return fill_(empty_like(input), fill_value)


@quantized_op("zeros_like", "new_zeros")
def _zeros(input, *args, **kwargs):
    _expect_integral(input)
    raise not_run("zero_")


@quantized_op("__contains__")
def _contains(input, element):
    return bool(torch.eq(real(input), real(element)).any())


@quantized_op()
def set_(input, source=None, storage_offset=0, size=None, stride=None):
    if not isinstance(source, QuantizedTensor):
        raise RuntimeError("a quantized tensor can only take the memory of another one")
    return adopt(input, source)


# `data`, and what modules do to parameters
def _data(input):
    return build(input._ints, input._quantizer, input.dtype, input.shape)


quantized_op("data")(_data)
QuantizedTensor.data = property(_data, lambda self, other: adopt(self, other) and None)  # type: ignore[attr-defined]


# --- writing -------------------------------------------------------------------------


@quantized_op()
def copy_(self, src, non_blocking=False):
    """Takes a quantized tensor's integers and quantizer, or numbers, which it quantizes."""
    if not isinstance(self, QuantizedTensor):
        raise RuntimeError(
            "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize "
            "to get a float Tensor from a quantized Tensor"
        )
    if isinstance(src, QuantizedTensor):
        _expect(self.dtype is src.dtype, "self.scalar_type() == src.scalar_type()")
        if self._quantizer.scheme is not src._quantizer.scheme:
            raise RuntimeError("Quantized Copy only works with same qscheme")
        self._quantizer = src._quantizer
        self._ints.copy_(src._ints)
        return self
    if src.dtype is not _dtype.float32:
        raise RuntimeError("Quantized copy only works with kFloat as source Tensor")
    if src.shape != self.shape:
        src = src.expand(self.shape)
    self._ints.copy_(_ints_of(self, src))
    return self


def _ints_of(t, x):
    if isinstance(t._quantizer, q.PerChannel) and t._quantizer.floating:
        raise RuntimeError("expected scalar type Long but found Float")
    ints = t._quantizer.quantized(x, t.dtype)
    return q.pack(ints, t.dtype) if t.dtype in q.PER_BYTE else ints


@quantized_op()
def fill_(self, value):
    """Every element becomes the quantized value."""
    value = real(value) if isinstance(value, Tensor) else value
    x = torch.full(self.shape, float(value), dtype=_dtype.float32, device=self.device)
    self._ints.copy_(_ints_of(self, x))
    return self


def _values_for(t, value):
    """The integers that a tensor or number is to be written as."""
    if isinstance(value, QuantizedTensor):
        value = real(value)
    if not isinstance(value, Tensor):
        value = torch.tensor(float(value), dtype=_dtype.float32)
    if not isinstance(t._quantizer, q.PerTensor):
        raise RuntimeError("Setting values by index is possible only on per tensor quantized tensors")
    return t._quantizer.quantized(value.to(_dtype.float32), t.dtype)


def _is_part(index):
    return all(each is Ellipsis or isinstance(each, (slice, int)) and not isinstance(each, bool)
               for each in (index if isinstance(index, tuple) else (index,)))


@quantized_op("__setitem__")
def setitem(self, index, value):
    if not isinstance(self._quantizer, q.PerChannel) or not _is_part(index):
        self._ints[index] = _values_for(self, value)
        return
    part = self[index]
    if not isinstance(value, QuantizedTensor):
        ints = part._ints
        if not (ints.is_contiguous() or ints.dim() == 4 and ints.is_contiguous(memory_format=torch.channels_last)):
            raise RuntimeError("Quantized copy only works with contiguous and NHWC Tensors")
        value = value if isinstance(value, Tensor) else torch.tensor(float(value))
        value = value.to(_dtype.float32)
    copy_(part, value)


@quantized_op()
def index_put_(self, indices, values, accumulate=False):
    if isinstance(values, QuantizedTensor):
        raise RuntimeError("Value argument for quantized input_put should not be quantized")
    self._ints.index_put_(indices, _values_for(self, values))
    return self


@quantized_op()
def index_put(input, indices, values, accumulate=False):
    return index_put_(input.clone(), indices, values, accumulate)


@quantized_op()
def masked_fill_(self, mask, value):
    if not isinstance(self._quantizer, q.PerTensor):
        raise RuntimeError("masked_fill__quantized_cpu for quantized tensors is currently only supported for per tensor "
                           "quantized tensors")
    self._ints.masked_fill_(mask, int(_values_for(self, value)))
    return self


@quantized_op()
def masked_fill(input, mask, value):
    return masked_fill_(input.clone(), mask, value)


# --- comparisons, order --------------------------------------------------------------


def _comparison(name):
    def compare(input, other):
        return getattr(torch, name)(real(input), real(other) if isinstance(other, Tensor) else other)

    quantized_op(name, f"__{name}__")(compare)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _comparison(_name)
QuantizedTensor.__eq__ = lambda self, other: (  # type: ignore[method-assign]
    torch.eq(self, other) if isinstance(other, (Tensor, int, float)) else NotImplemented
)


@quantized_op()
def equal(input, other):
    """Whether two quantized tensors have the same dtype, size, quantizer and integers."""
    if not isinstance(other, QuantizedTensor) or not isinstance(input, QuantizedTensor):
        raise RuntimeError("Expected all tensors to be quantized")
    return (input.dtype is other.dtype and input.shape == other.shape
            and input._quantizer == other._quantizer and torch.equal(input._ints, other._ints))


@quantized_op("isclose", "allclose")
def isclose(input, other, *args, **kwargs):
    raise RuntimeError("isclose is not supported for quantized inputs.")


def _ordering(name, results):
    def ordered(input, *args, **kwargs):
        if name in ("max", "min") and not isinstance(input._quantizer, q.PerTensor):
            raise RuntimeError(
                f"{name.capitalize()} operator for quantized tensors only works for per tensor quantized tensors. Please "
                "open an issue on https://github.com/pytorch/pytorch/issues if you need per channel quantized tensor support."
            )
        if name == "topk" and not isinstance(input._quantizer, q.PerTensor):
            raise RuntimeError("Top-K is only supported on per-tensor quantization")
        affine(input)
        found = getattr(torch, name)(integers(input), *args, **kwargs)
        if isinstance(found, Tensor):
            return with_integers(input, found) if results else found
        return type(found)((with_integers(input, found[0]), found[1]))

    quantized_op(name)(ordered)


for _name in ("max", "min", "sort", "topk"):
    _ordering(_name, True)
_ordering("argsort", False)


def _statistic(name):
    def reduced(input, *args, **kwargs):
        affine(input)
        return quantized(getattr(torch, name)(real(input), *args, **kwargs), input._quantizer, input.dtype)

    quantized_op(name)(reduced)


_statistic("std")


_ONE_BY_ONE = 64  # elements of a sum that are added in the order of PyTorch's kernel


def _ends_with(dims, rank) -> bool:
    """Whether dimensions are the innermost ones."""
    taken = {d % rank for d in dims}
    return taken == set(range(rank - len(taken), rank))


@quantized_op("mean")
def mean(input, dim=None, keepdim=False, *, dtype=None, out=None):
    affine(input)
    dims = tuple(range(input.dim())) if dim is None or dim == () or dim == [] else dim
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    if dtype is None and input.dim() and input.is_contiguous() and (
            _ends_with(dims, input.dim())):
        # PyTorch averages the integers of innermost dimensions, half to even; elsewhere it averages their values.
        average = integers(input).double().mean(dims, keepdim).round()
        return with_integers(input, average.to(integers(input).dtype))
    values = real(input)
    count = int(np.prod([input.shape[d] for d in dims]))
    if not 0 < count <= _ONE_BY_ONE:
        return quantized(torch.mean(values, dims, keepdim), input._quantizer, input.dtype)
    # Averages of few integers are often in the middle between two: the order of the sum decides.
    rows = values.movedim(dims, tuple(range(len(dims)))).flatten(0, len(dims) - 1).unbind()
    total = functools.reduce(operator.add, rows) / count
    for d in sorted(d % input.dim() for d in dims) if keepdim else ():
        total = total.unsqueeze(d)
    return quantized(total, input._quantizer, input.dtype)


def number(x) -> float:
    """A number or a tensor of one as a Python float."""
    return float(np.float32(x.item() if isinstance(x, Tensor) else x))
