"""For tests: `FileCheck`, `assert_close` and `make_tensor`."""

from ._comparison import assert_allclose, assert_close, default_tolerances
from ._creation import make_tensor
from ._file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "default_tolerances", "make_tensor"]
