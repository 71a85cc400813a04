"""Ahead-of-time autograd: a function of tensors as graphs of ATen's ops, forward and backward."""

from ..._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "utils")
