"""The operators of process groups, ``torch.ops.c10d``, by which tables of tensor subclasses name collectives.

They are the methods of `ProcessGroup`, their tensors before it: ``torch.ops.c10d.broadcast_([x], group, 0, 0)``.
"""

from __future__ import annotations

from datetime import timedelta

from .._ops import REGISTERED, OpOverload, OpOverloadPacket, overridden
from ..eager.core.schema import parse
from ..library._schema import bind
from . import _options as options

_CLASS = "__torch__.torch.classes.c10d."  # in front of a type's name in a schema
_FLAGS = ", bool async_op=True, int timeout=-1"


class GroupOperator(OpOverloadPacket):
    """An operator of one overload, `default`.

    Args:
        schema: the operator's, with ``Group``, ``Op`` and ``Work`` for the classes.
        run: called with a dictionary of the arguments but ``process_group``, ``async_op`` and ``timeout``, the group, and
            the options that ``timeout`` gives; gives the collective's `Work`.
    """

    def __init__(self, schema, run):
        for short, name in (("Group ", "ProcessGroup process_"), ("Op ", "ReduceOp "), ("Work", "Work")):
            schema = schema.replace(short, _CLASS + name)
        parsed = parse(f"c10d::{schema}")
        super().__init__(parsed.name, "c10d")
        self._overloads = {"default": _GroupOverload(self, parsed, run)}

    def __call__(self, /, *args, **kwargs):
        handled, result = overridden(self, args, kwargs)
        return result if handled else self.default._call(args, kwargs)


class _GroupOverload(OpOverload):
    """The overload of a group's operator."""

    namespace = "c10d"

    def __init__(self, packet, schema, run):
        self._packet, self._schema, self._overloadname, self._run = packet, schema, "default", run
        self._names = [a.name for a in schema.arguments]

    def _call(self, args, kwargs):
        values, _ = bind(self.name(), self._schema, args, kwargs)
        given = dict(zip(self._names, values, strict=True))
        group, async_op, timeout = (given.pop(k, None) for k in ("process_group", "async_op", "timeout"))
        limits = {} if timeout in (None, -1) else {"timeout": timedelta(milliseconds=timeout)}
        work = self._run(group, limits, *given.values())
        if async_op is False:
            work.wait()
        return (values[0], work) if len(self._schema.returns) > 1 else work


def _add(schema, run):
    made = GroupOperator(schema, run)
    REGISTERED[made._qualified_op_name] = made


