"""Kernels that make, copy, cast and fill tensors."""
