"""For tests: `assert_close` and `make_tensor`."""

from ._comparison import assert_allclose, assert_close, default_tolerances
from ._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "default_tolerances", "make_tensor"]
