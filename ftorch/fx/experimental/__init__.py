"""Newer parts: ``make_fx`` and constant folding."""

from ..._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "const_fold proxy_tensor unification")
