"""Layers that are to be quantized as one (``torch.ao.nn.intrinsic.modules.fused``)."""

from __future__ import annotations

import inspect

import ftorch as torch
from ftorch import nn
from ftorch.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, Linear, ReLU
from ftorch.nn.utils.parametrize import type_before_parametrizations

__all__ = [
    "BNReLU2d", "BNReLU3d", "ConvAdd2d", "ConvAddReLU2d", "ConvBn1d", "ConvBn2d", "ConvBn3d", "ConvBnReLU1d",
    "ConvBnReLU2d", "ConvBnReLU3d", "ConvReLU1d", "ConvReLU2d", "ConvReLU3d", "LinearBn1d", "LinearLeakyReLU",
    "LinearReLU", "LinearTanh",
]


class _FusedModule(torch.nn.Sequential):
    """Layers one after the other, of the types that the class names.

    Attributes:
        _layers: the types that are taken.

    Raises:
        AssertionError: for other types.
    """

    _layers: tuple = ()

    def __init__(self, *layers):
        expected = self._layers
        if len(layers) != len(expected) or any(
            type_before_parametrizations(given) is not kind for given, kind in zip(layers, expected)
        ):
            kinds = "".join(str(type_before_parametrizations(m)) for m in layers)
            raise AssertionError(f"Incorrect types for input modules{kinds}")
        super().__init__(*layers)


_ARGUMENTS = {"BatchNorm": "bn", "LeakyReLU": "leaky_relu"}


def _argument(layer, is_first):
    """What a layer is called among the arguments: BatchNorm1d is ``bn``, and ``batch_norm`` where it comes first."""
    name = layer.__name__.rstrip("123d")
    return "batch_norm" if is_first and name == "BatchNorm" else _ARGUMENTS.get(name, name.lower())


def _fused(name, *layers):
    names = [_argument(layer, i == 0) for i, layer in enumerate(layers)]

    def __init__(self, *args, **kwargs):
        _FusedModule.__init__(self, *signature.bind(*args, **kwargs).arguments.values())

    signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
    return type(name, (_FusedModule,), {"_layers": layers, "__module__": __name__, "__init__": __init__,
                                        "__doc__": " and ".join(k.__name__ for k in layers) + ", to be fused."})


ConvReLU1d = _fused("ConvReLU1d", Conv1d, ReLU)
ConvReLU2d = _fused("ConvReLU2d", Conv2d, ReLU)
ConvReLU3d = _fused("ConvReLU3d", Conv3d, ReLU)
LinearReLU = _fused("LinearReLU", Linear, ReLU)
ConvBn1d = _fused("ConvBn1d", Conv1d, BatchNorm1d)
ConvBn2d = _fused("ConvBn2d", Conv2d, BatchNorm2d)
ConvBn3d = _fused("ConvBn3d", Conv3d, BatchNorm3d)
ConvBnReLU1d = _fused("ConvBnReLU1d", Conv1d, BatchNorm1d, ReLU)
ConvBnReLU2d = _fused("ConvBnReLU2d", Conv2d, BatchNorm2d, ReLU)
ConvBnReLU3d = _fused("ConvBnReLU3d", Conv3d, BatchNorm3d, ReLU)
BNReLU2d = _fused("BNReLU2d", BatchNorm2d, ReLU)
BNReLU3d = _fused("BNReLU3d", BatchNorm3d, ReLU)
LinearBn1d = _fused("LinearBn1d", Linear, BatchNorm1d)
LinearLeakyReLU = _fused("LinearLeakyReLU", Linear, nn.LeakyReLU)
LinearTanh = _fused("LinearTanh", Linear, nn.Tanh)


class ConvAdd2d(_FusedModule):
    """A convolution and an addition of another tensor."""

    def __init__(self, conv, add):
        torch.nn.Sequential.__init__(self, conv)
        self.add = add

    def forward(self, x1, x2):
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """A convolution, an addition of another tensor and a ReLU."""

    def __init__(self, conv, add, relu):
        torch.nn.Sequential.__init__(self, conv)
        self.add = add
        self.relu = relu

    def forward(self, x1, x2):
        return self.relu(self.add(self[0](x1), x2))
