"""How an operator's arguments and results lie, said by the user."""

from __future__ import annotations

from .._dispatch import REGISTERED
from .._strategies import name_of

__all__ = ["register_sharding"]


def register_sharding(op):
    """A decorator: the function says how an operator's `DTensor`s may lie on a dimension of a mesh.

    Args:
        op: an overload of ``torch.ops``, or a list of them.

    The function is called with the operator's arguments (`DTensor`s as objects with ``placements`` and
    ``shape``) and gives a list of pairs: the placements of the results, and those of the arguments (None for
    what is no tensor). Of these the one is taken that moves the fewest arguments.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor import Replicate, Shard
    >>> from ftorch.distributed.tensor.experimental import register_sharding
    >>> @register_sharding(torch.ops.aten.erfc.default)
    ... def erfc_sharding(x):
    ...     return [([Shard(d)], [Shard(d)]) for d in range(len(x.shape))] + [([Replicate()], [Replicate()])]
    """

    def register(custom_sharding_fn):
        for overload in op if isinstance(op, list) else [op]:
            REGISTERED[name_of(overload)] = custom_sharding_fn
        return custom_sharding_fn

    return register
