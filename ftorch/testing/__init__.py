"""For tests: `FileCheck`, `assert_close` and `make_tensor`."""

from . import _utils  # noqa: F401  (programs reach it as an attribute)
from ._comparison import assert_allclose, assert_close, default_tolerances
from ._creation import make_tensor
from ._file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "default_tolerances", "make_tensor"]
