"""References of conversions (``torch._refs._conversions``): the methods of tensors, and functions that make complex numbers."""

from ._find import finder

__getattr__, _ = finder(__name__, "")
__all__ = "bfloat16 bool byte cdouble cfloat chalf char complex double float half int long polar short".split()
