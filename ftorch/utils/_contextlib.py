"""``_DecoratorContextManager``, which code outside PyTorch builds on."""

from ..autograd.grad_mode import DecoratorContextManager as _DecoratorContextManager

__all__ = ["_DecoratorContextManager"]
