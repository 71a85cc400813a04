"""``torch.fft``: see the kernels in ``ftorch/eager/kernels``."""

from .eager.core import api as _api
from .eager.surface import attach as _attach  # noqa: F401  (fills the namespace)
from .eager.tensor import Tensor  # noqa: F401

globals().update(vars(_api.fft))
