"""``functorch.experimental.control_flow``: branches and loops on tensors."""

from ftorch.functional.control_flow import cond, map

__all__ = ["cond", "map"]
