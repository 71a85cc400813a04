"""``torch.linalg``: see the kernels in ``ftorch/eager/ops``."""

from .eager import api as _api
from .eager import attach as _attach  # noqa: F401  (fills the namespace)
from .eager.errors import LinAlgError  # noqa: F401

globals().update(vars(_api.linalg))
