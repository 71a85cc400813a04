"""Kernels in languages of accelerators' own (``torch._native``): here XLA compiles, and nothing is registered."""

from .._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "dsl_registry")
