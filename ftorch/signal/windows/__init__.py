"""``torch.signal.windows``: window functions; see ``ftorch/eager/functions/windows.py``."""

from ...eager.core import api as _api
from ...eager.surface import attach as _attach  # noqa: F401  (fills the namespace)
from . import windows

globals().update(vars(_api.signal.windows))
__all__ = [*(_name for _name in vars(_api.signal.windows) if not _name.startswith("_")), "windows"]
