"""What `DTensor`s exchange, and how they lie (``torch.distributed.tensor.debug``)."""

from ._comm_mode import CommDebugMode
from ._visualize_sharding import visualize_sharding

__all__ = ["CommDebugMode", "visualize_sharding"]
