"""``cond`` under the name of PyTorch's module."""

from ..functional.control_flow import cond

__all__ = ["cond"]
