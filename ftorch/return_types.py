"""The named tuples that functions of several results return (``torch.return_types``).

>>> import ftorch as torch
>>> torch.ones(2).max(0)
torch.return_types.max(
values=tensor(1.),
indices=tensor(0))
>>> isinstance(torch.ones(2).max(0), torch.return_types.max)
True
"""

from __future__ import annotations

from .eager import attach as _attach  # noqa: F401  (declares the ops)
from .eager.registry import OPS as _OPS
from .eager.return_values import RETURN_TYPES as _TYPES
from .eager.return_values import result_type as _result_type
from .utils._pytree import register_pytree_node as _register

for _definition in _OPS.values():
    _result_type(_definition)
globals().update(_TYPES)
for _type in _TYPES.values():
    _register(_type, lambda results: (list(results), None), lambda parts, _, t=_type: t(parts))

__all__ = sorted(_TYPES)
