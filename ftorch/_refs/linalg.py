"""References of linear algebra's functions (``torch._refs.linalg``): those of ``torch.linalg``."""

from ._find import finder

__getattr__, __all__ = finder(__name__, "linalg")
