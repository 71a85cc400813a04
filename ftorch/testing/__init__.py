"""For tests: `FileCheck`, `assert_close` and `make_tensor`."""

from .._submodules import on_demand as _on_demand
from . import _utils  # noqa: F401  (programs reach it as an attribute)
from ._comparison import assert_allclose, assert_close, default_tolerances
from ._creation import make_tensor
from ._file_check import FileCheck

__getattr__ = _on_demand(globals(), "_internal")

__all__ = ["FileCheck", "assert_allclose", "assert_close", "default_tolerances", "make_tensor"]
