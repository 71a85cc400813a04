"""Composites whose arguments decide which ATen op an exported graph has for them: shapes, parts, conversions."""

from __future__ import annotations

from .._ops import ops
from ..eager.core import dtype as _dtype
from ..eager.core.device import device as device_class
from ..eager.core.formats import memory_format as memory_format_class
from ..eager.core.formats import strided
from ..eager.tensor import TensorBase


def _reshape(args, kwargs):
    x, *sizes = args
    size = kwargs.get("shape", sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)
    return ops.aten.reshape.default, (x, [int(n) for n in size]), {}


def _contiguous(args, kwargs):
    memory_format = kwargs.get("memory_format")
    if args[0].is_contiguous() if memory_format is None else args[0].is_contiguous(memory_format=memory_format):
        return None
    return ops.aten.contiguous.default, args, {} if memory_format is None else {"memory_format": memory_format}


def _movedim(args, kwargs):
    names = dict(zip(("input", "source", "destination"), args), **kwargs)
    kind = ops.aten.movedim.int if isinstance(names["source"], int) else ops.aten.movedim.intlist
    return kind, tuple(v if isinstance(v, (int, TensorBase)) else list(v) for v in names.values()), {}


def _parted(name):
    def rule(args, kwargs):
        x, parts, *dim = args
        if kwargs.keys() - {"dim"} or not isinstance(parts, (int, list, tuple)):
            return None
        dim = [kwargs["dim"]] if "dim" in kwargs else dim
        is_number = isinstance(parts, int)
        kinds = ("sections", "indices") if name == "tensor_split" else ("int", "array")
        parts = int(parts) if is_number else [int(n) for n in parts]
        last = [d for d in dim if d != 0]
        return getattr(getattr(ops.aten, name), kinds[not is_number]), (x, parts, *last), {}

    return rule


def _at_least(name):
    def rule(args, kwargs):
        if len(args) != 1 or not isinstance(args[0], TensorBase) or kwargs:
            return None
        return getattr(ops.aten, name).default, args, {}

    return rule


# What says by its arguments which overload it is, or whether it is one: {name: rule of (args, kwargs)}.
CALLS = {
    "reshape": _reshape, "contiguous": _contiguous, "movedim": _movedim,
    **{n: _parted(n) for n in ("tensor_split", "hsplit", "vsplit", "dsplit")},
    **{n: _at_least(n) for n in ("atleast_1d", "atleast_2d", "atleast_3d")},
}

_CONVERSIONS = {
    "float": _dtype.float32, "double": _dtype.float64, "half": _dtype.float16, "bfloat16": _dtype.bfloat16,
    "long": _dtype.int64, "int": _dtype.int32, "short": _dtype.int16, "char": _dtype.int8, "byte": _dtype.uint8,
    "bool": _dtype.bool, "cfloat": _dtype.complex64, "cdouble": _dtype.complex128,
}


# The methods that do not ask by themselves: those that are no functions.
ASKING = (
    *_CONVERSIONS, "to", "cpu", "type", "type_as", "reshape", "reshape_as", "view_as", "expand_as", "contiguous", "movedim",
)

_KINDS = {
    "dtype": _dtype.dtype, "device": (str, device_class), "tensor": TensorBase, "flag": bool,
    "memory_format": memory_format_class,
}


def conversion(name, args, kwargs):
    """(overload, args, kwargs) of a conversion to a dtype or a device; None for other calls and what has no such overload."""
    if name in _CONVERSIONS:
        return None if kwargs or len(args) > 1 else (ops.aten.to.dtype, (args[0], _CONVERSIONS[name]), {})
    if name == "type_as":
        return ops.aten.type_as.default, (*args, *kwargs.values()), {}
    if name == "cpu":
        return None if kwargs else _moved(args[0], device_class("cpu"))
    if name == "type" and len(args) == 2 and isinstance(args[1], _dtype.dtype):
        return ops.aten.to.dtype, args, {}
    if name != "to":
        return None
    given = dict(kwargs)
    for value in args[1:]:
        kind = next((k for k, t in _KINDS.items() if isinstance(value, t)), None)
        if kind == "flag":
            kind = "copy" if "non_blocking" in given else "non_blocking"
        if kind is None or kind in given:
            return None
        given[kind] = value
    other = given.pop("tensor", given.pop("other", None))
    if other is not None:
        given = {"device": other.device, "dtype": other.dtype, **given}
    device, dtype = given.get("device"), given.get("dtype")
    if isinstance(device, str):
        device = device_class(device)
    if not isinstance(dtype, (_dtype.dtype, type(None))) or not isinstance(device, (device_class, type(None))):
        return None
    flags = [given.get("non_blocking", False), given.get("copy", False), given.get("memory_format")]
    if dtype is None:
        return None if device is None or any(flags) else _moved(args[0], device)
    while flags and not flags[-1]:
        flags.pop()
    if device is None:
        return ops.aten.to.dtype, (args[0], dtype, *flags), {}
    return ops.aten.to.device, (args[0], device, dtype, *flags), {}


def _moved(x, device):
    return ops.aten.to.dtype_layout, (x,), {"dtype": x.dtype, "layout": strided, "device": device}


__all__ = ["ASKING", "CALLS", "conversion"]
