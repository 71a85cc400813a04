"""``torch.fft``: see the kernels in ``ftorch/eager/kernels``."""

from .eager.core import api as _api
from .eager.surface import attach as _attach  # noqa: F401  (fills the namespace)
from .eager.tensor import Tensor  # noqa: F401

globals().update(vars(_api.fft))

__all__ = (
    "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift "
    "Tensor"
).split()
