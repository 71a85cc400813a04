"""References of layers' functions (``torch._refs.nn.functional``): those of ``torch.nn.functional``."""

from .._find import finder

__getattr__, __all__ = finder(__name__, "nn.functional")
