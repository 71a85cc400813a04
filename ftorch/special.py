"""``torch.special``: see the kernels in ``ftorch/eager/kernels``."""

from .eager.core import api as _api
from .eager.surface import attach as _attach  # noqa: F401  (fills the namespace)

globals().update(vars(_api.special))
