"""Window functions: ``torch.hann_window`` and its like, and ``torch.signal.windows``."""

from __future__ import annotations

import math

from ..core import api, formats
from ..core import dtype as dtypes
from ..core.composite import composite
from ..tensor import new_leaf
from ._arguments import as_dtype, integer

# --- torch.*_window ------------------------------------------------------------------


def _window(name, length, periodic, dtype, layout, device, requires_grad, shape):
    """A window of the top-level functions.

    A periodic window is one element of a longer, symmetric one shorter.

    Args:
        shape: ``shape(positions, last)`` gives the window at positions 0 to last.
    """
    length = integer(name, "window_length", 1, length)
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    dtype = as_dtype(name, dtype) or dtypes.get_default_dtype()
    if dtype.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtype.scalar_name}'")
    if not dtype.is_floating_point:
        raise RuntimeError(
            f"{name} expects floating point dtypes, got: TensorOptions(dtype={dtype.c_name}, device=cpu, layout=Strided "
            "(default), requires_grad=false (default), pinned_memory=false, memory_format=(nullopt))"
        )
    if length <= 1:
        window = api.ones(length, dtype=dtype, layout=layout, device=device)
    else:
        total = length + 1 if periodic else length
        window = shape(api.arange(total, dtype=dtype, device=device), total - 1)[:length].clone()
    return new_leaf(window, requires_grad)


@composite()
def hann_window(window_length, periodic=True, *, dtype=None, layout=None, device=None,
                pin_memory=False, requires_grad=False):
    """A raised cosine (``torch.hann_window``).

    Args:
        periodic: leave out the last element of the symmetric window, as Fourier transforms want.

    Raises:
        RuntimeError: for a negative length or a dtype that is not floating point.

    >>> import ftorch as torch
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window(
        "hann_window", window_length, periodic, dtype, layout, device, requires_grad,
        lambda n, last: (n * (2 * math.pi / last)).cos() * -0.5 + 0.5,
    )


@composite()
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None,
                   device=None, pin_memory=False, requires_grad=False):
    """``alpha - beta * cos`` (``torch.hamming_window``): see `hann_window`."""
    return _window(
        "hamming_window", window_length, periodic, dtype, layout, device, requires_grad,
        lambda n, last: (n * (2 * math.pi / last)).cos() * -beta + alpha,
    )


@composite()
def blackman_window(window_length, periodic=True, *, dtype=None, layout=None, device=None,
                    pin_memory=False, requires_grad=False):
    """Blackman's sum of cosines (``torch.blackman_window``): see `hann_window`."""

    def shape(n, last):
        x = n * (math.pi / last)
        return (x * 4).cos() * 0.08 - (x * 2).cos() * 0.5 + 0.42

    return _window(
        "blackman_window", window_length, periodic, dtype, layout, device, requires_grad, shape
    )


