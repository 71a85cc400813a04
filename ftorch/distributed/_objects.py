"""Collectives of Python objects. They travel as pickles between the processes of one program, which have
proved that they know the launcher's token; as in PyTorch, what a peer sends is trusted."""

from __future__ import annotations

import io
import pickle

import ftorch as torch

from ._collectives import all_gather, broadcast, gather, rank_in, scatter
from ._groups import get_world_size, group_of, is_outside, refuse_outside
from ._p2p import recv, send


def _object_to_tensor(obj, device=None, group=None):
    buffer = io.BytesIO()
    pickle.Pickler(buffer).dump(obj)
    data = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    return data, torch.tensor([data.numel()], dtype=torch.int64)


def _tensor_to_object(tensor, size, group=None):
    return pickle.loads(tensor.numpy().tobytes()[: int(size)])


def all_gather_object(object_list: list, obj, group=None) -> None:
    """Fills a list with the objects of all processes, by rank."""
    if is_outside(group, "all_gather_object"):
        return
    data, size = _object_to_tensor(obj)
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(get_world_size(group))]
    all_gather(sizes, size, group=group)
    longest = max(int(s.item()) for s in sizes)
    padded = torch.zeros(longest, dtype=torch.uint8)
    padded[: data.numel()] = data
    parts = [torch.zeros(longest, dtype=torch.uint8) for _ in sizes]
    all_gather(parts, padded, group=group)
    for i, (part, n) in enumerate(zip(parts, sizes)):
        object_list[i] = _tensor_to_object(part, n.item())


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None) -> None:
    """`all_gather_object` whose result the process ``dst`` gets (0 by default)."""
    if is_outside(group, "gather_object"):
        return
    members = group_of(group)
    root = rank_in(members, 0 if dst is None and group_dst is None else dst, group_dst)
    if members.rank() == root:
        if not object_gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    elif object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    data, size = _object_to_tensor(obj)
    sizes = [torch.zeros(1, dtype=torch.int64) for _ in range(members.size())]
    all_gather(sizes, size, group=group)
    longest = max(int(s.item()) for s in sizes)
    padded = torch.zeros(longest, dtype=torch.uint8)
    padded[: data.numel()] = data
    is_root = members.rank() == root
    parts = [torch.zeros(longest, dtype=torch.uint8) for _ in sizes] if is_root else None
    gather(padded, parts, group=group, group_dst=root)
    for i, part in enumerate(parts or []):
        object_gather_list[i] = _tensor_to_object(part, sizes[i].item())


def broadcast_object_list(object_list: list, src=None, group=None, device=None,
                          group_src=None) -> None:
    """Gives all processes the objects of the process ``src`` (0 by default)."""
    if is_outside(group, "broadcast_object_list"):
        return
    members = group_of(group)
    root = rank_in(members, 0 if src is None and group_src is None else src, group_src)
    is_root = members.rank() == root
    data = [_object_to_tensor(o)[0] for o in object_list] if is_root else []
    sizes = torch.zeros(len(object_list), dtype=torch.int64)
    if is_root:
        sizes = torch.tensor([d.numel() for d in data], dtype=torch.int64)
    broadcast(sizes, group=group, group_src=root)
    lengths = sizes.tolist()
    joined = torch.cat(data) if is_root else torch.zeros(sum(lengths), dtype=torch.uint8)
    broadcast(joined, group=group, group_src=root)
    if not is_root:
        for i, part in enumerate(joined.split(lengths)):
            object_list[i] = _tensor_to_object(part, lengths[i])


def scatter_object_list(scatter_object_output_list: list, scatter_object_input_list=None, src=None,
                        group=None, group_src=None) -> None:
    """Gives each process its object of the list of the process ``src`` (0 by default)."""
    if is_outside(group, "scatter_object_list"):
        return
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    members = group_of(group)
    root = rank_in(members, 0 if src is None and group_src is None else src, group_src)
    parts, longest = None, torch.zeros(1, dtype=torch.int64)
    sizes = None
    if members.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        data = [_object_to_tensor(o)[0] for o in scatter_object_input_list]
        longest = torch.tensor([max(d.numel() for d in data)], dtype=torch.int64)
        sizes = [torch.tensor([d.numel()], dtype=torch.int64) for d in data]
        parts = [
            torch.cat([d, torch.zeros(longest.item() - d.numel(), dtype=torch.uint8)]) for d in data
        ]
    broadcast(longest, group=group, group_src=root)
    out, size = torch.zeros(longest.item(), dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    scatter(out, parts, group=group, group_src=root)
    scatter(size, sizes, group=group, group_src=root)
    scatter_object_output_list[0] = _tensor_to_object(out, size.item())


def send_object_list(object_list: list, dst=None, group=None, device=None, group_dst=None,
                     use_batch: bool = False) -> None:
    """Sends objects to another process. Raises ValueError outside of the group."""
    refuse_outside(group)
    data = [_object_to_tensor(o)[0] for o in object_list]
    send(torch.tensor([d.numel() for d in data], dtype=torch.int64), dst, group, group_dst=group_dst)
    send(torch.cat(data), dst, group, group_dst=group_dst)


def recv_object_list(object_list: list, src=None, group=None, device=None, group_src=None,
                     use_batch: bool = False) -> int:
    """Receives objects from another process; gives its rank. Raises ValueError outside of the group."""
    refuse_outside(group)
    sizes = torch.zeros(len(object_list), dtype=torch.int64)
    rank = recv(sizes, src, group, group_src=group_src)
    lengths = sizes.tolist()
    joined = torch.zeros(sum(lengths), dtype=torch.uint8)
    recv(joined, rank, group)
    for i, part in enumerate(joined.split(lengths)):
        object_list[i] = _tensor_to_object(part, lengths[i])
    return rank
