"""``torch.masked.maskedtensor``: tensors with a mask that says which of their elements are specified."""

from ..._submodules import on_demand as _on_demand
from .core import MaskedTensor, is_masked_tensor
from .creation import as_masked_tensor, masked_tensor

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]

__getattr__ = _on_demand(globals(), "passthrough")
