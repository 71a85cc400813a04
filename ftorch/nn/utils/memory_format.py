"""The memory format of convolutions' weights."""

from __future__ import annotations

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, kinds, memory_format):
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """Gives the weights of all two-dimensional convolutions in a module another memory format."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """Gives the weights of all three-dimensional convolutions in a module another memory format."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
