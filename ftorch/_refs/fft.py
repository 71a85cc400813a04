"""References of Fourier transforms (``torch._refs.fft``): those of ``torch.fft``."""

from ._find import finder

__getattr__, __all__ = finder(__name__, "fft")
