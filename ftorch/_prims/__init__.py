"""The operators that PyTorch's references are made of (``torch._prims``, ``torch.ops.prims``).

Most are ATen's operators of the same or another name. Those defined here differ in their arguments: shapes and strides are
explicit, nothing is broadcast or promoted.

>>> import ftorch as torch
>>> torch.ops.prims.convert_element_type(torch.ones(2), torch.int32)
tensor([1, 1], dtype=torch.int32)
>>> torch._prims.broadcast_in_dim(torch.tensor([1, 2]), (2, 3), (0,))
tensor([[1, 1, 1],
        [2, 2, 2]])
"""

from __future__ import annotations

import enum
import math

import ftorch as torch

from .._prims_common import canonicalize_dims
from ..library import Library

prim = Library("prims", "FRAGMENT")


class RETURN_TYPE(enum.Enum):  # noqa: N801
    """What a primitive's result is to its arguments."""

    NEW = 0
    VIEW = 1
    INPLACE = 2
    NONE = 3


# ATen's names of PyTorch's primitives, where they differ.
_ATEN = {
    "bessel_i0": "i0", "bessel_i0e": "special_i0e", "bessel_i1": "special_i1", "bessel_i1e": "special_i1e",
    "bessel_j0": "special_bessel_j0", "bessel_j1": "special_bessel_j1", "erf_inv": "erfinv", "erfcx": "special_erfcx",
    "ndtri": "special_ndtri", "spherical_bessel_j0": "special_spherical_bessel_j0", "zeta": "special_zeta",
    "shift_left": "bitwise_left_shift", "shift_right_arithmetic": "bitwise_right_shift", "view_of": "alias",
}
_PLAIN = """
    abs acos acosh asin asinh atan atanh cos cosh bitwise_not ceil conj_physical digamma erf erfc exp expm1 exp2 fill floor
    imag isfinite lgamma log log1p log2 log10 neg real reciprocal round sign signbit sin sinh sqrt tan tanh trunc add
    atan2 bitwise_and bitwise_or bitwise_xor eq fmax fmin fmod frexp gcd ge gt hypot igamma igammac le lt maximum minimum mul ne
    nextafter pow remainder rsqrt sub conj cat where clone item scalar_tensor reshape as_strided_scatter empty_permuted
""".split()

_definitions: dict[str, str] = {}


def _primitive(schema: str):
    """Registers a primitive of a schema; the function's name is then its operator."""
    def define(function):
        name = function.__name__
        _definitions[name] = schema
        prim.define(f"{name}{schema}")
        prim.impl(name, function, "CompositeImplicitAutograd")
        return getattr(torch.ops.prims, name)

    return define


@_primitive("(Tensor a, Tensor b) -> Tensor")
def div(a, b):
    """The quotient; integers are divided towards zero."""
    exact = a.dtype.is_floating_point or a.dtype.is_complex
    return torch.div(a, b, rounding_mode=None if exact else "trunc")


@_primitive("(Tensor a) -> Tensor")
def cbrt(a):
    """The cubic root."""
    return a.sign() * a.abs().pow(1 / 3)


@_primitive("(Tensor a, Tensor b) -> Tensor")
def shift_right_logical(a, b):
    """The bits moved to the right; zeros come in from the left."""
    width = a.dtype.itemsize * 8
    mask = torch.where(b == 0, -1, (1 << (width - b).clamp(0, width - 1)) - 1)
    return torch.where(b >= width, 0, (a >> b) & mask).to(a.dtype)


@_primitive("(Tensor(a!) a, SymInt[] size, SymInt[] stride, SymInt storage_offset) -> Tensor(a!)")
def as_strided(a, size, stride, storage_offset):
    """A view by strides."""
    return a.as_strided(size, stride, storage_offset)


@_primitive("(Tensor(a) a, SymInt[] shape, int[] broadcast_dimensions) -> Tensor(a)")
def broadcast_in_dim(a, shape, broadcast_dimensions):
    """A view in a larger shape: dimension i of the tensor becomes ``broadcast_dimensions[i]``, the others are repeated."""
    at = dict(zip(broadcast_dimensions, range(a.dim())))
    for i in range(len(shape)):
        if i not in at:
            a = a.unsqueeze(i)
    return a.expand(shape)


