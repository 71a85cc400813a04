"""Tensors like another one: ``torch.zeros_like``, ``x.new_ones``."""

from __future__ import annotations

import math

from ..autograd.views import view_call
from ..call.argument_types import type_name
from ..call.op import call, dense_like, hooks, op_named, special
from ..core import api, formats
from ..core.composite import composite
from ..core.geometry import Size, geometry
from ..core.registry import OPS
from ..kernels._common import check_fits
from ..runtime.executor import relabel
from ..tensor import PLAIN, TensorBase, new_leaf
from ..tensor_api.legacy_types import check_place
from ._arguments import as_dtype, number, sizes
from .creation import check_options, make, make_strided, size_tuple


def _from_tensor(name, kernel, x, args, dtype, layout, device, requires_grad, stride=None):
    """Calls a creation kernel with the dtype and device of a tensor where they are not given.

    Under transforms and tracing the op that takes the tensor is called instead: the result is
    batched if the tensor is.
    """
    dtype = as_dtype(name, dtype) or x.dtype
    if not special[0]:
        device = x.device if device is None else device
        return make(name, kernel, args, dtype, layout, device, requires_grad, stride=stride)
    check_options(name, dtype, layout, requires_grad)
    static = (dtype,) if name.endswith("_like") else (args[0], dtype)
    made = call(op_named(name), (x, *args[1:]), static)
    if device is not None:
        made = made.to(device)
    if stride is not None and made.__class__ in PLAIN and not dtype.stored and made.stride() != stride:
        g = geometry(made.shape, dtype, made.device, stride)  # what a level below has: it is all the same number
        if g.is_dense and made._ftorch_geometry is made._ftorch_storage.root:
            relabel(made._ftorch_storage, g)
            made._ftorch_geometry = g
    return new_leaf(made, requires_grad)


def _like(name, kernel, x, values, memory_format, dtype, layout, device, requires_grad):
    if not isinstance(x, TensorBase):
        raise TypeError(
            f"{name}(): argument 'input' (position 1) must be Tensor, not {type_name(x)}"
        )
    g = x._ftorch_geometry
    stride = None
    if isinstance(layout, formats.layout) and layout is not formats.strided and x.layout is formats.strided:
        return hooks.sparse()._like(name, x, dtype, layout, device, requires_grad)
    if memory_format is None or memory_format is formats.preserve_format:
        stride = g.stride if g.is_dense else dense_like(g).stride
    elif memory_format is not formats.contiguous_format:
        stride = formats.strides_for(g.shape, memory_format)
    args = (g.shape, *values)
    return _from_tensor(name, kernel, x, args, dtype, layout, device, requires_grad, stride)


@composite()
def zeros_like(input, *, memory_format=None, dtype=None, layout=None, device=None,
               pin_memory=False, requires_grad=False):
    """Zeros of another tensor's shape, dtype and device (``torch.zeros_like``).

    Args:
        memory_format: None keeps the order of the dimensions in memory.

    >>> import ftorch as torch
    >>> torch.zeros_like(torch.tensor([1, 2]))
    tensor([0, 0])
    """
    return _like(
        "zeros_like", "zeros", input, (), memory_format, dtype, layout, device, requires_grad
    )


@composite()
def ones_like(input, *, memory_format=None, dtype=None, layout=None, device=None,
              pin_memory=False, requires_grad=False):
    """Ones of another tensor's shape, dtype and device (``torch.ones_like``): see `zeros_like`."""
    return _like(
        "ones_like", "ones", input, (), memory_format, dtype, layout, device, requires_grad
    )


@composite()
def empty_like(input, *, memory_format=None, dtype=None, layout=None, device=None,
               pin_memory=False, requires_grad=False):
    """Like `zeros_like`, where the values do not matter (``torch.empty_like``)."""
    return _like(
        "empty_like", "empty", input, (), memory_format, dtype, layout, device, requires_grad
    )


