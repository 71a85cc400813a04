"""Passes over graphs: shapes, splitting, drawing, common subexpressions, partitions."""

from ..._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), (
    "graph_drawer graph_manipulation infra operator_support"
    " param_fetch reinplace shape_prop split_module split_utils tools_common"
))
