"""``torch.linalg``: see the kernels in ``ftorch/eager/kernels``."""

from .eager.core import api as _api
from .eager.core.errors import LinAlgError  # noqa: F401
from .eager.surface import attach as _attach  # noqa: F401  (fills the namespace)

globals().update(vars(_api.linalg))
