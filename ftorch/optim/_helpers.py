"""What optimizers written for PyTorch import from ``torch.optim.optimizer`` besides the class.

The choices between implementations that they make have one answer here: every step is one program.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, TypeAlias

from ..autograd import set_grad_enabled
from ..eager.core import api as torch
from ..eager.tensor import Tensor, TensorBase

StateDict: TypeAlias = dict[str, Any]
ParamsT: TypeAlias = (
    Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
)


def _use_grad_for_differentiable(func):
    """A ``step`` that records as its ``differentiable`` default says."""

    @functools.wraps(func)
    def step(self, *args, **kwargs):
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return step


def _get_value(x):
    """The number of a tensor."""
    return x.item() if isinstance(x, TensorBase) else x


def _to_scalar(x):
    """A tensor of one element without dimensions; numbers as they are."""
    return x.squeeze() if isinstance(x, TensorBase) and x.dim() != 0 else x


def _stack_if_compiling(x):
    return x


def _default_to_fused_or_foreach(params, differentiable: bool, use_fused: bool = False):
    """(fused, foreach): neither, on the CPU as in PyTorch."""
    return False, False


def _view_as_real(params, *state_and_grads) -> None:
    """Puts real views in the place of complex parameters, states and gradients, in their lists."""
    for i, p in enumerate(params):
        if p.is_complex():
            for values in (params, *state_and_grads):
                values[i] = torch.view_as_real(values[i])


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """A decorator that changes nothing: compiled steps support what eager ones do."""
    return lambda function: function
