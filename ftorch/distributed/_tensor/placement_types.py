"""`torch.distributed.tensor` under an older name of the module."""

from ..tensor._dtensor_spec import DTensorSpec, TensorMeta  # noqa: F401
from ..tensor.placement_types import Partial, Placement, Replicate, Shard  # noqa: F401
