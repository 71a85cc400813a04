"""Kernels in languages of accelerators' own (``torch._native``): here XLA compiles, and nothing is registered."""
