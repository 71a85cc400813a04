"""What references of operators ask of shapes and types (``torch._prims_common``)."""

from __future__ import annotations

import operator
from functools import reduce

from .eager.core import dtype as _dtype
from .eager.core import formats as _formats
from .eager.tensor import Tensor

Number = (bool, int, float, complex)
ShapeType = (tuple, list)
TensorLike = TensorLikeType = Tensor


def is_contiguous(a) -> bool:
    """Whether a tensor's elements lie in the order of its indices."""
    return a.is_contiguous()


is_contiguous_or_false = is_contiguous


def is_contiguous_for_memory_format(a, *, memory_format) -> bool:
    """Whether its elements lie in a memory format's order."""
    return a.is_contiguous(memory_format=memory_format)


def is_channels_last_contiguous_2d(a) -> bool:
    """Whether an image batch's channels lie innermost."""
    from .eager.core.formats import channels_last

    return a.dim() == 4 and a.is_contiguous(memory_format=channels_last)


def make_contiguous_strides_for(shape, row_major=True) -> tuple:
    """The strides of a contiguous tensor of a shape.

    >>> make_contiguous_strides_for((2, 3, 4))
    (12, 4, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    result = tuple(reversed(strides))
    if row_major or len(shape) < 2:
        return result
    return (*result[:-2], 1, max(shape[-2], 1))


def canonicalize_dim(rank: int, idx: int, wrap_scalar: bool = True) -> int:
    """A dimension counted from the front.

    Raises:
        IndexError: there is none.
    """
    if rank == 0 and wrap_scalar:
        rank = 1
    if not -rank <= idx < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {idx})"
        )
    return idx % rank


def canonicalize_dims(rank: int, indices, wrap_scalar: bool = True):
    """One dimension or several, counted from the front."""
    if isinstance(indices, int):
        return canonicalize_dim(rank, indices, wrap_scalar)
    return tuple(canonicalize_dim(rank, i, wrap_scalar) for i in indices)


def is_valid_permutation(rank: int, perm) -> bool:
    """Whether every dimension is named once."""
    return sorted(perm) == list(range(rank))


def is_same_shape(a, b) -> bool:
    """Whether two shapes are equal."""
    return tuple(a) == tuple(b)


def is_cpu_scalar_tensor(a) -> bool:
    """Whether it is a tensor of no dimensions on the CPU."""
    return isinstance(a, Tensor) and a.ndim == 0 and a.device.type == "cpu"


def dtype_to_type(dtype) -> type:
    """Python's type of a dtype's numbers.

    >>> import ftorch as torch
    >>> dtype_to_type(torch.float16), dtype_to_type(torch.int8)
    (<class 'float'>, <class 'int'>)
    """
    if dtype is _dtype.bool:
        return bool
    if dtype.is_complex:
        return complex
    return float if dtype.is_floating_point else int


def type_to_dtype(typ: type):
    """The dtype of Python's numbers of a type."""
    if typ is bool:
        return _dtype.bool
    if typ is int:
        return _dtype.int64
    default = _dtype.get_default_dtype()
    return corresponding_complex_dtype(default) if typ is complex else default


def get_higher_dtype(a, b):
    """The dtype that both can be converted to (of tensors, numbers or dtypes)."""

    def of(x):
        if x is None or isinstance(x, _dtype.dtype):
            return x
        return x.dtype if isinstance(x, Tensor) else type_to_dtype(type(x))

    first, second = of(a), of(b)
    if first is None or second is None:
        return first or second
    return _dtype.promote_types(first, second)


_COMPLEX = {
    _dtype.float16: _dtype.complex32, _dtype.bfloat16: _dtype.complex64,
    _dtype.float32: _dtype.complex64, _dtype.float64: _dtype.complex128,
}
_REAL = {
    _dtype.complex32: _dtype.float16, _dtype.complex64: _dtype.float32, _dtype.complex128: _dtype.float64,
}


def corresponding_complex_dtype(dtype):
    """The complex dtype whose parts have a real one."""
    return _COMPLEX[dtype]


def corresponding_real_dtype(dtype):
    """The dtype of a complex one's parts."""
    return _REAL[dtype]


def is_boolean_dtype(dtype) -> bool:
    """Whether it is bool."""
    return dtype is _dtype.bool


def is_float_dtype(dtype) -> bool:
    """Whether it is a floating-point dtype."""
    return dtype.is_floating_point


def is_complex_dtype(dtype) -> bool:
    """Whether it is a complex dtype."""
    return dtype.is_complex


def is_integer_dtype(dtype) -> bool:
    """Whether it is a dtype of whole numbers; bool is not."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype is _dtype.bool)


def get_computation_dtype(dtype):
    """The dtype that a narrow one is computed in."""
    wider = {
        _dtype.bfloat16: _dtype.float32, _dtype.float16: _dtype.float32,
        _dtype.complex32: _dtype.complex64,
    }
    return wider.get(dtype, dtype)


def compute_elementwise_output_strides(*tensors) -> tuple:
    """The strides of the result of an elementwise call, which follows its operands' order."""
    from .eager.core import api as torch

    shape = torch.broadcast_shapes(*(t.shape for t in tensors))
    expanded = [t.expand(shape) for t in tensors]

    def key(dim):
        return [-t.stride(dim) for t in expanded], dim

    order = sorted(range(len(shape)), key=key)
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def prod(xs) -> int:
    """The product of some numbers."""
    return reduce(operator.mul, xs, 1)


def are_strides_like_channels_last(shape, strides) -> bool:
    """Whether strides order the dimensions of images, or of volumes, with the channels innermost.

    Gaps between elements are allowed; what the sizes leave open counts as not.
    """
    if len(shape) not in (4, 5) or strides[1] == 0 or 0 in shape:
        return False
    least = 0
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        if strides[d] < least or d == 0 and least == strides[1]:
            return False
        least = strides[d] * max(shape[d], 1)
    return True


def suggest_memory_format(x):
    """The memory format that results computed from a tensor have: channels last where its strides are.

    >>> import ftorch as torch
    >>> from ftorch._prims_common import suggest_memory_format
    >>> suggest_memory_format(torch.ones(2, 3, 4, 4).contiguous(memory_format=torch.channels_last))
    torch.channels_last
    """
    if x.layout is not _formats.strided or not are_strides_like_channels_last(x.shape, x.stride()):
        return _formats.contiguous_format
    return _formats.channels_last if x.ndim == 4 else _formats.channels_last_3d
