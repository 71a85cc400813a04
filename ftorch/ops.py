"""``from torch.ops import aten``: the object `ftorch.ops` is the module of that name."""

import sys

from ._ops import ops

sys.modules[__name__] = ops  # type: ignore[assignment]
