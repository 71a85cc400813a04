"""Short-time Fourier transforms."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...core.geometry import contiguous_stride
from ...core.registry import op
from ...core.user_warnings import warn_once
from .._common import dtype_name, is_complex, is_integral
from ..nn._windows import sizes
from .transforms import KINDS, transform


def _shown_window(window):
    if window is None:
        return "None"
    return f"torch.{dtype_name(window.dtype)}Tensor{{{sizes(window.shape)}}}"


def _shown_call(name, tensor, n_fft, hop_length, win_length, window, **flags):
    """The call as the messages print it."""
    shown = ", ".join(f"{k}={v if v is None else int(v)}" for k, v in flags.items())
    return (
        f"{name}({tensor}, n_fft={n_fft}, hop_length={hop_length}, win_length={win_length}, "
        f"window={_shown_window(window)}, {shown})"
    )


def _framed_window(window, win_length, n_fft, dtype):
    """The window (ones by default) in the middle of a frame."""
    window = jnp.ones((win_length,), dtype) if window is None else window
    left = (n_fft - win_length) // 2
    return jnp.pad(window, (left, n_fft - win_length - left))


def _frame_positions(count, n_fft, hop_length):
    """Where the samples of each frame stand in the signal, ``[count, n_fft]``."""
    return jnp.arange(count)[:, None] * hop_length + jnp.arange(n_fft)


# --- forward ------------------------------------------------------------------------------


def _require_stft(x, call, n_fft, hop_length, win_length, window):
    if is_integral(x):
        raise RuntimeError(f"{call} : expected a tensor of floating point or complex values")
    if x.ndim not in (1, 2):
        raise RuntimeError(f"{call} : expected a 1D or 2D tensor")
    if not 0 < n_fft <= x.shape[-1]:
        raise RuntimeError(f"{call} : expected 0 < n_fft < {x.shape[-1]}, but got n_fft={n_fft}")
    if hop_length <= 0:
        raise RuntimeError(f"{call} : expected hop_length > 0, but got hop_length={hop_length}")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(
            f"{call} : expected 0 < win_length <= n_fft, but got win_length={win_length}"
        )
    if window is not None and window.shape != (win_length,):
        raise RuntimeError(
            f"{call} : expected a 1D window tensor of size equal to win_length={win_length}, but "
            f"got window with size {sizes(window.shape)}"
        )


def _frame_after_frame(inputs, static, shapes):
    """The strides of spectra: the numbers of a frame lie side by side."""
    (shape,) = shapes
    bins = len(shape) - (3 if static["return_complex"] is False else 2)
    stride = list(contiguous_stride((*shape[:bins], shape[bins + 1], shape[bins], *shape[bins + 2 :])))
    stride[bins : bins + 2] = stride[bins + 1], stride[bins]
    return [tuple(stride)]


@op("stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
    "Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, "
    "bool? align_to_window=None) -> Tensor", public="_VF", layout=_frame_after_frame)
def stft(self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex,
         align_to_window):
    """The kernel of ``torch.stft``, for signals that are padded already."""
    hop_length = n_fft >> 2 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    call = _shown_call(
        "stft", f"torch.{dtype_name(self.dtype)}Tensor{sizes(self.shape)}", n_fft, hop_length,
        win_length, window, normalized=normalized, onesided=onesided,
        return_complex=return_complex, align_to_window=align_to_window,
    )
    is_complex_transform = is_complex(self) or (window is not None and is_complex(window))
    return_complex = _complex_result(return_complex, is_complex_transform)
    x = self
    if align_to_window:
        side = (n_fft - win_length) // 2
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(side, side)])
    _require_stft(x, call, n_fft, hop_length, win_length, window)
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied,which is known to "
            "cause spectral leakage. Other windows such as torch.hann_window or "
            "torch.hamming_window are recommended to reduce spectral leakage.To suppress this "
            "warning and use a rectangular window, explicitly set `window=torch.ones(n_fft, "
            "device=<device>)`.",
        )
    if onesided is None:
        onesided = not is_complex_transform
    elif onesided and is_complex_transform:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    count = 1 + (x.shape[-1] - n_fft) // hop_length
    frames = x[..., _frame_positions(count, n_fft, hop_length)]
    frames = frames * _framed_window(window, win_length, n_fft, x.dtype)
    kind = KINDS["rfft" if onesided else "fft"]
    norm = "ortho" if normalized else None
    spectrum = transform(kind, frames, (frames.ndim - 1,), (n_fft,), norm)
    spectrum = jnp.matrix_transpose(spectrum)
    if return_complex:
        return spectrum
    return jnp.stack([spectrum.real, spectrum.imag], axis=-1)


def _complex_result(return_complex, is_complex_transform):
    if return_complex is None:
        if not is_complex_transform:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will "
                "further require that return_complex=True in a future PyTorch release."
            )
        return True
    if not return_complex:
        warn_once(
            "stft with return_complex=False is deprecated. In a future pytorch release, stft will "
            "return complex tensors for all inputs, and return_complex=False will raise an error.\n"
            "Note: you can still call torch.view_as_real on the complex output to recover the old "
            "return format.",
        )
    return return_complex


# --- inverse ------------------------------------------------------------------------------


@op("istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
    "Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, "
    "int? length=None, bool return_complex=False) -> Tensor", forms="function method")
def istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
          return_complex):
    """The signal that a short-time Fourier transform came from, by overlapping and adding.

    Args:
        input: (frequencies, frames) or (B, frequencies, frames), as `torch.stft` returns them.
        length: of the result; by default all that the frames cover.
        return_complex: whether the signal was complex.
        the others: as for `torch.stft`.

    Raises:
        RuntimeError: if the windows leave a sample out.

    >>> import ftorch as torch
    >>> w, x = torch.ones(8), torch.arange(16.0)
    >>> torch.allclose(torch.istft(torch.stft(x, 8, window=w, return_complex=True), 8, window=w), x)
    True
    """
    plan = _InversePlan(self, n_fft, hop_length, win_length, window, center, normalized, onesided,
                        length, return_complex)
    if window is None:
        warn_once(
            "A window was not provided. A rectangular window will be applied.Please provide the "
            "same window used by stft to make the inversion lossless.To suppress this warning and "
            "use a rectangular window, explicitly set `window=torch.ones(n_fft, "
            "device=<device>)`.",
        )
    spectrum = jnp.matrix_transpose(self)
    norm = "ortho" if normalized else None
    last = (spectrum.ndim - 1,)
    if return_complex:
        frames = transform(KINDS["ifft"], spectrum, last, (n_fft,), norm)
    else:
        frames = transform(KINDS["irfft"], spectrum, last, (n_fft,), norm)
    window = _framed_window(window, plan.win_length, n_fft, self.real.dtype)
    signal = plan.overlap_add(frames * window)
    envelope = plan.overlap_add(jnp.broadcast_to(window**2, frames.shape[-2:]))
    signal = signal / envelope
    if plan.missing:
        warn_once(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
        )
        signal = jnp.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, plan.missing)])
    return signal


class _InversePlan:
    """The checked and completed arguments of istft: which samples are added up, and kept."""

    def __init__(self, x, n_fft, hop_length, win_length, window, center, normalized, onesided,
                 length, return_complex):
        self.n_fft = n_fft
        self.hop_length = n_fft >> 2 if hop_length is None else hop_length
        self.win_length = n_fft if win_length is None else win_length
        self.call = _shown_call(
            "istft", f"CPU{dtype_name(x.dtype)}Type{sizes(x.shape)}", n_fft, self.hop_length,
            self.win_length, window, center=center, normalized=normalized, onesided=onesided,
            length=length, return_complex=return_complex,
        )
        self._require(x, window, onesided, return_complex)
        self.count = x.shape[-1]
        self.total = n_fft + self.hop_length * (self.count - 1)
        self.start = n_fft // 2 if center else 0
        if length is not None:
            end = self.start + length
        else:
            end = self.total - (n_fft // 2 if center else 0)
        self.end = min(end, self.total)
        self.missing = max(end - self.total, 0)

    def _require(self, x, window, onesided, return_complex):
        call, n_fft = self.call, self.n_fft
        if not is_complex(x):
            raise RuntimeError(
                "istft requires a complex-valued input tensor matching the output from stft with "
                "return_complex=True."
            )
        if not x.size:
            raise RuntimeError(f"{call} : input tensor cannot be empty.")
        if x.ndim not in (2, 3):
            raise RuntimeError(
                f"{call} : expected a tensor with 3 or 4 dimensions, but got {x.ndim + 1}"
            )
        bins = x.shape[-2]
        if onesided is None:
            onesided = bins != n_fft
        if onesided and bins != n_fft // 2 + 1:
            raise RuntimeError(
                f"{call} : expected the frequency dimension (3rd to the last) of the input tensor "
                f"to match n_fft / 2 + 1 when onesided=True, but got {bins}"
            )
        if not onesided and bins != n_fft:
            raise RuntimeError(
                f"{call} : expected the frequency dimension (3rd to the last) of the input tensor "
                f"to match n_fft when onesided=False, but got {bins}"
            )
        if not 0 < self.hop_length <= self.win_length:
            raise RuntimeError(f"{call} : expected 0 < hop_length <= win_length")
        if not 0 < self.win_length <= n_fft:
            raise RuntimeError(f"{call} : expected 0 < win_length <= n_fft")
        if window is not None and window.shape != (self.win_length,):
            raise RuntimeError(
                f"{call} : Invalid window shape. window has to be 1D and length of `win_length`"
            )
        if return_complex and onesided:
            raise RuntimeError("Cannot have onesided output if window or input is complex")
        if not return_complex and window is not None and is_complex(window):
            raise RuntimeError("Complex windows are incompatible with return_complex=False")

    def overlap_add(self, frames):
        """The signal that frames ``[..., count, n_fft]`` add up to, cut to what is asked for."""
        positions = _frame_positions(self.count, self.n_fft, self.hop_length)
        signal = jnp.zeros((*frames.shape[:-2], self.total), frames.dtype)
        return signal.at[..., positions].add(frames)[..., self.start : self.end]


@istft.check(waits=True)
def _(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
      return_complex):
    plan = _InversePlan(self, n_fft, hop_length, win_length, window, center, normalized, onesided,
                        length, return_complex)
    frame = np.asarray(_framed_window(window, plan.win_length, n_fft, self.real.dtype))
    envelope = plan.overlap_add(jnp.asarray(np.broadcast_to(frame**2, (plan.count, n_fft))))
    if not (np.abs(envelope) > 1e-11).all():
        raise RuntimeError(f"{plan.call} window overlap add min: 1")
