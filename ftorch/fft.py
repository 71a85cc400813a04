"""``torch.fft``: see the kernels in ``ftorch/eager/ops``."""

from .eager import api as _api
from .eager import attach as _attach  # noqa: F401  (fills the namespace)
from .eager.tensor import Tensor  # noqa: F401

globals().update(vars(_api.fft))
