"""Frequencies of discrete Fourier transforms, and the padding of short-time ones."""

from __future__ import annotations

from ..core import api as torch
from ..core import dtype as _dtype
from ..core.composite import composite
from ..tensor import new_leaf


def _frequencies(name, n, positions, d, out, dtype, layout, device, requires_grad):
    dtype = _dtype.get_default_dtype() if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    index = torch.cat([torch.arange(*p, dtype=dtype, device=device) for p in positions])
    result = index * (1.0 / (n * d) if n * d else float("inf"))
    if out is not None:
        return out.copy_(result) if out.shape == result.shape else out.set_(result)
    return new_leaf(result, requires_grad)


@composite(public="fft")
def fftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of `fft`'s results for ``n`` samples that are ``d`` apart.

    >>> import ftorch as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    positions = ((0, (n + 1) // 2), (-(n // 2), 0))
    return _frequencies("fftfreq", n, positions, d, out, dtype, layout, device, requires_grad)


@composite(public="fft")
def rfftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
    """The frequencies of `rfft`'s results for ``n`` samples that are ``d`` apart.

    >>> import ftorch as torch
    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    positions = ((0, n // 2 + 1),)
    return _frequencies("rfftfreq", n, positions, d, out, dtype, layout, device, requires_grad)


@composite(forms="function method")
def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True,
         pad_mode="reflect", normalized=False, onesided=None, return_complex=None,
         align_to_window=None):
    """The short-time Fourier transform of signals (L,) or (B, L).

    Args:
        n_fft: the length of a frame.
        hop_length: the distance of frames (default ``n_fft // 4``).
        win_length, window: the window, padded with zeros to ``n_fft``; ones by default.
        center: whether to pad the signal so that frame t is centred at ``t * hop_length``.
        pad_mode: how it is padded, as in `torch.nn.functional.pad`.
        normalized: whether to divide by the root of ``n_fft``.
        onesided: whether to return only the half of the spectrum that determines it (default for
            real signals).
        return_complex: must be given for real signals; False returns real and imaginary parts in a
            last dimension.

    Returns:
        (B?, frequencies, frames).

    >>> import ftorch as torch
    >>> torch.stft(torch.ones(16), 8, window=torch.ones(8), return_complex=True).shape
    torch.Size([5, 9])
    """
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = false")
        ndim, side = input.dim(), n_fft // 2
        # Only batches of channels can be padded by reflection.
        extended = input.view([1] * (3 - ndim) + list(input.shape))
        padded = torch.nn.functional.pad(extended, [side, side], pad_mode)
        input = padded.view(padded.shape[-ndim:])
    return torch._VF.stft(
        input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex,
        align_to_window,
    )
