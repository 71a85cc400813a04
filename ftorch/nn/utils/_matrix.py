"""Weights as matrices of outputs and inputs, for spectral normalization."""

from __future__ import annotations

from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d


def output_dim(module, dim):
    """``dim``, or where the module's weight has its outputs if it is None."""
    if dim is not None:
        return dim
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


def as_matrix(weight, dim):
    """The weight with a dimension first and the others flattened."""
    if dim != 0:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.flatten(1)
