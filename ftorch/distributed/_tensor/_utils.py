"""`torch.distributed.tensor._utils` under an older name of the module."""

from ..tensor._utils import compute_local_shape, compute_local_shape_and_global_offset  # noqa: F401
