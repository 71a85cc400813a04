"""Kernels that rearrange elements, and the views' geometry rules."""
