"""Activations of ``torch.nn.functional`` that may work in place, and softmax's legacy signature."""

from __future__ import annotations

import warnings

from ...autograd.tape import rename_node
from ...call.op import call, call_inplace, op_named
from ...core import api as torch
from ...core import formats
from ...core.composite import composite
from ...core.dtype import float64
from ...core.user_warnings import warn_user

_BOTH = ". nn.functional"


def _run(name, input, inplace, *static):
    run = call_inplace if inplace else call
    return run(op_named(name), (input,), static)


# --- with inplace= -------------------------------------------------------------------


def _without_parameters(name):
    def function(input, inplace=False):
        return _run(name, input, inplace)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Applies {name} elementwise; ``inplace=True`` overwrites ``input``."
    composite(public="nn.functional")(function)


for _name in ("relu", "relu6", "selu", "silu", "mish", "hardswish", "hardsigmoid"):
    _without_parameters(_name)


@composite(public=_BOTH, name="relu_")
def relu_(input):
    return _run("relu", input, True)


@composite(public=_BOTH, name="selu_")
def selu_(input):
    return _run("selu", input, True)


@composite(name="selu")
def selu(input):
    return _run("selu", input, False)


@composite(public="nn.functional")
def leaky_relu(input, negative_slope=0.01, inplace=False):
    """``input`` where it is positive, ``negative_slope * input`` elsewhere."""
    return _run("leaky_relu", input, inplace, negative_slope)


@composite(public="nn.functional")
def leaky_relu_(input, negative_slope=0.01):
    return leaky_relu(input, negative_slope, True)


@composite(public="nn.functional")
def elu(input, alpha=1.0, inplace=False):
    """``input`` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""
    return _run("elu", input, inplace, alpha, 1.0, 1.0)


@composite(public="nn.functional")
def elu_(input, alpha=1.0):
    return elu(input, alpha, True)


@composite(public=_BOTH)
def celu(input, alpha=1.0, inplace=False):
    """``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""
    return _run("celu", input, inplace, alpha)


@composite(public=_BOTH)
def celu_(input, alpha=1.0):
    return celu(input, alpha, True)


@composite(public="nn.functional")
def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """``input`` limited to the interval.

    Raises:
        ValueError: if ``min_val`` is greater than ``max_val``.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _run("hardtanh", input, inplace, min_val, max_val)


@composite(public="nn.functional")
def hardtanh_(input, min_val=-1.0, max_val=1.0):
    return hardtanh(input, min_val, max_val, True)


@composite(public=_BOTH)
def threshold(input, threshold, value, inplace=False):
    """``input`` where it is above the threshold, ``value`` elsewhere."""
    return _run("threshold", input, inplace, threshold, value)


@composite(public=_BOTH)
def threshold_(input, threshold, value):
    return _run("threshold", input, True, threshold, value)


@composite(public="nn.functional")
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """Leaky ReLU with slopes drawn from ``[lower, upper)`` in training, their mean otherwise.

    Raises:
        RuntimeError: if ``lower`` is greater than ``upper``.
    """
    return _with_slopes(input, lower, upper, training, inplace, None)


def _with_slopes(input, lower, upper, training, inplace, generator):
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if not training:
        return _of_rrelu(leaky_relu(input, (lower + upper) / 2, inplace), inplace)
    # One number is drawn for each element that needs one, so the random stream is PyTorch's.
    negative = input.detach() <= 0
    count = int(negative.sum())
    drawn = torch.empty(count, dtype=float64, device=input.device).uniform_(lower, upper, generator=generator)
    slopes = torch.ones_like(input.detach()).masked_scatter(negative, drawn.to(input.dtype))
    return _of_rrelu(input.mul_(slopes) if inplace else input * slopes, inplace)


def _of_rrelu(result, inplace):
    """The result, whose node has PyTorch's name."""
    node = result._grad_fn
    if node is not None and type(node).__name__ in ("MulBackward0", "LeakyReluBackward0", "LeakyReluBackward1"):
        rename_node(node, f"RreluWithNoiseBackward{int(inplace)}")
    return result


@composite(public="nn.functional")
def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    return rrelu(input, lower, upper, training, True)


@composite(name="rrelu")
def _rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    return _with_slopes(input, lower, upper, training, False, generator)


@composite(name="rrelu_")
def _rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    return _with_slopes(input, lower, upper, training, True, generator)


# --- softmax -------------------------------------------------------------------------


def _softmax_dim(name, ndim, stacklevel):
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel + 1,
    )
    return 0 if ndim in (0, 1, 3) else 1


@composite(public="nn.functional")
def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """Exponentials of ``input``, scaled to sum to 1 along ``dim``; computed in ``dtype`` if given."""
    if dim is None:
        dim = _softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim, dtype=dtype)


@composite(public="nn.functional")
def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """The logarithm of softmax, computed in one go."""
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim, dtype=dtype)


@composite(public="nn.functional")
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """Softmax of ``-input``."""
    if dim is None:
        dim = _softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim, dtype=dtype)


@composite(public="nn.functional")
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """Samples of the Gumbel-softmax distribution.

    Args:
        logits: unnormalized log probabilities.
        tau: the temperature.
        hard: whether the samples are one-hot; their gradient is then that of the soft ones.
        eps: not used.
        dim: the dimension of the classes.

    >>> import ftorch as torch
    >>> torch.nn.functional.gumbel_softmax(torch.zeros(2, 3), hard=True).sum(1)
    tensor([1., 1.])
    """
    if eps != 1e-10:
        warn_user("`eps` parameter is deprecated and has no effect.")
    noise = -torch.empty_like(logits, memory_format=formats.contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    return torch.zeros_like(logits).scatter_(dim, index, 1.0) - soft.detach() + soft
