"""`torch.distributed.tensor` under an older name of the module."""

from ..tensor.placement_types import Partial, Placement, Replicate, Shard  # noqa: F401
