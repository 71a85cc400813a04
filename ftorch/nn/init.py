"""Initial values of parameters, in PyTorch's order of random numbers."""

from __future__ import annotations

import inspect
import math
import warnings
from functools import wraps

from ..autograd import no_grad
from ..eager.core import api as torch
from ..eager.dispatch import overridable_names, overrides
from ..eager.tensor import Tensor as Tensor

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_",
    "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_",
    "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]

_LINEAR = frozenset(
    f"{kind}{n}d" for kind in ("conv", "conv_transpose") for n in (1, 2, 3)
) | {"linear", "sigmoid"}
_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def _fills(function):
    """Runs an initialiser without recording."""

    @wraps(function)
    def wrapped(*args, **kwargs):
        with no_grad():
            return function(*args, **kwargs)

    return wrapped


def _overridable(function):
    """Asks users' ``__torch_function__`` first: with all arguments as keywords, as PyTorch does."""
    signature = inspect.signature(function)

    @wraps(function)
    def wrapped(*args, **kwargs):
        tensor = args[0] if args else kwargs.get("tensor")
        if overrides.user_mode() or overrides.asks(tensor) and overridable_names.is_users(type(tensor)):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return overrides.handle(wrapped, [tensor], (), dict(bound.arguments))
        return function(*args, **kwargs)

    return wrapped


def calculate_gain(nonlinearity, param=None) -> float:
    """The factor by which a nonlinearity asks for larger initial weights.

    Args:
        nonlinearity: a name of nn.functional: ``"linear"``, ``"relu"``, ``"leaky_relu"`` ...
        param: the negative slope of ``leaky_relu`` (0.01).

    Raises:
        ValueError: an unknown name, or a slope that is not a number.

    >>> import ftorch as torch
    >>> torch.nn.init.calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        slope = 0.01
    elif isinstance(param, (int, float)) and not isinstance(param, bool):
        slope = param
    else:
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + slope**2))


@_overridable
@_fills
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fills with numbers uniform in [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@_overridable
@_fills
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fills with normally distributed numbers."""
    return tensor.normal_(mean, std, generator=generator)


@_fills
def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Fills with numbers of a normal distribution that is cut off outside [a, b]."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect.",
            stacklevel=3,
        )
    share = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    if share > 0.3:
        return _redraw_outside(tensor, mean, std, a, b, generator)
    return _draw_by_rejection(tensor, mean, std, a, b, generator)


# The fills without the checks, as programs written for PyTorch name them.
_no_grad_uniform_, _no_grad_normal_, _no_grad_trunc_normal_ = uniform_, normal_, trunc_normal_


def _normal_cdf(x):
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _redraw_outside(tensor, mean, std, a, b, generator):
    """Draws all values anew, and keeps them where the old ones were outside, until none are."""
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
    values = tensor.normal_(mean, std, generator=generator)
    while bool((outside := (values < low) | (values > high)).any()):
        drawn = torch.empty_like(values).normal_(mean, std, generator=generator)
        values = torch.where(outside, drawn, values)
    return tensor if values is tensor else tensor.copy_(values)


def _draw_by_rejection(tensor, mean, std, a, b, generator):
    """Accepts uniform candidates by their density: for intervals in the distribution's tails."""
    mode = max(a, min(mean, b))
    log_peak = -0.5 * ((mode - mean) / std) ** 2

    def rejected(candidates):
        log_density = candidates.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)
        return torch.empty_like(tensor).uniform_(generator=generator).log_().gt(log_density)

    values = tensor.uniform_(a, b, generator=generator)
    pending = rejected(values)
    while bool(pending.any()):
        candidates = torch.empty_like(tensor).uniform_(a, b, generator=generator)
        values = torch.where(pending, candidates, values)
        pending = torch.where(pending, rejected(candidates), pending)
    return tensor if values is tensor else tensor.copy_(values)


@_overridable
@_fills
def constant_(tensor, val):
    """Fills with ``val``."""
    return tensor.fill_(val)


@_fills
def ones_(tensor):
    """Fills with 1."""
    return tensor.fill_(1.0)


@_fills
def zeros_(tensor):
    """Fills with 0."""
    return tensor.zero_()


@_fills
def eye_(tensor):
    """Fills a matrix with the identity.

    Raises:
        ValueError: the tensor is not a matrix.
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(torch.eye(*tensor.shape))


@_fills
def dirac_(tensor, groups=1):
    """Fills the weight of a convolution such that it hands its input channels through.

    Args:
        tensor: (out, in, ...) with one to three kernel dimensions.
        groups: groups of the convolution, each of which does so.

    Raises:
        ValueError: another number of dimensions, or groups that do not divide ``out``.
    """
    dimensions = tensor.ndimension()
    if dimensions not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = sizes[0] // groups
    tensor.zero_()
    centre = tuple(size // 2 for size in sizes[2:])
    for group in range(groups):
        for d in range(min(per_group, sizes[1])):
            tensor[(group * per_group + d, d, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    receptive = math.prod(tensor.shape[2:])
    return tensor.size(1) * receptive, tensor.size(0) * receptive


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Glorot's uniform values: variance ``gain^2 * 2 / (fan_in + fan_out)``.

    Raises:
        ValueError: fewer than two dimensions.
    """
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Glorot's normal values; see `xavier_uniform_`."""
    std = gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))
    return normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@_overridable
def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """He's uniform values: variance ``gain^2 / fan``.

    Args:
        a: the negative slope of ``leaky_relu``.
        mode: ``"fan_in"`` keeps the variance of activations, ``"fan_out"`` of gradients.
        nonlinearity: see `calculate_gain`.

    Raises:
        ValueError: an unknown mode or nonlinearity, or fewer than two dimensions.
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """He's normal values; see `kaiming_uniform_`."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else normal_(tensor, 0, std, generator)


@_fills
def orthogonal_(tensor, gain=1, generator=None):
    """Fills with a (semi-)orthogonal matrix; further dimensions count as columns.

    Raises:
        ValueError: fewer than two dimensions.
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    if rows < columns:
        flat = flat.t()
    q, r = torch.linalg.qr(flat)
    q = q * torch.diag(r, 0).sign()  # makes the decomposition, and so the draw, unique
    if rows < columns:
        q = q.t()
    tensor.view_as(q).copy_(q)
    return tensor.mul_(gain)


@_fills
def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Fills a matrix with normal values, of which a share of each column is then zero.

    Raises:
        ValueError: the tensor is not a matrix.
    """
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[torch.randperm(rows)[:zeros], column] = 0
    return tensor


def _deprecated(function):
    old, new = function.__name__[:-1], function.__name__

    @wraps(function)
    def wrapped(*args, **kwargs):
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    wrapped.__name__ = wrapped.__qualname__ = old
    wrapped.__doc__ = f"The older name of `{new}`."
    return wrapped


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