@composite()
def full_like(input, fill_value, *, memory_format=None, dtype=None, layout=None, device=None,
              pin_memory=False, requires_grad=False):
    """A number in another tensor's shape, dtype and device (``torch.full_like``).

    Raises:
        RuntimeError: for a number that the dtype cannot hold.

    >>> import ftorch as torch
    >>> torch.full_like(torch.zeros(2), 7)
    tensor([7., 7.])
    """
    value = number("full_like", "fill_value", 2, fill_value)
    if isinstance(input, TensorBase):
        check_fits(value, as_dtype("full_like", dtype) or input.dtype, halves=input.numel() != 1)
    return _like(
        "full_like", "full", input, (value,), memory_format, dtype, layout, device, requires_grad
    )


@composite("method")
def new_zeros(self, *sizes_, size=None, dtype=None, device=None, requires_grad=False, layout=None,
              pin_memory=False):
    """Zeros of a given size, of this tensor's dtype and device.

    >>> import ftorch as torch
    >>> torch.tensor([1]).new_zeros(2)
    tensor([0, 0])
    """
    shape = sizes("new_zeros", sizes_, size)
    return _from_tensor(
        "new_zeros", "zeros", self, (shape,), dtype, layout, device, requires_grad
    )


@composite("method")
def new_ones(self, *sizes_, size=None, dtype=None, device=None, requires_grad=False, layout=None,
             pin_memory=False):
    """Ones of a given size, of this tensor's dtype and device."""
    shape = sizes("new_ones", sizes_, size)
    return _from_tensor("new_ones", "ones", self, (shape,), dtype, layout, device, requires_grad)


@composite("method")
def new_empty(self, *sizes_, size=None, dtype=None, device=None, requires_grad=False, layout=None,
              pin_memory=False):
    """A tensor of a given size and this one's dtype and device; the values do not matter."""
    shape = sizes("new_empty", sizes_, size)
    return _from_tensor(
        "new_empty", "empty", self, (shape,), dtype, layout, device, requires_grad
    )


@composite("method")
def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False, layout=None,
             pin_memory=False):
    """A number in a given size, of this tensor's dtype and device."""
    shape, value = size_tuple("new_full", size), number("new_full", "fill_value", 2, fill_value)
    check_fits(value, as_dtype("new_full", dtype) or self.dtype, halves=math.prod(shape) != 1)
    return _from_tensor(
        "new_full", "full", self, (shape, value), dtype, layout, device, requires_grad
    )


@composite("method")
def new_empty_strided(self, size, stride, dtype=None, layout=None, device=None, pin_memory=False,
                      requires_grad=False):
    """`empty_strided` of this tensor's dtype and device."""
    dtype = as_dtype("new_empty_strided", dtype) or self.dtype
    device = self.device if device is None else device
    return make_strided("new_empty_strided", size, stride, dtype, layout, device, requires_grad)


@composite("method")
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None,
               pin_memory=False):
    """A copy of data as a tensor of this one's dtype and device (see `torch.tensor`).

    >>> import ftorch as torch
    >>> torch.zeros(1).new_tensor([1, 2])
    tensor([1., 2.])
    """
    return api.tensor(
        data, dtype=as_dtype("new_tensor", dtype) or self.dtype,
        device=self.device if device is None else device, requires_grad=requires_grad,
    )


@composite("method")
def new(self, *args, device=None, **named):
    """The constructor of early PyTorch: ``x.new(2, 3)`` has sizes, ``x.new([2, 3])`` has values."""
    if not args and len(named) == 1:  # what PyTorch calls its only argument
        [(name, value)] = named.items()
        if name == "size":
            return new_empty(self, value, device=device)
        if name in ("data", "other"):
            args, named = (value,), {}
    check_place(device, self.device.type, args, "new")
    if named:
        raise TypeError(f"new() received an invalid combination of arguments - got ({', '.join(named)})")
    if not args:
        return new_empty(self, 0, device=device)
    if len(args) == 1 and isinstance(args[0], TensorBase):
        if args[0].dtype is not self.dtype:
            raise TypeError(f"expected a tensor of {self.dtype}, got {args[0].dtype}")
        return view_call(OPS["alias"], args[0])
    if len(args) == 1 and not isinstance(args[0], (int, Size)):
        if not hasattr(args[0], "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {type(args[0]).__name__})")
        return new_tensor(self, args[0], device=device)
    return new_empty(self, *args, device=device)
