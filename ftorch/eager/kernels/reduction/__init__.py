"""Kernels that reduce, scan and sort."""
