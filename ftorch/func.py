"""``torch.func``: the function transforms of `ftorch.functional`."""

from .functional import *  # noqa: F403
from .functional import __all__  # noqa: F401
