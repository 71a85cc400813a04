"""``torch.zeros``, ``torch.arange``, ``torch.empty_strided``, ...

Each works out sizes, dtype and memory layout and asks a creation kernel. Memory is never left
uninitialized, and ``pin_memory`` is accepted without effect: host memory is JAX's.
"""

from __future__ import annotations

import math
import operator
import warnings

from ..call.op import create, hooks
from ..core import device as devices
from ..core import dtype as dtypes
from ..core import fill, formats
from ..core.composite import composite
from ..core.geometry import Size, geometry, permuted_stride
from ..kernels._common import check_fits
from ..tensor import TensorBase, new_leaf
from ._arguments import as_dtype, integer, mismatch, number, sizes

_SPARSE = frozenset((formats.sparse_coo, formats.sparse_csr, formats.sparse_csc, formats.sparse_bsr,
                     formats.sparse_bsc))


def check_options(name, dtype, layout, requires_grad):
    """Raises PyTorch's errors for layouts and dtypes that cannot be."""
    if layout is not None and layout is not formats.strided:
        if not isinstance(layout, formats.layout):
            raise TypeError(
                f"{name}(): argument 'layout' must be torch.layout, not {type(layout).__name__}"
            )
        raise RuntimeError(f"{name}(...) is not implemented for sparse layout")
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")


def _dtype_with_out(name, dtype, out, device):
    """The dtype asked for, which must be that of ``out`` if both are given."""
    dtype = as_dtype(name, dtype)
    if out is None:
        return dtype
    if dtype is not None and dtype is not out.dtype:
        raise RuntimeError(
            f"dtype {dtype.scalar_name} does not match dtype of out parameter "
            f"({out.dtype.scalar_name})"
        )
    if device is not None and devices.resolve(device).type != out.device.type:
        raise RuntimeError(
            f"device type {devices.resolve(device).type} does not match device type of out "
            f"parameter ({out.device.type})"
        )
    return out.dtype


def _layout_name(layout) -> str:
    """A layout as C++ prints it: ``Strided``, ``Sparse``, ``SparseCsr``."""
    words = str(layout).removeprefix("torch.").removesuffix("_coo").split("_")
    return "".join([word.capitalize() for word in words])


def check_layout(layout, out) -> None:
    """Raises for a layout that is not that of ``out``.

    Raises:
        RuntimeError: in PyTorch's words.
    """
    if out is not None and isinstance(layout, formats.layout) and layout is not out.layout:
        raise RuntimeError(
            f"layout {_layout_name(layout)} does not match layout of out parameter ({_layout_name(out.layout)})"
        )


def make(name, kernel, args, dtype, layout, device, requires_grad, out=None, stride=None):
    """Calls a creation kernel, whose last argument is the dtype."""
    check_layout(layout, out)
    if out is not None and out.layout in _SPARSE and name == "zeros":
        return hooks.sparse()._emptied_to(out, args[0])
    if layout in _SPARSE and name in ("zeros", "empty"):
        return hooks.sparse()._zeros(args[0], dtype, layout, device, requires_grad)
    if layout is not None or requires_grad:
        check_options(name, dtype, layout, requires_grad)
    if fill.is_deterministic and kernel == "empty" and (value := fill.value(dtype)) is not None:
        if value == (1 << 64) - 1:
            value = -1  # kernels take integers of int64: uint64's largest is none, but what -1 wraps to
        if out is not None:
            return out.resize_(args[0]).fill_(value)
        kernel, args = "full", (args[0], value)
    if out is None:
        return create(
            kernel, *args, dtype, device=device, requires_grad=requires_grad, stride=stride
        )
    if name == "empty":
        return out if out.shape == args[0] else out.resize_(args[0])
    made = create(kernel, *args, dtype, device=out.device)
    hooks.write_made(name, made, out, name in _FLAT)
    return out


# Their ``out=`` is filled in its own shape if it has as many elements.
_FLAT = frozenset(("arange", "range", "linspace", "logspace"))


# --- constants -----------------------------------------------------------------------


