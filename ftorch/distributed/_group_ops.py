"""The operators of process groups, ``torch.ops.c10d``, by which tables of tensor subclasses name collectives.

They are the methods of `ProcessGroup`, their tensors before it: ``torch.ops.c10d.broadcast_([x], group, 0, 0)``.
"""

from __future__ import annotations

from datetime import timedelta

from .._ops import REGISTERED, OpOverload, OpOverloadPacket, overridden
from . import _options as options


class GroupOperator(OpOverloadPacket):
    """An operator of one overload, `default`.

    Args:
        run: called with the group, the tensors before it in the operator's arguments, and those after it but the last two,
            ``async_op`` and ``timeout``; gives the collective's `Work`.
        before: how many arguments come before the group.
        after: how many come behind it, without those two.
        gives: whether the first argument is given back beside the `Work`.
    """

    def __init__(self, name, run, before=1, after=0, gives=True):
        super().__init__(name, "c10d")
        self._run, self._before, self._after, self._gives = run, before, after, gives
        self._overloads = {"default": _GroupOverload(self)}

    def __call__(self, /, *args, **kwargs):
        handled, result = overridden(self, args, kwargs)
        return result if handled else self._launch(*args, **kwargs)

    def _launch(self, *args, async_op=True, timeout=-1):
        tensors, group, rest = args[: self._before], args[self._before], args[self._before + 1 :]
        if len(rest) < self._after:
            raise RuntimeError(f"c10d::{self.__name__}() is missing {self._after - len(rest)} arguments")
        rest, flags = rest[: self._after], rest[self._after :]
        async_op, timeout = (*flags, *(async_op, timeout)[len(flags) :])
        given = {} if timeout == -1 else {"timeout": timedelta(milliseconds=timeout)}
        work = self._run(group, *tensors, *rest, given)
        if not async_op:
            work.wait()
        return (tensors[0], work) if self._gives else work


class _GroupOverload(OpOverload):
    """The overload of a group's operator."""

    namespace = "c10d"

    def __init__(self, packet):
        self._packet, self._overloadname = packet, "default"

    def __call__(self, /, *args, **kwargs):
        return self._packet(*args, **kwargs)


def _add(name, run, **places):
    REGISTERED[f"c10d::{name}"] = GroupOperator(name, run, **places)


_add("broadcast_", lambda g, t, rank, index, given: g.broadcast(
    t, opts=options.BroadcastOptions(rootRank=rank, rootTensor=index, **given)), after=2)
_add(
    "allreduce_",
    lambda g, t, op, sparse, given: g.allreduce(t, options.AllreduceOptions(reduceOp=op, **given)),
    after=2,
)
_add("allreduce_coalesced_", lambda g, t, op, given: g.allreduce_coalesced(
    t, options.AllreduceCoalescedOptions(reduceOp=op, **given)), after=1, gives=False)
_add("allgather_", lambda g, out, t, given: g.allgather(out, t, options.AllgatherOptions(**given)), before=2)
_add(
    "_allgather_base_", lambda g, out, t, given: g._allgather_base(out, t, options.AllgatherOptions(**given)), before=2
)
_add("scatter_", lambda g, out, t, rank, given: g.scatter(out, t, options.ScatterOptions(rootRank=rank, **given)),
     before=2, after=1)
_add("gather_", lambda g, out, t, rank, given: g.gather(out, t, options.GatherOptions(rootRank=rank, **given)),
     before=2, after=1, gives=False)
_add("reduce_", lambda g, t, op, rank, index, given: g.reduce(
    t, opts=options.ReduceOptions(reduceOp=op, rootRank=rank, rootTensor=index, **given)), after=3, gives=False)
_add("reduce_scatter_", lambda g, out, t, op, given: g.reduce_scatter(
    out, t, opts=options.ReduceScatterOptions(reduceOp=op, **given)), before=2, after=1)
_add("_reduce_scatter_base_", lambda g, out, t, op, given: g._reduce_scatter_base(
    out, t, options.ReduceScatterOptions(reduceOp=op, **given)), before=2, after=1)
_add("alltoall_", lambda g, out, t, given: g.alltoall(out, t, options.AllToAllOptions(**given)), before=2)
_add("alltoall_base_", lambda g, out, t, outs, ins, given: g.alltoall_base(
    out, t, outs, ins, options.AllToAllOptions(**given)), before=2, after=2, gives=False)
_add(
    "barrier",
    lambda g, t, devices, given: g.barrier(options.BarrierOptions(device_ids=devices, **given)),
    after=1,
    gives=False,
)
_add("send", lambda g, t, to, tag, given: g.send(t, to, tag), after=2, gives=False)
_add("recv_", lambda g, t, source, tag, given: g.recv(t, source, tag), after=2, gives=False)
_add("allgather_coalesced_", lambda g, out, t, given: g.allgather_coalesced(
    out, t, options.AllgatherOptions(**given)), before=2, gives=False)
_add("allgather_into_tensor_coalesced_", lambda g, out, t, given: g.allgather_into_tensor_coalesced(
    out, t, options.AllgatherOptions(**given)), before=2, gives=False)
_add("reduce_scatter_tensor_coalesced_", lambda g, out, t, op, given: g.reduce_scatter_tensor_coalesced(
    out, t, options.ReduceScatterOptions(reduceOp=op, **given)), before=2, after=1, gives=False)
