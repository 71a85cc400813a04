"""Tensors of which processes have pieces, before `DTensor` (``torch.distributed._shard``)."""

from .api import _shard_tensor, load_with_process_group, shard_module, shard_parameter

__all__ = ["_shard_tensor", "load_with_process_group", "shard_module", "shard_parameter"]
