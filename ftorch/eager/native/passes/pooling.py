"""Max pooling (``pool.cpp``): the primitives of `ftorch.eager.kernels.nn.pooling` as custom calls."""

from __future__ import annotations

from .. import call
from .views import in_three_dimensions

_FEW = 1024  # elements that XLA pools sooner, with what is around


def maximum(eqn, inputs, origins):
    """The maxima of the windows of planes."""
    out = eqn.outvars[0].aval
    if origins.is_few(inputs[0].size, _FEW) or out.size == 0:
        return None
    return [call("ftorch_max_pool", out, *inputs, **_attributes(eqn.params["window"]))]


def gradient(eqn, inputs, origins, *, chain):
    """Its gradient, with that of a rectifier in front of it: where the maximum is not positive there is none."""
    out, (grad, x) = eqn.outvars[0].aval, inputs
    if origins.is_few(out.size, _FEW) or out.size == 0 or grad.size == 0:
        return None
    masked = chain.take_mask(out.shape, x, origins)
    return [call("ftorch_max_pool_gradient", out, grad, x, **_attributes(eqn.params["window"]), masked=[masked])]


def _attributes(window):
    return in_three_dimensions(
        extent=(window.extent, 1), out=(window.out, 1), window=(window.kernel, 1),
        stride=(window.stride, 1), low=(window.padding, 0), dilation=(window.dilation, 1),
    )
