"""``scan`` under the name of PyTorch's module."""

from ..functional.control_flow import scan

__all__ = ["scan"]
