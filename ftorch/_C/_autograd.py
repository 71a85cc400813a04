"""Types of devices as the profiler numbers them (``torch._C._autograd``)."""

from ..autograd.profiler import DeviceType

__all__ = ["DeviceType"]
