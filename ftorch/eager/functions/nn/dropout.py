"""Dropout. The noise is drawn exactly as PyTorch draws it, so the numbers are PyTorch's."""

from __future__ import annotations

import math

from ... import sampling
from ...call.op import special
from ...core import api as torch
from ...core import dtype as dtypes
from ...core import formats
from ...core.composite import composite
from ...core.user_warnings import warn_user
from ...dispatch.randomness import LIKE, randomized
from ...tensor import modes
from ..random_inplace import is_simple, new_like

# SELU's saturation value, -scale * alpha: what alpha dropout replaces elements by.
_SATURATION = 1.7580993408473766


def _dropped(input, p, *, inplace, per_channel=False, alpha=False):
    """``input`` with elements (or channels) dropped with probability ``p``."""
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if p == 0 or input.numel() == 0:
        return input
    if p == 1:
        zero = input.new_zeros(())
        return input.mul_(zero) if inplace else input * zero
    noise = _kept(_one_per_channel(input) if per_channel else input, p)
    if not alpha:
        noise.div_(1 - p)
        return input.mul_(noise) if inplace else input * noise
    a = 1.0 / math.sqrt((_SATURATION * _SATURATION * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(_SATURATION * a).add_(_SATURATION * a * p)
    noise.mul_(a)
    return input.mul_(noise).add_(shift) if inplace else (input * noise).add_(shift)


@randomized(LIKE)
def _kept(like, p, generator=None):
    """Which elements are kept, as ones and zeros."""
    within = modes.transforming or modes.functionalizing
    if generator is None and not within and is_simple(like):
        return new_like(like, sampling.bernoulli, 1 - p)
    transformed = within or (special[0] and modes.levels and not any(level.sees_aten for level in modes.levels))
    in_order = formats.contiguous_format if transformed else None  # as PyTorch's parts draw, which transforms see
    return torch.empty_like(like, memory_format=in_order).bernoulli_(1 - p, generator=generator)


def _one_per_channel(input):
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return input.new_empty((*input.shape[:2], *(1,) * (input.dim() - 2)))


def _check(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@composite(public="nn.functional")
def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes elements with probability ``p`` and scales the others by ``1 / (1 - p)``.

    Raises:
        ValueError: unless ``p`` is between 0 and 1.

    >>> import ftorch as torch
    >>> _ = torch.manual_seed(0)
    >>> torch.nn.functional.dropout(torch.ones(4), 0.5)
    tensor([0., 0., 2., 0.])
    """
    _check(p)
    return _dropped(input, p, inplace=inplace) if training else input


@composite(public="nn.functional")
def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance of standardized inputs (for SELU networks)."""
    _check(p)
    return _dropped(input, p, inplace=inplace, alpha=True) if training else input


@composite(public="nn.functional")
def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """`alpha_dropout` of whole channels."""
    _check(p)
    return (torch.feature_alpha_dropout_ if inplace else torch.feature_alpha_dropout)(input, p, training)


def _channel_dropout(input, p, training, inplace, unbatched):
    """Dropout of channels; an ``unbatched`` input gets a batch of one for it."""
    drop = torch.feature_dropout_ if inplace else torch.feature_dropout  # which graphs keep whole
    if not unbatched:
        return drop(input, p, training)
    out = drop(input.unsqueeze_(0) if inplace else input.unsqueeze(0), p, training)
    return out.squeeze_(0) if inplace else out.squeeze(0)


@composite(public="nn.functional")
def dropout1d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of (N, C, L) or (C, L).

    Raises:
        RuntimeError: for inputs of other ranks.
    """
    _check(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial dimension, "
            "a channel dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
        )
    return _channel_dropout(input, p, training, inplace, input.dim() == 2)


def _warn_rank(name, input, ranks, spatial):
    if input.dim() not in ranks:
        kept = "dropout" if input.dim() < 2 else "feature_dropout"
        warn_user(
            f"{name}: Received a {input.dim()}-D input to {name}, which is deprecated and will "
            "result in an error in a future release. To retain the behavior and silence this "
            f"warning, please use {kept} instead. Note that {name} exists to provide "
            f"channel-wise dropout on inputs with {spatial} spatial dimensions, a channel "
            "dimension, and an optional batch dimension (i.e. "
            f"{ranks[0]}D or {ranks[1]}D inputs).",
        )


@composite(public="nn.functional")
def dropout2d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of (N, C, H, W); a 3-D input is taken as (N, C, L)."""
    _check(p)
    _warn_rank("dropout2d", input, (3, 4), 2)
    if input.dim() == 3:
        warn_user(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout "
            "behavior is desired - input is interpreted as shape (N, C, L), where C is the channel "
            "dim. This behavior will change in a future release to interpret the input as one "
            "without a batch dimension, i.e. shape (C, H, W). To maintain the 1D channel-wise "
            "dropout behavior, please switch to using dropout1d instead.",
        )
    return _channel_dropout(input, p, training, inplace, unbatched=False)


@composite(public="nn.functional")
def dropout3d(input, p=0.5, training=True, inplace=False):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    _check(p)
    _warn_rank("dropout3d", input, (4, 5), 3)
    return _channel_dropout(input, p, training, inplace, input.dim() != 5)


# --- torch.dropout and its kin, with ATen's signature --------------------------------------


def _declare(name, inplace, **kind):
    def function(input, p, train):
        if not train:
            return input
        return _dropped(input, p, inplace=inplace, **kind)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`torch.nn.functional.{name.rstrip('_')}` with ATen's signature."
    composite(name=name)(function)


for _name, _kind in {
    "dropout": {},
    "feature_dropout": {"per_channel": True},
    "alpha_dropout": {"alpha": True},
    "feature_alpha_dropout": {"per_channel": True, "alpha": True},
}.items():
    _declare(_name, False, **_kind)
    _declare(_name + "_", True, **_kind)


@composite()
def native_dropout(input, p, train):
    """The result of dropout and the mask of what it kept."""
    if not train:
        return input, torch.ones_like(input, dtype=dtypes.bool)
    kept = _kept(input, p)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return input * kept * scale, kept.bool()
