"""Gradients of convolutions as functions (``torch.nn.grad``).

Convolutions are linear in both operands, so each gradient is a pull-back from any point.

>>> import ftorch as torch
>>> x, w = torch.ones(1, 1, 4), torch.ones(1, 1, 2)
>>> torch.nn.grad.conv1d_weight(x, w.shape, torch.ones(1, 1, 3))
tensor([[[3., 3.]]])
"""

from __future__ import annotations

from ..autograd import enable_grad, is_grad_enabled
from ..autograd import grad as _grad
from ..eager.core import api as torch
from . import functional

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight",
]


def _gradients(n):
    convolution = getattr(functional, f"conv{n}d")

    def pulled(of, input, weight, grad_output, settings):
        graph = is_grad_enabled() and any(t.requires_grad for t in (input, weight, grad_output))
        with enable_grad():
            operands = [t.detach().requires_grad_() if t is of else t for t in (input, weight)]
            out = convolution(*operands, None, *settings)
            return _grad(out, operands[of is weight], grad_output, create_graph=graph)[0]

    def of_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        input = torch.zeros(input_size, dtype=weight.dtype, device=weight.device)
        return pulled(input, input, weight, grad_output, (stride, padding, dilation, groups))

    def of_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        weight = torch.zeros(weight_size, dtype=input.dtype, device=input.device)
        return pulled(weight, input, weight, grad_output, (stride, padding, dilation, groups))

    for function, operand in ((of_input, "input"), (of_weight, "weight")):
        function.__name__ = function.__qualname__ = f"conv{n}d_{operand}"
        function.__doc__ = f"""The gradient of `nn.functional.conv{n}d` for its {operand}.

        Args:
            {operand}_size: the shape of the gradient.
            grad_output: the gradient of the result.
        """
    return of_input, of_weight


conv1d_input, conv1d_weight = _gradients(1)
conv2d_input, conv2d_weight = _gradients(2)
conv3d_input, conv3d_weight = _gradients(3)
