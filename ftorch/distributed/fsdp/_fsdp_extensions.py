"""`FSDPExtensions` under PyTorch's name of the module."""

from ..tensor.parallel.fsdp import FSDPExtensions

__all__ = ["FSDPExtensions"]
