"""Kernels that read and write by index."""
