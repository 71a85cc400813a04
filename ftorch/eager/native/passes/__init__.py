"""Passes over traced programs that put kernels of this package into them."""
