"""Tensor subclasses of PyTorch's own (``torch._subclasses``)."""

from .._submodules import on_demand as _on_demand
from .cross_reference import CrossRefFakeMode
from .fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

__getattr__ = _on_demand(globals(), "functional_tensor meta_utils")

__all__ = [
    "CrossRefFakeMode", "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode",
    "UnsupportedFakeTensorException",
]