@composite()
def zeros(*sizes_, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False,
          requires_grad=False):
    """A tensor of zeros (``torch.zeros``).

    Args:
        sizes_: the sizes, as several ints or one sequence.
        dtype: the default dtype if None.

    Raises:
        TypeError: for sizes that are not ints. RuntimeError: for negative ones.

    >>> import ftorch as torch
    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    shape = sizes("zeros", sizes_, size)
    dtype = _dtype_with_out("zeros", dtype, out, device) or dtypes.get_default_dtype()
    return make("zeros", "zeros", (shape,), dtype, layout, device, requires_grad, out)


@composite()
def ones(*sizes_, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False,
         requires_grad=False):
    """A tensor of ones (``torch.ones``): see `zeros`.

    >>> import ftorch as torch
    >>> torch.ones(2, dtype=torch.int64)
    tensor([1, 1])
    """
    shape = sizes("ones", sizes_, size)
    dtype = _dtype_with_out("ones", dtype, out, device) or dtypes.get_default_dtype()
    return make("ones", "ones", (shape,), dtype, layout, device, requires_grad, out)


@composite()
def empty(*sizes_, size=None, out=None, dtype=None, layout=None, device=None, pin_memory=False,
          requires_grad=False, memory_format=formats.contiguous_format):
    """A tensor whose values do not matter (``torch.empty``); they are zeros.

    Raises:
        RuntimeError: for a memory format that the number of dimensions does not allow.

    >>> import ftorch as torch
    >>> torch.empty(1, 3, 2, 2, memory_format=torch.channels_last).stride()
    (12, 1, 6, 3)
    """
    shape = sizes("empty", sizes_, size)
    dtype = _dtype_with_out("empty", dtype, out, device) or dtypes.get_default_dtype()
    stride = _strides_in(shape, memory_format)
    return make("empty", "empty", (shape,), dtype, layout, device, requires_grad, out, stride)


def _strides_in(shape, memory_format):
    """Strides in a memory format, None where they are contiguous."""
    if memory_format is formats.contiguous_format or memory_format is None:
        return None
    if memory_format is formats.preserve_format:
        raise RuntimeError("unsupported memory format Preserve")
    return formats.strides_for(shape, memory_format)


def _dtype_of_number(value):
    if isinstance(value, bool):
        return dtypes.bool
    if isinstance(value, complex):  # never of halves
        return dtypes.complex128 if dtypes.get_default_dtype() is dtypes.float64 else dtypes.complex64
    return dtypes.from_python(float if isinstance(value, float) else int)


@composite()
def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
         requires_grad=False):
    """A tensor filled with a number (``torch.full``).

    Args:
        dtype: if None, that of the number: bool, int64, the default dtype, or its complex dtype.

    Raises:
        RuntimeError: for a number that the dtype cannot hold.

    >>> import ftorch as torch
    >>> torch.full((2, 2), 3.5)
    tensor([[3.5000, 3.5000],
            [3.5000, 3.5000]])
    """
    shape = size_tuple("full", size)
    value = number("full", "fill_value", 2, fill_value)
    dtype = _dtype_with_out("full", dtype, out, device) or _dtype_of_number(value)
    check_fits(value, dtype, halves=math.prod(shape) != 1)
    return make("full", "full", (shape, value), dtype, layout, device, requires_grad, out)


def size_tuple(name, size):
    """Sizes that must come as a sequence."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            f"{name}(): argument 'size' (position 1) must be tuple of ints, not "
            f"{type(size).__name__}"
        )
    return sizes(name, (size,))


@composite()
def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=False,
                  requires_grad=False):
    """A 0-d tensor of a number, of the default dtype (``torch.scalar_tensor``).

    >>> import ftorch as torch
    >>> torch.scalar_tensor(3)
    tensor(3.)
    """
    value = number("scalar_tensor", "s", 1, s)
    dtype = as_dtype("scalar_tensor", dtype) or dtypes.get_default_dtype()
    check_fits(value, dtype)
    return make("scalar_tensor", "full", ((), value), dtype, layout, device, requires_grad)


# --- memory layouts ------------------------------------------------------------------


