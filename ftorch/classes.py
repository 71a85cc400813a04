"""``import torch.classes``: the object `ftorch.classes` is the module of that name."""

import sys

from ._ops import classes

sys.modules[__name__] = classes  # type: ignore[assignment]
