"""Discrete Fourier transforms: one rule for all of them.

A transform is described by what it does to its last dimension (complex to complex, real to
complex, complex to real) and its direction; the other dimensions are complex to complex.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import lax

from ...core.geometry import contiguous_stride, permuted_stride
from ...core.registry import op
from .._common import dtype_name, is_complex, wrap_dim

_FFT, _IFFT, _RFFT, _IRFFT = (
    lax.FftType.FFT, lax.FftType.IFFT, lax.FftType.RFFT, lax.FftType.IRFFT,
)
_NORMS = (None, "backward", "ortho", "forward")


@dataclass(frozen=True)
class _Kind:
    """A family of transforms.

    Attributes:
        summary: what it is, for the documentation.
        last: XLA's transform of the last dimension.
        others: XLA's transform of the other dimensions.
        is_inverse: whether "backward" normalisation is the one that scales.
        conjugates: whether the half spectrum is the conjugate of what XLA has (hfft, ihfft).
    """

    summary: str
    last: lax.FftType
    others: lax.FftType
    is_inverse: bool
    conjugates: bool = False

    @property
    def takes_real(self):
        return self.last == _RFFT

    @property
    def returns_real(self):
        return self.last == _IRFFT


KINDS = {
    "fft": _Kind(
        "The discrete Fourier transform",
        _FFT, _FFT, is_inverse=False,
    ),
    "ifft": _Kind(
        "The inverse of `torch.fft.fft`",
        _IFFT, _IFFT, is_inverse=True,
    ),
    "rfft": _Kind(
        "The half of a real signal's Fourier transform that determines it",
        _RFFT, _FFT, is_inverse=False,
    ),
    "irfft": _Kind(
        "The real signal with a given half spectrum: the inverse of `torch.fft.rfft`",
        _IRFFT, _IFFT, is_inverse=True,
    ),
    "hfft": _Kind(
        "The real Fourier transform of a signal with Hermitian symmetry, given by its half",
        _IRFFT, _FFT, is_inverse=False, conjugates=True,
    ),
    "ihfft": _Kind(
        "The inverse of `torch.fft.hfft`",
        _RFFT, _IFFT, is_inverse=True, conjugates=True,
    ),
}


def _scale(kind, sizes, norm):
    """The factor to apply after XLA's transforms, whose inverses divide already."""
    total = math.prod(sizes)
    *others, last = sizes
    divided = last if kind.last in (_IFFT, _IRFFT) else 1
    divided *= math.prod(others) if kind.others == _IFFT else 1
    if norm == "ortho":
        return divided / math.sqrt(total)
    divides = (norm or "backward") == ("backward" if kind.is_inverse else "forward")
    return divided / (total if divides else 1)  # 1 where they are equal: of a product of their roundings it is not always


def _resize(x, dim, size):
    """Cuts a dimension, or pads it with zeros: by one step, which serves all sizes."""
    edges = [(0, 0, 0)] * x.ndim
    edges[dim] = (0, size - x.shape[dim], 0)
    return lax.pad(x, jnp.zeros((), x.dtype), edges)


def _along(x, dims, type_, lengths):
    """XLA's transform over some dimensions; it takes at most three at a time."""
    for start in range(0, len(dims), 3):
        part = dims[start : start + 3]
        last = range(x.ndim - len(part), x.ndim)
        x = lax.fft(jnp.moveaxis(x, part, last), type_, lengths[start : start + 3])
        x = jnp.moveaxis(x, last, part)
    return x


