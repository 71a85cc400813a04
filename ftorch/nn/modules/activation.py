"""Activation functions as modules. `MultiheadAttention` is in ``multihead.py``."""

from __future__ import annotations

import warnings

from ...eager.core import api as torch
from ...eager.tensor import Tensor as Tensor
from .. import functional as F
from .. import init
from ..init import constant_ as constant_
from ..init import xavier_normal_ as xavier_normal_
from ..init import xavier_uniform_ as xavier_uniform_
from ..parameter import Parameter as Parameter
from ._function import FunctionModule
from .module import Module
from .multihead import MultiheadAttention
from .utils import new_parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _InPlace(FunctionModule):
    """An activation whose only argument is ``inplace``: write the result over the input."""

    _ftorch_arguments = ("inplace",)

    def __init__(self, inplace=False):
        super().__init__(inplace)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("inplace", False)


class ReLU(_InPlace):
    """``max(0, x)``.

    >>> import ftorch as torch
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _ftorch_function = "relu"

    def forward(self, input):  # the most frequent of all
        return F.relu(input, inplace=self.inplace)


class SELU(_InPlace):
    """``scale * (max(0, x) + min(0, alpha * (exp(x) - 1)))`` with the constants of the paper."""

    _ftorch_function = "selu"


class SiLU(_InPlace):
    """``x * sigmoid(x)``, also called swish."""

    _ftorch_function = "silu"


class Mish(_InPlace):
    """``x * tanh(softplus(x))``."""

    _ftorch_function = "mish"


class Hardswish(_InPlace):
    """``x * relu6(x + 3) / 6``."""

    _ftorch_function = "hardswish"
    _ftorch_shown = ()


class Hardsigmoid(_InPlace):
    """``relu6(x + 3) / 6``."""

    _ftorch_function = "hardsigmoid"
    _ftorch_shown = ()


class Threshold(FunctionModule):
    """``x`` where it is greater than ``threshold``, else ``value``."""

    _ftorch_function = "threshold"
    _ftorch_arguments = ("threshold", "value", "inplace")

    def __init__(self, threshold, value, inplace=False):
        super().__init__(threshold, value, inplace)


class RReLU(FunctionModule):
    """`LeakyReLU` with a slope drawn from [lower, upper) in training, their mean otherwise."""

    _ftorch_function = "rrelu"
    _ftorch_arguments = ("lower", "upper", "training", "inplace")
    _ftorch_shown = ("lower=", "upper=", "inplace=")

    def __init__(self, lower=1.0 / 8, upper=1.0 / 3, inplace=False):
        super().__init__(lower, upper, True, inplace)


class Hardtanh(FunctionModule):
    """Clamps to [min_val, max_val].

    Raises:
        ValueError: ``max_val`` is not greater than ``min_val``.
    """

    _ftorch_function = "hardtanh"
    _ftorch_arguments = ("min_val", "max_val", "inplace")

    def __init__(self, min_val=-1.0, max_val=1.0, inplace=False, min_value=None, max_value=None):
        for name, value in (("min_val", min_value), ("max_val", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{name}ue` is deprecated and renamed to `{name}`",
                    FutureWarning,
                    stacklevel=2,
                )
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        super().__init__(min_val, max_val, inplace)
        if not self.max_val > self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")


class ReLU6(Hardtanh):
    """``min(max(0, x), 6)``."""

    _ftorch_shown = ("inplace=",)

    def __init__(self, inplace=False):
        super().__init__(0.0, 6.0, inplace)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``."""

    def forward(self, input):
        return torch.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input):
        return torch.tanh(input)


class _ExponentialUnit(FunctionModule):
    _ftorch_arguments = ("alpha", "inplace")

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__(alpha, inplace)


class ELU(_ExponentialUnit):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""

    _ftorch_function = "elu"


class CELU(_ExponentialUnit):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""

    _ftorch_function = "celu"


class GLU(FunctionModule):
    """Halves the input along ``dim`` and returns ``first * sigmoid(second)``."""

    _ftorch_function = "glu"
    _ftorch_arguments = ("dim",)

    def __init__(self, dim=-1):
        super().__init__(dim)


class GELU(FunctionModule):
    """``x`` times the normal distribution function of ``x``.

    Args:
        approximate: ``"none"`` or ``"tanh"``.
    """

    _ftorch_function = "gelu"
    _ftorch_arguments = ("approximate",)

    def __init__(self, approximate="none"):
        super().__init__(approximate)

    def forward(self, input):
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self):
        return f"approximate={self.approximate!r}"


class _Shrink(FunctionModule):
    _ftorch_arguments = _ftorch_shown = ("lambd",)

    def __init__(self, lambd=0.5):
        super().__init__(lambd)


class Hardshrink(_Shrink):
    """``x`` where its size is greater than ``lambd``, else 0."""

    _ftorch_function = "hardshrink"


class Softshrink(_Shrink):
    """Moves ``x`` towards 0 by ``lambd``, and not beyond."""

    _ftorch_function = "softshrink"


class LeakyReLU(FunctionModule):
    """``x`` where positive, else ``negative_slope * x``."""

    _ftorch_function = "leaky_relu"
    _ftorch_arguments = ("negative_slope", "inplace")

    def __init__(self, negative_slope=1e-2, inplace=False):
        super().__init__(negative_slope, inplace)


class _WithoutArguments(FunctionModule):
    def __init__(self, *args, **kwargs):
        Module.__init__(self, *args, **kwargs)


class LogSigmoid(_WithoutArguments):
    """``log(sigmoid(x))``."""

    _ftorch_function = "logsigmoid"


class Softsign(_WithoutArguments):
    """``x / (1 + |x|)``."""

    _ftorch_function = "softsign"


class Tanhshrink(_WithoutArguments):
    """``x - tanh(x)``."""

    _ftorch_function = "tanhshrink"


class Softplus(FunctionModule):
    """``log(1 + exp(beta * x)) / beta``; linear where ``beta * x`` is above ``threshold``."""

    _ftorch_function = "softplus"
    _ftorch_arguments = ("beta", "threshold")

    def __init__(self, beta=1.0, threshold=20.0):
        super().__init__(beta, threshold)


class PReLU(Module):
    """`LeakyReLU` with a learned slope: one, or one per channel (dimension 1).

    Args:
        num_parameters: 1, or the number of channels.
        init: the slopes' initial value.
    """

    def __init__(self, num_parameters=1, init=0.25, device=None, dtype=None):
        self.num_parameters = num_parameters
        super().__init__()
        self.init = init
        self.weight = new_parameter(num_parameters, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the slopes to their initial value."""
        init.constant_(self.weight, self.init)

    def forward(self, input):
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class _AlongDimension(Module):
    _ftorch_function: str

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def forward(self, input):
        return getattr(F, self._ftorch_function)(input, self.dim, _stacklevel=5)

    def extra_repr(self):
        return f"dim={self.dim}"


class Softmax(_AlongDimension):
    """``exp(x) / sum(exp(x))`` along ``dim``."""

    _ftorch_function = "softmax"


class Softmin(_AlongDimension):
    """`Softmax` of ``-x``."""

    _ftorch_function = "softmin"


class LogSoftmax(_AlongDimension):
    """``log(softmax(x))`` along ``dim``."""

    _ftorch_function = "log_softmax"


class Softmax2d(Module):
    """`Softmax` over the channels of (N, C, H, W) or (C, H, W).

    Raises:
        ValueError: another number of dimensions.
    """

    def forward(self, input):
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3, _stacklevel=5)
