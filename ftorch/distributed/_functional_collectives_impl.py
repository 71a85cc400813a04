"""All operators that tables of collectives name: `_functional_ops`, `_group_ops`, and ``torch.ops._dtensor``."""

from __future__ import annotations

import ftorch as torch

from ..library import Library
from . import _functional_ops, _group_ops


def _shard_dim_alltoall(input, gather_dim, shard_dim, group_name):
    from ._functional_collectives import exchanged
    from .distributed_c10d import _resolve_process_group

    size = _resolve_process_group(group_name).size()
    given = torch.stack(input.chunk(size, shard_dim))
    return torch.cat(list(exchanged(given, None, None, group_name)), gather_dim)


def _register():
    moves = Library("_dtensor", "DEF")
    moves.define("shard_dim_alltoall(Tensor input, int gather_dim, int shard_dim, str group_name) -> Tensor")
    moves.impl("shard_dim_alltoall", _shard_dim_alltoall, "CompositeImplicitAutograd")
    return moves, _functional_ops.functional, _functional_ops.older, _group_ops.GroupOperator


_LIBRARIES = _register()
