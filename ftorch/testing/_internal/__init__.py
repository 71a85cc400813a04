"""What test suites of libraries take from PyTorch's own: test cases, parameters, skips, dtypes, devices."""

from ..._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "common_dtype")
