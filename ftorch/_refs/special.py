"""References of special functions (``torch._refs.special``): those of ``torch.special``."""

from ._find import finder

__getattr__, __all__ = finder(__name__, "special")