def make_strided(name, size, stride, dtype, layout, device, requires_grad):
    """A tensor of given sizes and strides."""
    shape, stride = size_tuple(name, size), tuple(map(int, stride))
    if len(shape) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides "
            f"({len(stride)})"
        )
    largest = sum([(n - 1) * s for n, s in zip(shape, stride)]) if 0 not in shape else 0
    if any(s < 0 for s in stride) or (largest + 1) * dtype.itemsize >= 1 << 63:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and "
            f"strides={list(stride)}"
        )
    wanted = geometry(Size(shape), dtype, devices.resolve(device), stride)
    if wanted.is_dense:
        return make(name, "empty", (shape,), dtype, layout, device, requires_grad, stride=stride)
    # Elements with gaps between them, or several in one place, are a view of their storage.
    memory = make(name, "empty", ((wanted.expanse,),), dtype, layout, device, False)
    return new_leaf(memory.as_strided(shape, stride), requires_grad)


@composite()
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=False,
                  requires_grad=False):
    """A tensor of given sizes and strides whose values do not matter (``torch.empty_strided``).

    >>> import ftorch as torch
    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    dtype = as_dtype("empty_strided", dtype) or dtypes.get_default_dtype()
    return make_strided("empty_strided", size, stride, dtype, layout, device, requires_grad)


@composite()
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, pin_memory=False,
                   requires_grad=False):
    """A dense tensor whose dimensions lie in memory in a given order (``torch.empty_permuted``).

    Args:
        physical_layout: the dimensions, outermost in memory first.

    >>> import ftorch as torch
    >>> torch.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    shape, order = size_tuple("empty_permuted", size), tuple(physical_layout)
    if len(shape) != len(order):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for i, d in enumerate(order):
        if not 0 <= d < len(shape):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got "
                f"{d} at index {i}).  NB: negative dims not currently supported; file an issue if "
                "you want it."
            )
    if len(set(order)) != len(order):
        raise RuntimeError("Duplicate dim not allowed")
    dtype = as_dtype("empty_permuted", dtype) or dtypes.get_default_dtype()
    stride = permuted_stride(shape, order)
    return make(
        "empty_permuted", "empty", (shape,), dtype, layout, device, requires_grad, stride=stride
    )


# --- ranges --------------------------------------------------------------------------


def _check_range(start, end, step):
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if (end - start) * (1 if step > 0 else -1) < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _numbers(name, *given):
    """Numbers of a function with several overloads."""
    try:
        return [number(name, "", 0, value) for value in given]
    except TypeError:
        raise mismatch(name, *given) from None


def _real(value):
    if isinstance(value, complex):
        raise RuntimeError(  # noqa: TRY004
            "value cannot be converted to type double without overflow"
        )
    return value


@composite()
def arange(start=None, end=None, step=1, *, out=None, dtype=None, layout=None, device=None,
           pin_memory=False, requires_grad=False):
    """Numbers from ``start`` (0) up to but without ``end``, ``step`` apart (``torch.arange``).

    Args:
        dtype: if None, int64 where all numbers are ints, else the default dtype.

    Raises:
        RuntimeError: for a step of 0, infinite bounds, or bounds in the wrong order.

    >>> import ftorch as torch
    >>> torch.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    if end is None:
        if step != 1:
            raise mismatch("arange", start, step=step)
        start, end = 0, number("arange", "end", 1, start)
    start, end, step = map(_real, _numbers("arange", 0 if start is None else start, end, step))
    dtype = _dtype_with_out("arange", dtype, out, device)
    if dtype is None:
        is_float = any(isinstance(v, float) for v in (start, end, step))
        dtype = dtypes.get_default_dtype() if is_float else dtypes.int64
    _check_range(start, end, step)
    if dtype is dtypes.int64:
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ValueError("step must be nonzero")
        length = -((start - end) // step)
    else:
        length = math.ceil((end - start) / step)
        if dtype.category == 1:
            start, step = int(start), int(step)
    return make(
        "arange", "arange", (length, start, step), dtype, layout, device, requires_grad, out
    )


@composite(name="range")
def range_(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None,
           pin_memory=False, requires_grad=False):
    """Numbers from ``start`` up to and including ``end`` (``torch.range``, deprecated).

    Warns:
        UserWarning: always; use ``arange``, whose end is exclusive.

    >>> import warnings
    >>> import ftorch as torch
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.range(0, 1, 0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).", stacklevel=2,
    )
    numbers = zip(("start", "end", "step"), (start, end, step), strict=True)
    start, end, step = (
        _real(number("range", name, i + 1, v)) for i, (name, v) in enumerate(numbers)
    )
    dtype = _dtype_with_out("range", dtype, out, device) or dtypes.get_default_dtype()
    _check_range(start, end, step)
    length = math.floor((end - start) / step) + 1
    if dtype.category == 1:
        start, step = int(start), int(step)
    return make(
        "range", "arange", (length, start, step), dtype, layout, device, requires_grad, out
    )


