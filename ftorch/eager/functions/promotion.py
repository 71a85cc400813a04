"""``torch.result_type``."""

from __future__ import annotations

from ..call.promotion import result_type_of
from ..core.composite import composite


@composite(forms="function")
def result_type(tensor1, tensor2):
    """The dtype of an arithmetic operation on two tensors or numbers.

    >>> import ftorch as torch
    >>> torch.result_type(torch.tensor([1, 2]), 1.0)
    torch.float32
    """
    return result_type_of((tensor1, tensor2))
