"""The front end of interpolation."""

from __future__ import annotations

import math

import numpy as np

from ...core import api as torch
from ...core.composite import composite
from ...core.user_warnings import warn_user
from ...tensor import TensorBase

_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_RANK = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}


def _is_integer(value):
    return isinstance(value, (int, np.integer)) or (isinstance(value, TensorBase) and not value.dtype.is_floating_point)


def _per_dimension(name, value, input, as_text):
    """``value`` for every spatial dimension."""
    nd = input.dim() - 2
    if not isinstance(value, (tuple, list)):
        return (value,) * nd
    if len(value) != nd:
        shown = "output size of" if name == "size" else f"{name} of shape"
        symbols = "output size in (o1, o2, ...,oK)" if name == "size" else f"{name} in (s1, s2, ...,sK)"
        raise ValueError(
            f"Input and {'output' if name == 'size' else name} must have the same number of spatial "
            f"dimensions, but got input with spatial dimensions of {list(input.shape[2:])} and "
            f"{shown} {value}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{symbols} format."
        )
    if as_text and not all(_is_integer(v) for v in value):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, "
            f"int], but got size with types {[type(v) for v in value]}"
        )
    if as_text:
        return tuple(
            v.item() if isinstance(v, np.integer) or isinstance(v, TensorBase) and v.numel() == 1 else v for v in value
        )
    return tuple(value)


def _check_mode(input, mode, align_corners, antialias):
    linear = mode in _RANK and mode != "lanczos"
    if align_corners is not None and not linear and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )


def _check_rank(input, mode, antialias):
    if input.dim() not in (3, 4, 5) or (
        mode not in _RANK and mode not in ("nearest", "area", "nearest-exact")
    ):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the "
            f"modes: {_MODES} (got {mode})"
        )
    wanted = _RANK.get(mode, input.dim())
    if wanted != input.dim():
        raise NotImplementedError(
            f"Got {input.dim()}D input, but {mode} mode needs {wanted}D input"
        )
    if mode == "lanczos" and not antialias:
        raise ValueError("Lanczos mode requires antialias=True")


@composite(public="nn.functional")
def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None,
                recompute_scale_factor=None, antialias=False):
    """Resamples the spatial dimensions of (N, C, ...).

    Args:
        size, scale_factor: the result's size, or by what to multiply the input's; one of the two.
        mode: nearest, nearest-exact, linear, bilinear, bicubic, trilinear, area, lanczos.
        align_corners: whether corner elements keep their place, for the linear and cubic modes.
        recompute_scale_factor: positions follow from the sizes, not from ``scale_factor``.
        antialias: filters as wide as the distance of the results (bilinear, bicubic, lanczos).

    Raises:
        ValueError, NotImplementedError: for arguments that do not go together.

    >>> import ftorch as torch
    >>> torch.nn.functional.interpolate(torch.tensor([[[1., 2.]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    _check_mode(input, mode, align_corners, False)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    scales = None
    if size is not None:
        size = _per_dimension("size", size, input, True)
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    else:
        scales = _per_dimension("scale_factor", scale_factor, input, False)
        size = tuple(math.floor(float(n * s)) for n, s in zip(input.shape[2:], scales))
        if any(not -(1 << 63) <= n < 1 << 63 for n in size):
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
        scales = tuple(map(float, scales))
        if recompute_scale_factor or mode == "area":
            scales = None
    _check_mode(input, mode, align_corners, antialias)
    _check_rank(input, mode, antialias)
    if mode == "area":
        pool = getattr(torch.nn.functional, f"adaptive_avg_pool{input.dim() - 2}d")
        return pool(input, size)
    return torch._interpolate(input, size, mode, bool(align_corners), scales, antialias)


def _deprecated(name, instead):
    warn_user(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.{instead}` instead.",
    )


@composite(public="nn.functional")
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The deprecated name of `interpolate`."""
    _deprecated("upsample", "interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


@composite(public="nn.functional")
def upsample_nearest(input, size=None, scale_factor=None):
    """The deprecated name of ``interpolate(mode="nearest")``."""
    _deprecated("upsample_nearest", "interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


@composite(public="nn.functional")
def upsample_bilinear(input, size=None, scale_factor=None):
    """The deprecated name of bilinear `interpolate` with aligned corners."""
    _deprecated("upsample_bilinear", "interpolate")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
