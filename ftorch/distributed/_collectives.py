"""What the processes of a group compute together."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

import ftorch as torch

from ._groups import (
    NOT_A_MEMBER,
    ProcessGroup,
    ReduceOp,
    Work,
    get_group_rank,
    get_world_size,
    group_of,
)

_REDUCTIONS: dict[ReduceOp, Callable] = {
    ReduceOp.SUM: sum,
    ReduceOp.AVG: lambda parts: sum(parts) / len(parts),
    ReduceOp.PRODUCT: lambda parts: _fold(np.multiply, parts),
    ReduceOp.MIN: lambda parts: _fold(np.minimum, parts),
    ReduceOp.MAX: lambda parts: _fold(np.maximum, parts),
    ReduceOp.BAND: lambda parts: _fold(np.bitwise_and, parts),
    ReduceOp.BOR: lambda parts: _fold(np.bitwise_or, parts),
    ReduceOp.BXOR: lambda parts: _fold(np.bitwise_xor, parts),
}


def _fold(function, parts):
    total = parts[0]
    for part in parts[1:]:
        total = function(total, part)
    return total


def _value(t) -> np.ndarray:
    return np.array(t.detach().jax())


def _fill(t, array) -> None:
    with torch.no_grad():
        t.copy_(torch.from_jax(jnp.asarray(array)).reshape(t.shape))


def _done(async_op, *tensors):
    return Work(list(tensors)) if async_op else None


def _member(group) -> ProcessGroup | None:
    return None if group == NOT_A_MEMBER else group_of(group)


def barrier(group=None, async_op=False, device_ids=None):
    """Returns when all processes of the group have called it."""
    if (members := _member(group)) is not None:
        members.exchange(None)
    return _done(async_op)


def _reduced(op, parts, dtype):
    if op not in _REDUCTIONS:
        raise RuntimeError(f"Cannot use {op} with a collective on the CPU")
    return np.asarray(_REDUCTIONS[op](parts)).astype(dtype)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Combines a tensor over all processes, in place."""
    if (members := _member(group)) is not None and members.size() > 1:
        own = _value(tensor)
        _fill(tensor, _reduced(op, members.exchange(own), own.dtype))
    return _done(async_op, tensor)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """`all_reduce` whose result only the process ``dst`` gets."""
    if (members := _member(group)) is not None and members.size() > 1:
        own = _value(tensor)
        parts = members.exchange(own)
        if members.rank() == _rank_in(members, dst, group_dst):
            _fill(tensor, _reduced(op, parts, own.dtype))
    return _done(async_op, tensor)


