"""`torch.distributed.tensor` under an older name of the module."""

from ..tensor._api import DTensor, distribute_module, distribute_tensor  # noqa: F401