@composite()
def bartlett_window(window_length, periodic=True, *, dtype=None, layout=None, device=None,
                    pin_memory=False, requires_grad=False):
    """A triangle (``torch.bartlett_window``): see `hann_window`."""

    def shape(n, last):
        rising = n * (2.0 / last)
        return api.where(n <= last // 2, rising, 2 - rising)

    return _window(
        "bartlett_window", window_length, periodic, dtype, layout, device, requires_grad, shape
    )


def _kaiser(x, beta):
    """Kaiser's window at places from -1 to 1."""
    beta_of_x = beta * (1 - x * x).clamp(min=0).sqrt()
    scale = api.special.i0(api.full((), float(beta), dtype=x.dtype, device=x.device))
    return api.special.i0(beta_of_x) / scale


@composite()
def kaiser_window(window_length, periodic=True, beta=12.0, *, dtype=None, layout=None, device=None,
                  pin_memory=False, requires_grad=False):
    """Kaiser's window of Bessel functions (``torch.kaiser_window``): see `hann_window`."""
    return _window(
        "kaiser_window", window_length, periodic, dtype, layout, device, requires_grad,
        lambda n, last: _kaiser((n - last / 2) / (last / 2), beta),
    )


# --- torch.signal.windows ------------------------------------------------------------


def _signal_window(name, M, sym, dtype, layout, device, requires_grad, shape):
    """A window of ``torch.signal.windows``.

    Args:
        shape: ``shape(linspace, last, M)`` gives the window; ``linspace(a, b)`` makes M numbers of
            the window's dtype, ``last`` is the length of the window's period.
    """
    dtype = as_dtype(name, dtype) or dtypes.get_default_dtype()
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if layout is not None and layout is not formats.strided:
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    if dtype not in (dtypes.float32, dtypes.float64):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if M <= 1:
        return api.ones(M, dtype=dtype, device=device, requires_grad=requires_grad)

    def linspace(start, end):
        return api.linspace(start, end, M, dtype=dtype, device=device)

    return new_leaf(shape(linspace, M - 1 if sym else M, M), requires_grad)


@composite(public="signal.windows")
def general_cosine(M, *, a, sym=True, dtype=None, layout=None, device=None,
                   requires_grad=False):
    """A sum of cosines with alternating signs (``torch.signal.windows.general_cosine``).

    Args:
        a: the coefficients.
        sym: whether the window is symmetric or periodic.

    Raises:
        TypeError, ValueError: for coefficients that are not a sequence, or none. ValueError: for a
            negative length and other dtypes than float32 and float64.
    """
    _check_coefficients(M, a, dtype, layout)

    def shape(linspace, last, m):
        k = linspace(0, (m - 1) * 2 * math.pi / last)
        signs = [(-1) ** i * w for i, w in enumerate(a)]
        orders = api.arange(len(a), dtype=k.dtype, device=k.device)
        weights = api.tensor(signs, dtype=k.dtype, device=k.device)
        return (weights.unsqueeze(-1) * (orders.unsqueeze(-1) * k).cos()).sum(0)

    return _signal_window("general_cosine", M, sym, dtype, layout, device, requires_grad, shape)


def _check_coefficients(M, a, dtype, layout):
    if M > 1 and dtype in (None, dtypes.float32, dtypes.float64):
        if not isinstance(a, (tuple, list)):
            raise TypeError("Coefficients must be a list/tuple")
        if not a:
            raise ValueError("Coefficients cannot be empty")


@composite(public="signal.windows")
def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=None, device=None,
                    requires_grad=False):
    """``alpha - (1 - alpha) * cos`` (``torch.signal.windows.general_hamming``)."""
    return general_cosine(
        M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )


@composite(public="signal.windows")
def hann(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """A raised cosine (``torch.signal.windows.hann``).

    >>> import ftorch as torch
    >>> torch.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )


@composite(public="signal.windows")
def hamming(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """The Hamming window (``torch.signal.windows.hamming``)."""
    return general_hamming(
        M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


@composite(public="signal.windows")
def blackman(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """Blackman's window (``torch.signal.windows.blackman``)."""
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )


@composite(public="signal.windows")
def nuttall(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """Nuttall's four-term window (``torch.signal.windows.nuttall``)."""
    return general_cosine(
        M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout,
        device=device, requires_grad=requires_grad,
    )


@composite(public="signal.windows")
def bartlett(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """A triangle (``torch.signal.windows.bartlett``)."""

    def shape(linspace, last, m):
        return 1 - linspace(-1, -1 + 2 * (m - 1) / last).abs()

    return _signal_window("bartlett", M, sym, dtype, layout, device, requires_grad, shape)


@composite(public="signal.windows")
def cosine(M, *, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """Half a period of a sine (``torch.signal.windows.cosine``)."""

    def shape(linspace, last, m):
        step = math.pi / (last + 1)
        return linspace(0.5 * step, (m - 0.5) * step).sin()

    return _signal_window("cosine", M, sym, dtype, layout, device, requires_grad, shape)


@composite(public="signal.windows")
def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=None, device=None,
                requires_grad=False):
    """Decay from a center on both sides (``torch.signal.windows.exponential``).

    Raises:
        ValueError: for a decay that is not positive, or a center given for a symmetric window.
    """
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")

    def shape(linspace, last, m):
        middle = last / 2.0 if center is None else center
        return (-linspace(-middle / tau, (-middle + m - 1) / tau).abs()).exp()

    return _signal_window("exponential", M, sym, dtype, layout, device, requires_grad, shape)


@composite(public="signal.windows")
def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """The bell curve (``torch.signal.windows.gaussian``).

    Raises:
        ValueError: for a standard deviation that is not positive.
    """
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")

    def shape(linspace, last, m):
        scale = 1 / (std * math.sqrt(2))
        x = linspace(-last / 2.0 * scale, (-last / 2.0 + m - 1) * scale)
        return (-(x**2)).exp()

    return _signal_window("gaussian", M, sym, dtype, layout, device, requires_grad, shape)


@composite(public="signal.windows")
def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=None, device=None, requires_grad=False):
    """Kaiser's window (``torch.signal.windows.kaiser``).

    Raises:
        ValueError: for a negative ``beta``.
    """
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def shape(linspace, last, m):
        return _kaiser(linspace(-1, -1 + 2 * (m - 1) / last), beta)

    return _signal_window("kaiser", M, sym, dtype, layout, device, requires_grad, shape)
