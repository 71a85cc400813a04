"""Compiler passes over traced programs: they put kernels of this package into them."""