def transform(kind, x, dims, sizes, norm):
    """A transform over ``dims``, in the order given, of signals of ``sizes``."""
    if norm not in _NORMS:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    for size in sizes:
        if size < 1:
            raise RuntimeError(f"Invalid number of data points ({size}) specified")
    dims, sizes = tuple(dims), tuple(sizes)
    taken = sizes[:-1] + (sizes[-1] // 2 + 1 if kind.returns_real else sizes[-1],)
    for dim, size in zip(dims, taken, strict=True):
        x = _resize(x, dim, size)
    if not kind.takes_real:
        x = x.astype(jnp.promote_types(x.dtype, jnp.complex64))
    if not x.size:
        return _empty(kind, x, dims, sizes)
    *others, last = dims
    others, lengths = tuple(others), sizes[:-1]
    if kind.returns_real:
        x = _along(x, others, kind.others, lengths)
        x = _along(jnp.conj(x) if kind.conjugates else x, (last,), kind.last, sizes[-1:])
    else:
        x = _along(x, (last,), kind.last, sizes[-1:])
        x = _along(jnp.conj(x) if kind.conjugates else x, others, kind.others, lengths)
    scale = _scale(kind, sizes, norm)
    return x if scale == 1 else x * np.asarray(scale, x.real.dtype)


def _empty(kind, x, dims, sizes):
    shape = list(x.shape)
    shape[dims[-1]] = sizes[-1] // 2 + 1 if kind.takes_real else sizes[-1]
    dtype = x.real.dtype if kind.returns_real else jnp.promote_types(x.dtype, jnp.complex64)
    return jnp.zeros(shape, dtype)


def _require_dtype(x):
    if x.dtype.itemsize < 4:
        raise RuntimeError(f"Unsupported dtype {dtype_name(x.dtype)}")


def _signal_size(kind, x, dim):
    """How long the signal is that a dimension holds, if nobody says."""
    return 2 * (x.shape[dim] - 1) if kind.returns_real else x.shape[dim]


def _wrap(dim, ndim):
    """`wrap_dim` for dimensions that must be there."""
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, ndim)


def _order(strides, shape, dims):
    """Strides after transforms over ``dims``: at most three at a time, which end up innermost, as PyTorch leaves them."""
    dims = list(dims)
    while dims:
        part, dims = dims[-3:], dims[:-3]
        others = sorted(set(range(len(shape))) - set(part), key=lambda d: -strides[d])
        strides = permuted_stride(shape, (*others, *part))
    return strides