@_primitive("(Tensor(a) a, int start, int end) -> Tensor(a)")
def collapse_view(a, start, end):
    """A view with the dimensions from ``start`` to ``end``, both included, as one."""
    return a.view(*a.shape[:start], math.prod(a.shape[start:end + 1]), *a.shape[end + 1:])


@_primitive("(Tensor a, int start, int end) -> Tensor")
def collapse(a, start, end):
    """A copy with the dimensions from ``start`` to ``end``, both included, as one."""
    return a.reshape(*a.shape[:start], math.prod(a.shape[start:end + 1]), *a.shape[end + 1:]).clone()


@_primitive("(Tensor(a) a, int dim, SymInt outer_length) -> Tensor(a)")
def split_dim(a, dim, outer_length):
    """A view with a dimension as two, the first of which has a length that is given.

    Raises:
        ValueError: the length does not divide it.
    """
    if a.shape[dim] % outer_length:
        raise ValueError(
            f"Attempting to split dimension of length {a.shape[dim]}, but outer length of {outer_length} divides it with a "
            "remainder!"
        )
    return a.view(*a.shape[:dim], outer_length, a.shape[dim] // outer_length, *a.shape[dim + 1:])


@_primitive("(Tensor(a) a, int[] permutation) -> Tensor(a)")
def transpose(a, permutation):
    """A view with its dimensions in another order."""
    return a.permute(permutation)


@_primitive("(Tensor(a) a, int[] dimensions) -> Tensor(a)")
def squeeze(a, dimensions):
    """A view without dimensions of length 1."""
    return a.squeeze(tuple(dimensions))


@_primitive("(Tensor a, int[] dims) -> Tensor")
def rev(a, dims):
    """A copy with dimensions turned round."""
    return a.flip(dims)


@_primitive("(Tensor(a) a, ScalarType dtype) -> Tensor(a)")
def view_element_type(a, dtype):
    """A view of the bytes as another dtype."""
    return a.view(dtype)


@_primitive("(Tensor a, ScalarType dtype) -> Tensor")
def convert_element_type(a, dtype):
    """A copy in another dtype; of the same dtype, too."""
    return a.to(dtype, copy=True)


@_primitive("(Tensor a, Device device, bool non_blocking=False) -> Tensor")
def device_put(a, device, non_blocking=False):
    """The tensor on a device."""
    return a.to(device, non_blocking=non_blocking)


@_primitive("(Tensor a, SymInt[] stride) -> Tensor")
def copy_strided(a, stride):
    """A copy with strides that are given."""
    return torch.empty_strided(a.shape, stride, dtype=a.dtype, device=a.device).copy_(a)


@_primitive("(Tensor(a!) a, Tensor b) -> Tensor(a!)")
def copy_to(a, b):
    """Writes a tensor into another."""
    return a.copy_(b)


@_primitive("(Tensor(a!) a, SymInt[] shape) -> Tensor(a!)")
def resize(a, shape):
    """Gives a tensor another shape."""
    return a.resize_(shape)


def _reduction(name, function):
    def reduce(inp, dims, *, output_dtype=None):
        found = function(inp, list(range(inp.dim())) if dims is None else list(dims))
        return found if output_dtype is None else found.to(output_dtype)

    reduce.__name__ = name
    return _primitive("(Tensor inp, int[]? dims, *, ScalarType? output_dtype=None) -> Tensor")(reduce)


def _one_by_one(step):
    def reduce(a, dims):
        for dim in sorted(dims, reverse=True):
            a = step(a, dim)
        return a

    return reduce


def _xor(a, dim):
    found = torch.zeros_like(a.select(dim, 0)) if a.shape[dim] else a.sum(dim, dtype=a.dtype)
    for part in a.unbind(dim):
        found = found ^ part
    return found


amax = _reduction("amax", torch.amax)
amin = _reduction("amin", torch.amin)
prod = _reduction("prod", _one_by_one(torch.prod))
sum = _reduction("sum", torch.sum)  # noqa: A001
xor_sum = _reduction("xor_sum", _one_by_one(_xor))


@_primitive("(Tensor inp, int[]? dims, float? correction=1, *, ScalarType? output_dtype=None) -> Tensor")
def var(inp, dims, correction=1, *, output_dtype=None):
    """The variance."""
    found = torch.var(inp, dims, correction=correction)
    return found if output_dtype is None else found.to(output_dtype)


@_primitive("(SymInt length, *, SymInt start, SymInt step, ScalarType dtype, Device device, bool requires_grad) -> Tensor")
def iota(length, *, start, step, dtype, device, requires_grad):
    """``length`` numbers from a start on."""
    made = torch.arange(length, dtype=dtype, device=device) * step + start
    return made.requires_grad_(requires_grad)


@_primitive("(SymInt[] shape, SymInt[] strides, *, ScalarType dtype, Device device, bool requires_grad) -> Tensor")
def empty_strided(shape, strides, *, dtype, device, requires_grad):
    """A tensor by strides, with any values."""
    return torch.empty_strided(shape, strides, dtype=dtype, device=device, requires_grad=requires_grad)


@_primitive("(Tensor A, *, bool full_matrices) -> (Tensor U, Tensor S, Tensor Vh)")
def svd(A, *, full_matrices):  # noqa: N803
    """The singular values and vectors."""
    return tuple(torch.linalg.svd(A, full_matrices=full_matrices))


@_primitive("(SymInt[] shape, *, Scalar mean, Scalar std, ScalarType dtype, Device device, bool requires_grad, "
            "Generator? generator=None) -> Tensor")
def normal(shape, *, mean, std, dtype, device, requires_grad, generator=None):
    """Random numbers of a normal distribution."""
    made = torch.empty(shape, dtype=dtype, device=device).normal_(mean, std, generator=generator)
    return made.requires_grad_(requires_grad)


@_primitive("(SymInt[] shape, *, Scalar low, Scalar high, ScalarType dtype, Device device, SymInt[] stride, "
            "Generator? generator=None) -> Tensor")
def _uniform_helper(shape, *, low, high, dtype, device, stride, generator=None):
    """Random numbers of a uniform distribution, by strides."""
    return torch.empty_strided(shape, stride, dtype=dtype, device=device).uniform_(low, high, generator=generator)


@_primitive("(Tensor self, *, int[] dim, bool onesided) -> Tensor")
def fft_r2c(self, *, dim, onesided):
    """The Fourier transform of real numbers, without a factor."""
    return torch.ops.aten._fft_r2c(self, dim, 0, onesided)


@_primitive("(Tensor self, *, int[] dim, bool forward) -> Tensor")
def fft_c2c(self, *, dim, forward):
    """The Fourier transform of complex numbers or its inverse, without a factor."""
    return torch.ops.aten._fft_c2c(self, dim, 0, forward)


@_primitive("(Tensor self, *, int[] dim, SymInt last_dim_size) -> Tensor")
def fft_c2r(self, *, dim, last_dim_size):
    """The inverse Fourier transform with real results, without a factor."""
    return torch.ops.aten._fft_c2r(self, dim, 0, last_dim_size)


@_primitive("() -> Tensor")
def _make_token():
    """Something that orders effects: an empty tensor."""
    return torch.empty(0)


@_primitive("(Tensor[] tokens) -> ()")
def _sink_tokens(tokens):
    """Ends the order of effects."""


def expand_dims(a, dimensions, ndim=None):
    """A view with dimensions of length 1 at the places that they have in the result; places that the tensor has, too."""
    for dim in sorted(canonicalize_dims(a.dim() if ndim is None else ndim, dimensions)):
        a = a.unsqueeze(dim)
    return a


def maximum_value(dtype):
    """The largest finite value of a dtype.

    >>> import ftorch as torch
    >>> torch._prims.maximum_value(torch.int8), torch._prims.minimum_value(torch.float16)
    (127, -65504.0)
    """
    if dtype == torch.bool:
        return True
    return (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).max


def minimum_value(dtype):
    """The smallest finite value of a dtype."""
    if dtype == torch.bool:
        return False
    return (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).min


def __getattr__(name: str):
    if name in _PLAIN or name in _ATEN:
        return getattr(torch.ops.aten, _ATEN.get(name, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = sorted({*_definitions, *_PLAIN, *_ATEN, "RETURN_TYPE", "expand_dims", "maximum_value", "minimum_value"})