_add(
    f"broadcast_(Tensor[] tensors, Group group, int root_rank, int root_tensor{_FLAGS}) -> (Tensor[], Work)",
    lambda g, limits, t, rank, index: g.broadcast(
        t, opts=options.BroadcastOptions(rootRank=rank, rootTensor=index, **limits)
    ),
)
_add(
    f"allreduce_(Tensor[] tensors, Group group, Op reduce_op, Tensor? sparse_indices{_FLAGS}) -> (Tensor[], Work)",
    lambda g, limits, t, op, sparse: g.allreduce(t, options.AllreduceOptions(reduceOp=op, **limits)),
)
_add(
    f"allreduce_coalesced_(Tensor[] tensors, Group group, Op reduce_op{_FLAGS}) -> Work",
    lambda g, limits, t, op: g.allreduce_coalesced(t, options.AllreduceCoalescedOptions(reduceOp=op, **limits)),
)
_add(
    f"allgather_(Tensor[][] output_tensors, Tensor[] input_tensors, Group group{_FLAGS}) -> (Tensor[][], Work)",
    lambda g, limits, out, t: g.allgather(out, t, options.AllgatherOptions(**limits)),
)
_add(
    f"_allgather_base_(Tensor output_tensor, Tensor input_tensor, Group group{_FLAGS}) -> (Tensor, Work)",
    lambda g, limits, out, t: g.all_gather_single(out, t, options.AllgatherOptions(**limits)),
)
_add(
    f"scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, Group group, int root_rank{_FLAGS})"
    " -> (Tensor[], Work)",
    lambda g, limits, out, t, rank: g.scatter(out, t, options.ScatterOptions(rootRank=rank, **limits)),
)
_add(
    f"gather_(Tensor[][] output_tensors, Tensor[] input_tensors, Group group, int root_rank{_FLAGS}) -> Work",
    lambda g, limits, out, t, rank: g.gather(out, t, options.GatherOptions(rootRank=rank, **limits)),
)
_add(
    f"reduce_(Tensor[] tensors, Group group, Op reduce_op, int root_rank, int root_tensor{_FLAGS}) -> Work",
    lambda g, limits, t, op, rank, index: g.reduce(
        t, opts=options.ReduceOptions(reduceOp=op, rootRank=rank, rootTensor=index, **limits)
    ),
)
_add(
    f"reduce_scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, Group group, Op reduce_op{_FLAGS})"
    " -> (Tensor[], Work)",
    lambda g, limits, out, t, op: g.reduce_scatter(
        out, t, opts=options.ReduceScatterOptions(reduceOp=op, **limits)
    ),
)
_add(
    f"_reduce_scatter_base_(Tensor output_tensor, Tensor input_tensor, Group group, Op reduce_op{_FLAGS})"
    " -> (Tensor, Work)",
    lambda g, limits, out, t, op: g.reduce_scatter_single(
        out, t, options.ReduceScatterOptions(reduceOp=op, **limits)
    ),
)
_add(
    f"alltoall_(Tensor[] output_tensors, Tensor[] input_tensors, Group group{_FLAGS}) -> (Tensor[], Work)",
    lambda g, limits, out, t: g.alltoall(out, t, options.AllToAllOptions(**limits)),
)
_add(
    f"alltoall_base_(Tensor output, Tensor input, Group group, int[] output_split_sizes, int[] input_split_sizes{_FLAGS})"
    " -> Work",
    lambda g, limits, out, t, outs, ins: g.all_to_all_single(out, t, outs, ins, options.AllToAllOptions(**limits)),
)
_add(
    f"barrier(Tensor tensor, Group group, int[] device_ids{_FLAGS}) -> Work",
    lambda g, limits, t, devices: g.barrier(options.BarrierOptions(device_ids=devices, **limits)),
)
_add(
    "send(Tensor[] tensors, Group group, int dst, int tag) -> Work",
    lambda g, limits, t, to, tag: g.send(t, to, tag),
)
_add(
    "recv_(Tensor[] tensors, Group group, int src, int tag) -> Work",
    lambda g, limits, t, source, tag: g.recv(t, source, tag),
)
_add(
    "recv_any_source_(Tensor[] tensors, Group group, int tag) -> Work",
    lambda g, limits, t, tag: g.recv_anysource(t, tag),
)
_add(
    "allgather_coalesced_(Tensor[][] output_lists, Tensor[] input_list, Group group, bool async_op=True) -> Work",
    lambda g, limits, out, t: g.allgather_coalesced(out, t, options.AllgatherOptions()),
)
_add(
    "allgather_into_tensor_coalesced_(Tensor[] outputs, Tensor[] inputs, Group group, bool async_op=True) -> Work",
    lambda g, limits, out, t: g.all_gather_single_coalesced(out, t, options.AllgatherOptions()),
)
_add(
    f"reduce_scatter_tensor_coalesced_(Tensor[] outputs, Tensor[] inputs, Group group, Op reduce_op{_FLAGS}) -> Work",
    lambda g, limits, out, t, op: g.reduce_scatter_single_coalesced(
        out, t, options.ReduceScatterOptions(reduceOp=op, **limits)
    ),
)
_add(
    "monitored_barrier_(Tensor tensor, Group group, int[] device_ids, int timeout, bool wait_all_ranks) -> ()",
    lambda g, limits, t, devices, wait_all: g.monitored_barrier(limits.get("timeout"), wait_all),
)