def _spaced(name, start, end, steps, base, dtype, layout, device, requires_grad, out):
    for argument, value in (("start", start), ("end", end)):
        if isinstance(value, TensorBase) and value.ndim:
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {argument} "
                f"with {value.ndim} dimension(s)."
            )
    try:
        count = integer(name, "steps", 3, steps)
    except TypeError:
        raise mismatch(name, start, end, steps) from None
    bounds = (v.detach() if isinstance(v, TensorBase) else v for v in (start, end))
    start, end, *base = _numbers(name, *bounds, *base)
    if count < 0:
        raise RuntimeError("number of steps must be non-negative")
    dtype = _dtype_with_out(name, dtype, out, device)
    inferred = dtypes.get_default_dtype()
    if isinstance(start, complex) or isinstance(end, complex):
        inferred = inferred.to_complex()
        if dtype is not None and not dtype.is_complex:
            part = "float" if inferred is dtypes.complex64 else "double"
            raise RuntimeError(
                f"torch.{name}(): inferred dtype c10::complex<{part}> can't be safely cast to "
                f"passed dtype {dtype.scalar_name}"
            )
    args = (start, end, count, *map(float, base))
    return make(name, name, args, dtype or inferred, layout, device, requires_grad, out)


@composite()
def linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None,
             pin_memory=False, requires_grad=False):
    """Evenly spaced numbers, both ends included (``torch.linspace``).

    Raises:
        RuntimeError: for a negative number of steps.

    >>> import ftorch as torch
    >>> torch.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    return _spaced(
        "linspace", start, end, steps, (), dtype, layout, device, requires_grad, out
    )


@composite()
def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None,
             pin_memory=False, requires_grad=False):
    """Powers of a base with evenly spaced exponents (``torch.logspace``).

    >>> import ftorch as torch
    >>> torch.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    return _spaced(
        "logspace", start, end, steps, (base,), dtype, layout, device, requires_grad, out
    )


# --- matrices ------------------------------------------------------------------------


@composite()
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
        requires_grad=False):
    """A matrix with ones on its diagonal (``torch.eye``): ``n`` rows, ``m`` (``n``) columns.

    >>> import ftorch as torch
    >>> torch.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    n = integer("eye", "n", 1, n)
    m = n if m is None else integer("eye", "m", 2, m)
    for side, size in (("n", n), ("m", m)):
        if size < 0:
            raise RuntimeError(f"{side} must be greater or equal to 0, got {size}")
    dtype = _dtype_with_out("eye", dtype, out, device) or dtypes.get_default_dtype()
    return make("eye", "eye", (n, m), dtype, layout, device, requires_grad, out)


def _triangle_indices(name, row, col, offset, dtype, layout, device, requires_grad):
    args = tuple(map(operator.index, (row, col, offset)))
    dtype = as_dtype(name, dtype) or dtypes.int64
    return make(name, name, args, dtype, layout, device, requires_grad)


@composite()
def tril_indices(row, col, offset=0, *, dtype=dtypes.int64, layout=None, device=None,
                 pin_memory=False, requires_grad=False):
    """Row and column indices of a lower triangle (``torch.tril_indices``): shape (2, count).

    >>> import ftorch as torch
    >>> torch.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle_indices(
        "tril_indices", row, col, offset, dtype, layout, device, requires_grad
    )


@composite()
def triu_indices(row, col, offset=0, *, dtype=dtypes.int64, layout=None, device=None,
                 pin_memory=False, requires_grad=False):
    """Row and column indices of an upper triangle (``torch.triu_indices``): shape (2, count)."""
    return _triangle_indices(
        "triu_indices", row, col, offset, dtype, layout, device, requires_grad
    )
