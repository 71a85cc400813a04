"""``torch._custom_ops``: the older names of `ftorch.library`'s registrations, which packages still import."""

from __future__ import annotations

from . import library
from .library import get_ctx

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]

_TYPES = ("cpu", "cuda")


def _decorator(register, func):
    """What registers ``func``, or the function that it will decorate."""

    def decorate(function):
        register(function)
        return function

    return decorate if func is None else decorate(func)


def custom_op(qualname, func_or_schema=None):
    """Declares an op by its schema, ``"(Tensor x) -> Tensor"``, or by a function with annotations.

    >>> import ftorch as torch
    >>> from ftorch import _custom_ops
    >>> _custom_ops.custom_op("docs::older_double", "(Tensor x) -> Tensor")
    >>> double = _custom_ops.impl("docs::older_double", func=lambda x: x * 2)
    >>> torch.ops.docs.older_double(torch.ones(2))
    tensor([2., 2.])
    """
    if isinstance(func_or_schema, str):
        library.define(qualname, func_or_schema)
        return None

    def declare(function):
        library.define(qualname, library.infer_schema(function, mutates_args=()))

    return _decorator(declare, func_or_schema)


def impl(qualname, *, device_types=_TYPES, func=None):
    """Registers the op's kernel for devices; see `ftorch.library.impl`."""
    types = (device_types,) if isinstance(device_types, str) else tuple(device_types)
    return _decorator(lambda function: library.impl(qualname, types, function), func)


def impl_abstract(qualname, *, func=None):
    """Registers how the op's results look; see `ftorch.library.register_fake`."""
    return _decorator(lambda function: library.register_fake(qualname, function), func)
