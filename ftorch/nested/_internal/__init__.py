"""The modules of jagged tensors, by PyTorch's private names."""

from ..._submodules import on_demand as _on_demand

__getattr__ = _on_demand(globals(), "nested_tensor")
