"""``map`` under the name of PyTorch's module."""

from ..functional.control_flow import map

__all__ = ["map"]
