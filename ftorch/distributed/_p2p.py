"""Messages of tensors from process to process."""

from __future__ import annotations

from ._collectives import check_tensor, rank_in
from ._groups import get_global_rank, group_of, is_outside, refuse_outside
from ._work import Work

_SELF = (
    "Invalid destination rank: destination rank should not be the same as the rank of the current process."
)


def isend(tensor, dst=None, group=None, tag: int = 0, group_dst=None) -> Work | None:
    """`send`, with a handle."""
    members = group_of(group) if not is_outside(group) else group
    check_tensor(tensor, "tensor")
    if is_outside(group, "isend"):
        return None
    to = rank_in(members, dst, group_dst)
    if to == members.rank():
        raise ValueError(_SELF)
    return members.send([tensor], to, tag)


def send(tensor, dst=None, group=None, tag: int = 0, group_dst=None) -> None:
    """Sends a tensor to another process, whose `recv` has the same tag. Raises ValueError outside of the group."""
    refuse_outside(group)
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def irecv(tensor, src=None, group=None, tag: int = 0, group_src=None) -> Work | None:
    """`recv`, with a handle."""
    check_tensor(tensor, "tensor")
    if is_outside(group, "irecv"):
        return None
    members = group_of(group)
    if src is None and group_src is None:
        return members.recv_anysource([tensor], tag)
    source = rank_in(members, src, group_src)
    if source == members.rank():
        raise ValueError(
            "Invalid source rank: source rank should not be the same as the rank of the current process."
        )
    return members.recv([tensor], source, tag)


def recv(tensor, src=None, group=None, tag: int = 0, group_src=None) -> int:
    """Receives a tensor from the process ``src`` (from any by default); gives its rank."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    if src is not None:
        return src
    return get_global_rank(group, work.source_rank() if group_src is None else group_src)


class P2POp:
    """A message of `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.

    Raises:
        ValueError: for another function.
    """

    def __init__(self, op, tensor, peer=None, group=None, tag: int = 0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, group_of(group), tag
        self.group_peer = rank_in(self.group, peer, group_peer)
        self.peer = get_global_rank(self.group, self.group_peer)

    def __repr__(self):
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={self.group.rank()}, "
            f"group_dst={self.group_peer},  {self.tensor.shape}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Starts several messages; their handles.

    Raises:
        ValueError: for what is no `P2POp`, or operations of several groups.
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(p, P2POp) for p in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    first = p2p_op_list[0].group
    if any(p.group is not first for p in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    works = []
    for p in p2p_op_list:
        key = "group_dst" if p.op is isend else "group_src"
        works.append(p.op(p.tensor, group=p.group, tag=p.tag, **{key: p.group_peer}))
    return works
