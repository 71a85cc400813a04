"""The older names of sparse tensors on GPUs (``torch.cuda.sparse``)."""

from ..sparse._legacy import TYPES as _TYPES

globals().update(_TYPES)

__all__ = list(_TYPES)
