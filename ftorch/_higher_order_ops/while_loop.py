"""``while_loop`` under the name of PyTorch's module."""

from ..functional.control_flow import while_loop

__all__ = ["while_loop"]