def _rank_in(members, global_rank, group_rank):
    if group_rank is not None:
        return group_rank
    return get_group_rank(members, 0 if global_rank is None else global_rank)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Gives all processes the tensor of the process ``src``, in place."""
    if (members := _member(group)) is not None and members.size() > 1:
        source = _rank_in(members, src, group_src)
        is_source = members.rank() == source
        parts = members.exchange(_value(tensor) if is_source else None)
        if not is_source:
            _fill(tensor, parts[source])
    return _done(async_op, tensor)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Fills a list with the tensors of all processes, by rank."""
    if (members := _member(group)) is not None:
        for out, part in zip(tensor_list, members.exchange(_value(tensor)), strict=True):
            _fill(out, part)
    return _done(async_op, *tensor_list)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """The tensors of all processes, joined or stacked along the first dimension."""
    if (members := _member(group)) is not None:
        _fill(output_tensor, np.concatenate([p.reshape(-1) for p in members.exchange(
            _value(input_tensor))]))  # fmt: skip
    return _done(async_op, output_tensor)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """`all_gather` whose result only the process ``dst`` gets."""
    if (members := _member(group)) is not None:
        parts = members.exchange(_value(tensor))
        if members.rank() == _rank_in(members, dst, group_dst):
            if not gather_list:
                raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
            for out, part in zip(gather_list, parts, strict=True):
                _fill(out, part)
    return _done(async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Gives each process its tensor of the list that the process ``src`` has."""
    if (members := _member(group)) is not None:
        source = _rank_in(members, src, group_src)
        if members.rank() == source and not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        given = [_value(t) for t in scatter_list] if members.rank() == source else None
        _fill(tensor, members.exchange(given)[source][members.rank()])
    return _done(async_op, tensor)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Combines lists of tensors over all processes; each gets its own element."""
    if (members := _member(group)) is not None:
        lists = members.exchange([_value(t) for t in input_list])
        own = [parts[members.rank()] for parts in lists]
        _fill(output, _reduced(op, own, own[0].dtype))
    return _done(async_op, output)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """`reduce_scatter` of one tensor, cut along the first dimension."""
    return reduce_scatter(output, list(input.chunk(get_world_size(group))), op, group, async_op)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Each process gives one tensor to each."""
    if (members := _member(group)) is not None:
        lists = members.exchange([_value(t) for t in input_tensor_list])
        for out, parts in zip(output_tensor_list, lists, strict=True):
            _fill(out, parts[members.rank()])
    return _done(async_op, *output_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None,
                      async_op=False):  # fmt: skip
    """`all_to_all` of pieces of one tensor."""
    count = get_world_size(group)
    pieces = input.split(input_split_sizes) if input_split_sizes else input.chunk(count)
    targets = output.split(output_split_sizes) if output_split_sizes else output.chunk(count)
    return all_to_all(list(targets), list(pieces), group, async_op)


# --- collectives of objects, and messages -------------------------------------------------


def all_gather_object(object_list: list, obj, group=None) -> None:
    """Fills a list with the objects of all processes, by rank."""
    if (members := _member(group)) is not None:
        object_list[:] = members.exchange(obj)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None) -> None:
    """`all_gather_object` whose result only the process ``dst`` gets."""
    if (members := _member(group)) is not None:
        parts = members.exchange(obj)
        if members.rank() == _rank_in(members, dst, group_dst):
            object_gather_list[:] = parts


def broadcast_object_list(object_list: list, src=None, group=None, device=None,
                          group_src=None) -> None:  # fmt: skip
    """Gives all processes the objects of the process ``src``."""
    if (members := _member(group)) is not None:
        source = _rank_in(members, src, group_src)
        given = list(object_list) if members.rank() == source else None
        object_list[:] = members.exchange(given)[source]


def scatter_object_list(scatter_object_output_list: list, scatter_object_input_list=None, src=None,
                        group=None, group_src=None) -> None:  # fmt: skip
    """Gives each process its object of the list that the process ``src`` has."""
    if (members := _member(group)) is not None:
        source = _rank_in(members, src, group_src)
        given = list(scatter_object_input_list) if members.rank() == source else None
        scatter_object_output_list[0] = members.exchange(given)[source][members.rank()]


def send(tensor, dst=None, group=None, tag: int = 0, group_dst=None) -> None:
    """Sends a tensor to another process."""
    members = group_of(group)
    to = _rank_in(members, dst, group_dst)
    if to == members.rank():
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the "
            "current process."
        )
    members.post(_value(tensor), to, tag)


def recv(tensor, src=None, group=None, tag: int = 0, group_src=None) -> int:
    """Receives a tensor from the process ``src``; gives its rank."""
    members = group_of(group)
    source = _rank_in(members, src, group_src)
    _fill(tensor, members.collect(source, tag))
    return members.ranks[source]


def isend(tensor, dst=None, group=None, tag: int = 0, group_dst=None) -> Work:
    """`send`, with a handle."""
    send(tensor, dst, group, tag, group_dst)
    return Work([tensor])


class _Receiving(Work):
    def __init__(self, receive):
        super().__init__()
        self._receive = receive

    def wait(self, timeout=None) -> bool:
        if self._receive is not None:
            receive, self._receive = self._receive, None
            receive()
        return True

    def is_completed(self) -> bool:
        return self._receive is None


def irecv(tensor, src=None, group=None, tag: int = 0, group_src=None) -> Work:
    """`recv` that waits when its handle does."""
    return _Receiving(lambda: recv(tensor, src, group, tag, group_src))


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False) -> None:
    """`barrier`."""
    members = group_of(group)
    previous = members.store.timeout
    members.store.set_timeout(timeout or previous)
    try:
        barrier(members)
    finally:
        members.store.set_timeout(previous)
