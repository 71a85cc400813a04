"""What libraries use of ``torch._export``: exceptions, and switches of its passes."""

from .._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "utils wrappers")