def _layout(kind, signal):
    """The layout (see `op`) of a transform: ``signal`` gives its dimensions and sizes."""

    def strides(inputs, static, shapes):
        g, shape = inputs[0], shapes[0]
        dims, sizes = signal(kind, g, static)
        if not dims or 0 in shape:
            return [None]
        taken = [*sizes[:-1], sizes[-1] // 2 + 1 if kind.returns_real else sizes[-1]]
        found = g.stride
        if any(size > g.shape[d] for d, size in zip(dims, taken, strict=True)):  # it is padded
            found = contiguous_stride(g.shape)
        *others, last = dims
        others.sort(key=lambda d: -found[d])
        if not (kind.takes_real or kind.returns_real):
            return [_order(found, shape, sorted(dims, key=lambda d: -found[d]))]
        if kind.takes_real and not kind.conjugates:
            return [_order(found, shape, (*others, last))]
        steps = ((last,), others) if kind.takes_real else (others, (last,))
        for step in steps:
            found = _order(found, shape, step)
        return [found]

    return strides


_NORM = """norm: "backward" (the default: the inverse divides by the number of points), "forward"
            (the forward transform does) or "ortho" (both by its root)."""
_ARGS_1D = f"""n: the length of the signal, which is cut or padded with zeros; dim: its dimension.
        {_NORM}"""
_ARGS_ND = f"""s: the lengths of the signal, -1 where they stay; dim: its dimensions, the last of
            which is the halved one. By default all, or the last ``len(s)`` (in 2-D: two).
        {_NORM}"""


def _document(declared, kind, where, arguments):
    declared.kernel.__doc__ = f"""{kind.summary}, over {where}.

    Args:
        input: integers count as the default dtype.
        {arguments}

    Raises:
        RuntimeError: for a signal without points, half precision, or an unknown ``norm``.
    """


def _declare_1d(name, kind):
    def signal(kind, x, static):
        dim = _wrap(static["dim"], x.ndim)
        return [dim], [_signal_size(kind, x, dim) if static["n"] is None else static["n"]]

    @op(f"fft_{name}(Tensor self, int? n=None, int dim=-1, str? norm=None) -> Tensor",
        promote="float", forms="function out", layout=_layout(kind, signal))
    def declared(self, n, dim, norm):
        _require_dtype(self)
        if kind.takes_real and is_complex(self):
            raise RuntimeError(
                f"{name} expects a real input tensor, but got {dtype_name(self.dtype)}"
            )
        dim = _wrap(dim, self.ndim)
        size = _signal_size(kind, self, dim) if n is None else n
        return transform(kind, self, (dim,), (size,), norm)

    if kind.returns_real:  # what it is made of, and its derivative, differ by whether that is even

        @declared.by_regime
        def _(n):
            return n is not None and n % 2 == 1

    _document(declared, kind, "one dimension", _ARGS_1D)
    return declared


def _listed(value):
    """The ``int[1]`` argument that may be one integer as a list."""
    return (value,) if isinstance(value, int) else value


def _signal(kind, x, s, dims):
    """The dimensions of a transform and the sizes of its signal."""
    s, dims = _listed(s), _listed(dims)
    if dims is None:
        dims = range(x.ndim - len(s), x.ndim) if s is not None else range(x.ndim)
        if s is not None and len(s) > x.ndim:
            raise RuntimeError(
                f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions."
            )
    dims = [_wrap(d, x.ndim) for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError("FFT dims must be unique")
    if s is not None and len(s) != len(dims):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    sizes = [x.shape[d] for d in dims]
    if dims:
        sizes[-1] = _signal_size(kind, x, dims[-1])
    if s is not None:
        sizes = [old if new == -1 else new for old, new in zip(sizes, s, strict=True)]
    return dims, sizes


def _declare_nd(name, kind, dims):
    complex_message = {
        "rfft": "rfftn expects a real-valued input tensor, but got",
        "ihfft": "Only supports floating-point dtypes, but found:",
    }
    base = name[:-1]

    @op(f"fft_{name}(Tensor self, int[1]? s=None, {dims}, str? norm=None) -> Tensor",
        promote="float", forms="function out",
        layout=_layout(kind, lambda kind, x, static: _signal(kind, x, static["s"], static["dim"])))
    def declared(self, s, dim, norm):
        _require_dtype(self)
        if kind.takes_real and is_complex(self):
            raise RuntimeError(f"{complex_message[base]} {dtype_name(self.dtype)}")
        dims, sizes = _signal(kind, self, s, dim)
        if dims:
            return transform(kind, self, dims, sizes, norm)
        if kind.takes_real or kind.returns_real:
            raise RuntimeError(f"{base}n must transform at least one axis")
        return self.astype(jnp.promote_types(self.dtype, jnp.complex64))

    if kind.returns_real:

        @declared.by_regime
        def _(s):
            return s is not None and [n % 2 for n in _listed(s)[-1:]] == [1] and _listed(s)[-1] != -1

    _document(declared, kind, "several dimensions", _ARGS_ND)
    return declared


for _name, _kind in KINDS.items():
    globals()[f"fft_{_name}"] = _declare_1d(_name, _kind)
    globals()[f"fft_{_name}2"] = _declare_nd(f"{_name}2", _kind, "int[1] dim=[-2, -1]")
    globals()[f"fft_{_name}n"] = _declare_nd(f"{_name}n", _kind, "int[1]? dim=None")


def _declare_shift(name, amount, summary):
    @op(f"fft_{name}(Tensor self, int[1]? dim=None) -> Tensor")
    def shift(self, dim):
        dims = range(self.ndim) if dim is None else [wrap_dim(d, self.ndim) for d in _listed(dim)]
        if not dims:
            raise RuntimeError("`shifts` required")
        return jnp.roll(self, [amount(self.shape[d]) for d in dims], tuple(dims))

    shift.kernel.__doc__ = summary
    return shift


fft_fftshift = _declare_shift(
    "fftshift", lambda size: size // 2,
    "A spectrum with frequency zero moved to the middle of the dimensions ``dim`` (default: all).",
)
fft_ifftshift = _declare_shift(
    "ifftshift", lambda size: (size + 1) // 2, "The inverse of `torch.fft.fftshift`."
)
