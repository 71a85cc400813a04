"""``torch.special``: see the kernels in ``ftorch/eager/ops``."""

from .eager import api as _api
from .eager import attach as _attach  # noqa: F401  (fills the namespace)

globals().update(vars(_api.special))
