"""Tensor subclasses of PyTorch's own (``torch._subclasses``)."""

from .fake_tensor import DataDependentOutputException, FakeTensor, FakeTensorMode

__all__ = ["DataDependentOutputException", "FakeTensor", "FakeTensorMode"]
