"""``torch.signal.windows``: see ``ftorch/eager/composites/windows.py``."""

from ..eager import api as _api
from ..eager import attach as _attach  # noqa: F401  (fills the namespace)

globals().update(vars(_api.signal.windows))
