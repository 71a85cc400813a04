"""``associative_scan`` under the name of PyTorch's module."""

from ..functional.control_flow import associative_scan

__all__ = ["associative_scan"]
