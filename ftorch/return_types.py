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

from .eager.core.return_values import of_all_ops as _of_all_ops
from .eager.surface import attach as _attach  # noqa: F401  (declares the ops)

_TYPES = _of_all_ops()
globals().update(_TYPES)

_PUBLIC = sorted(name for name in _TYPES if not name.startswith("_"))
all_return_types = [_TYPES[name] for name in _PUBLIC]
__all__ = ["all_return_types", "pytree_register_structseq", *_PUBLIC]


def pytree_register_structseq(cls) -> None:
    """Makes a class of named results a node of pytrees, whose children are the results.

    Those of this module are already.

    Raises:
        ValueError: for a class that is registered.
    """
    from .utils import _pytree

    _pytree.register_named_results(cls)
