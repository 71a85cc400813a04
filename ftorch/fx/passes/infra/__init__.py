"""What passes are made with: their base class, the pass manager, the partitioner."""

from ...._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "pass_base pass_manager")
