"""``torch.nn.functional``: the functions of modules.

They are declared with their kernels in ``ftorch/eager/kernels`` and ``ftorch/eager/functions`` and
found here on first use.
"""

from __future__ import annotations

import collections.abc
import enum
import importlib
import inspect
import types
import typing

from ..eager.core.api import nn as _nn
from ..eager.functions.nn.attention import (  # noqa: F401  (published code takes these from here)
    _check_key_padding_mask,
    _in_projection,
    _in_projection_packed,
    _mha_shape_check,
)
from ..eager.functions.nn.functional import _verify_batch_size  # noqa: F401
from ..eager.tensor import Tensor
from . import _reduction as _Reduction  # noqa: F401  (published code reads it here)
from ._functional_signatures import SIGNATURES

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


class ScalingType(enum.IntEnum):
    """How the scales of `scaled_mm` lie over a matrix. The blockwise ones are for GPUs."""

    TensorWise, RowWise, BlockWise1x16, BlockWise1x32, BlockWise1x128, BlockWise128x128 = range(6)


class SwizzleType(enum.IntEnum):
    """The order of scales in memory, for `scaled_mm`. Other than none are for GPUs."""

    NO_SWIZZLE, SWIZZLE_32_4_4 = range(2)


_OVERRIDES = frozenset((
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "handle_torch_function",
))
# What PyTorch's module imports, by where it is.
_ELSEWHERE = {
    **dict.fromkeys(("_single", "_pair", "_triple"), "ftorch.nn.modules.utils"), "boolean_dispatch": "ftorch._jit_internal",
    "_overload": "ftorch._jit_internal",
    **dict.fromkeys(("BroadcastingList1", "BroadcastingList2", "BroadcastingList3"), "ftorch._jit_internal"),
}
_MODULES = {"_VF": "ftorch._VF", "math": "math", "warnings": "warnings", "np": "numpy", "dataclasses": "dataclasses"}


def __getattr__(name):
    if name == "grad":
        return importlib.import_module(f"{__package__}.grad")
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    if name in _OVERRIDES:
        import ftorch

        return getattr(ftorch.overrides, name)
    value = getattr(_nn.functional, name, None)
    if value is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    text = SIGNATURES.get(name)
    if text is not None and isinstance(value, types.FunctionType):
        value.__signature__ = _signature(text)  # type: ignore[attr-defined]
    globals()[name] = value
    return value


_DTYPE = type("dtype", (), {"__module__": "torch"})  # as annotations name it


def _signature(text):
    scope: dict = {
        "Tensor": Tensor,
        "dtype": _DTYPE,
        "Any": typing.Any,
        "Callable": collections.abc.Callable,
        "NoneType": types.NoneType,
    }
    exec(compile(f"def function{text}: pass", "<ftorch signature>", "exec", dont_inherit=True), scope)
    return inspect.signature(scope["function"])


def __dir__():
    return sorted({*globals(), *dir(_nn.functional)})


def _none_or_dtype(input):
    """None, or the dtype that an int stands for."""
    if input is None or isinstance(input, int):
        return input
    raise RuntimeError("input to _none_or_dtype() must be None or an int")
