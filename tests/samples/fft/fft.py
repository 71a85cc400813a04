"""Samples of Fourier transforms."""

from tests.samples import S, T, register

for _kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _dtypes = ("float32",) if _kind in ("rfft", "ihfft") else ("float32", "complex64")
    for _dtype in _dtypes:
        register(
            f"fft_{_kind}",
            S(T(5, dtype=_dtype)),
            S(T(3, 5, dtype=_dtype), dim=0, norm="forward"),
            S(T(3, 5, dtype=_dtype), 8, norm="ortho"),
            S(T(3, 5, dtype=_dtype), 3),
        )
        for _suffix in "2n":
            register(
                f"fft_{_kind}{_suffix}",
                S(T(3, 5, dtype=_dtype)),
                S(T(2, 3, 4, dtype=_dtype), (3, 5), (0, 2), "ortho"),
            )
for _name in ("fft_fftshift", "fft_ifftshift"):
    register(_name, S(T(3, 4)), S(T(3, 5), (1,)))

_WINDOW = T(8, low=0.5, high=1.5)
register(
    "stft",
    S(T(20), 8, window=_WINDOW, return_complex=True),
    S(T(2, 20), 8, 3, 8, _WINDOW, True, False, True),
    S(T(20, dtype="complex64"), 8, window=_WINDOW),
)
register(
    "istft",
    S(T(5, 7, dtype="complex64"), 8, window=_WINDOW),
    S(T(2, 5, 7, dtype="complex64"), 8, window=_WINDOW, length=10),
    S(T(8, 7, dtype="complex64"), 8, window=_WINDOW, return_complex=True),
)
