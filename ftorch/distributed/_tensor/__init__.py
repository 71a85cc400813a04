"""``torch.distributed._tensor``: the former name of `torch.distributed.tensor`."""

from ..tensor import *  # noqa: F403
from ..tensor import DTensor, Partial, Replicate, Shard  # noqa: F401
