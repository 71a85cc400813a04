"""Collectives of tensors as functions (``torch.distributed.all_reduce`` and its sisters)."""

from __future__ import annotations

import warnings
from functools import wraps

from typing_extensions import deprecated

import ftorch as torch

from ..eager.native.contexts import contextmanager
from ..eager.runtime import capture_trace
from . import _options as options
from ._groups import get_group_rank, group_of, is_outside
from ._reductions import RedOpType, ReduceOp
from ._work import Joint, Work

_COALESCING: list = []


def check_tensor(value, name: str) -> None:
    """Raises TypeError unless a value is a tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def check_tensors(values, name: str) -> None:
    """Raises TypeError unless a value is a list of tensors."""
    if not isinstance(values, (list, tuple)) or not all(isinstance(v, torch.Tensor) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} with elements of type {[type(v) for v in values]}."
            if isinstance(values, (list, tuple)) else
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} instead."
        )


def _in_program(name, async_op, op=None) -> bool:
    """Whether a collective becomes a step of a program that is being captured, which cannot be one that nobody waits for."""
    capture = capture_trace.capturing()
    if capture is None:
        return False
    if not async_op and not _COALESCING and (op is None or isinstance(op, RedOpType)):
        return True
    capture.end(f"async_op=True for distributed collectives: {name}")
    return False


def _goes_into(output, input, group, name, async_op, op=None) -> bool:
    """Whether a program has the collective that makes ``output``, with as many rows for each process as ``input`` has. Others
    are made at once, or refused."""
    if not 0 < input.dim() == output.dim() or input.shape[1:] != output.shape[1:]:
        return False
    return output.shape[0] == input.shape[0] * group_of(group).size() and _in_program(
        name, async_op, op
    )


def _is_cut(tensor, sizes, count) -> bool:
    """Whether pieces of some sizes (None: of one) are a tensor's, one for each process."""
    rows = tensor.shape[0] if tensor.dim() else 0
    return rows % count == 0 if not sizes else len(sizes) == count and sum(sizes) == rows


def _functional():
    from . import _functional_collectives

    return _functional_collectives


def _same_dtypes(*tensors):
    flat = [t for x in tensors for t in (x if isinstance(x, (list, tuple)) else [x])]
    kinds = [t.dtype.to_real() if t.dtype.is_complex else t.dtype for t in flat]  # parts of complex numbers go with numbers
    for t, kind in zip(flat[1:], kinds[1:]):
        if kind != kinds[0]:
            raise ValueError(
                f"Invalid usage of tensors with different dtypesFound {kinds[0]} and  {t.dtype}"
            )


def _reals(tensors):
    """Tensors, complex ones as their parts, so that those may be given as numbers, too."""
    return [torch.view_as_real(t) if t.is_complex() else t for t in tensors]


def check_op(op):
    """Raises TypeError unless a value is a reduction."""
    if not isinstance(op, RedOpType) and not hasattr(op, "op"):
        raise TypeError(
            "(): incompatible function arguments. The following argument types are supported:\n"
            "    1. (self: torch._C._distributed_c10d.AllreduceOptions, arg0: "
            f"torch._C._distributed_c10d.ReduceOp) -> None\n\nInvoked with: {op!r}"
        )
    return op


def _no_complex(name, tensor, op):
    if tensor.is_complex() and getattr(op, "op", op) in (
        ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR
    ):
        raise ValueError(f"{name} does not support {op} on complex tensors")


def rank_in(group, global_rank, group_rank) -> int:
    """The rank in a group that two arguments mean, of which one must be given."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return group_rank
    if global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return get_group_rank(group, global_rank)


def _done(work: Work, async_op: bool):
    if _COALESCING:
        _COALESCING[-1].append(work)
        return work
    if async_op:
        return work
    work.wait()
    return None


def _sync(kind, async_op, **given):
    made = kind(**given)
    made.asyncOp = async_op or bool(_COALESCING)
    return made


def _renamed(function, name, says):
    """A function under its earlier name, which warns."""
    text = f"`torch.distributed.{name}` {says}. Please use `torch.distributed.{function.__name__}` instead."

    @wraps(function)
    def earlier(*args, **kwargs):
        if capture_trace.capturing() is None:  # a program would not warn again
            warnings.warn(text, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    earlier.__deprecated__ = text

    earlier.__name__ = earlier.__qualname__ = name
    earlier.__doc__ = f"`{function.__name__}`."
    return earlier


_LATER = (
    "`torch.distributed.{}` will be deprecated. If you must use it, please revisit our documentation later at "
    "https://pytorch.org/docs/main/distributed.html#collective-functions"
)


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Combines a tensor over all processes, in place.

    Args:
        op: see `ReduceOp`.
        async_op: whether a `Work` comes back at once.
    """
    check_tensor(tensor, "tensor")
    if is_outside(group, "all_reduce"):
        return None
    _no_complex("all_reduce", tensor, op)
    if _in_program("all_reduce", async_op, op):
        _functional().all_reduce_inplace(tensor, op.name, group)
        return None
    opts = _sync(options.AllreduceOptions, async_op, reduceOp=check_op(op))
    return _done(group_of(group).allreduce([tensor], opts), async_op)


@deprecated(_LATER.format("all_reduce_coalesced"), category=FutureWarning)
def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """`all_reduce` of several tensors of one dtype, as one."""
    tensors = [tensors] if isinstance(tensors, torch.Tensor) else tensors
    check_tensors(tensors, "tensor")
    _same_dtypes(tensors)
    if is_outside(group, "all_reduce_coalesced"):
        return None
    for t in tensors:
        _no_complex("all_reduce", t, op)
    tensors = _reals(tensors)
    opts = _sync(options.AllreduceCoalescedOptions, async_op, reduceOp=check_op(op))
    work = group_of(group).allreduce_coalesced(tensors, opts)
    return work.get_future() if async_op and not _COALESCING else _done(work, async_op)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """`all_reduce` whose result the process ``dst`` gets."""
    check_tensor(tensor, "tensor")
    if is_outside(group, "reduce"):
        return None
    root = rank_in(group_of(group), dst, group_dst)
    opts = _sync(options.ReduceOptions, async_op, reduceOp=check_op(op), rootRank=root)
    return _done(group_of(group).reduce([tensor], opts=opts), async_op)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Gives all processes the tensor of the process ``src``, in place."""
    check_tensor(tensor, "tensor")
    if is_outside(group, "broadcast"):
        return None
    root = rank_in(group_of(group), src, group_src)
    opts = _sync(options.BroadcastOptions, async_op, rootRank=root)
    return _done(group_of(group).broadcast([tensor], opts=opts), async_op)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Fills a list with the tensors of all processes, by rank. Their shapes may differ."""
    check_tensors(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    _same_dtypes(tensor_list, tensor)
    if is_outside(group, "all_gather"):
        return None
    fits = len(tensor_list) == group_of(group).size() and {t.shape for t in tensor_list} == {tensor.shape}
    if fits and _in_program("all_gather", async_op):
        _functional().all_gather_inplace(tensor_list, tensor, group)
        return None
    opts = _sync(options.AllgatherOptions, async_op)
    return _done(group_of(group).allgather([_reals(tensor_list)], _reals([tensor]), opts), async_op)


@deprecated(_LATER.format("all_gather_coalesced"), category=FutureWarning)
def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """`all_gather` of several tensors at once."""
    if is_outside(group, "all_gather_coalesced"):
        return None
    check_tensors(input_tensor_list, "input_tensor_list")
    _same_dtypes(input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for row in output_tensor_lists:
        check_tensors(row, "output_tensor_lists")
        _same_dtypes(row)
    opts = _sync(options.AllgatherOptions, async_op)
    rows = [_reals(row) for row in output_tensor_lists]
    work = group_of(group).allgather_coalesced(rows, _reals(input_tensor_list), opts)
    return work.get_future() if async_op else _done(work, False)


def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    """The tensors of all processes, joined or stacked along the first dimension."""
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    if is_outside(group, "all_gather_single"):
        return None
    if _goes_into(output_tensor, input_tensor, group, "all_gather_single", async_op):
        _functional().all_gather_tensor_inplace(output_tensor, input_tensor, group)
        return None
    opts = _sync(options.AllgatherOptions, async_op)
    return _done(group_of(group).all_gather_single(output_tensor, input_tensor, opts), async_op)


all_gather_into_tensor = _renamed(all_gather_single, "all_gather_into_tensor", "is deprecated")
_all_gather_base = _renamed(
    all_gather_single, "_all_gather_base", "is a private function and will be deprecated"
)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """`all_gather` whose result the process ``dst`` gets (0 by default)."""
    check_tensor(tensor, "tensor")
    if gather_list:
        check_tensors(gather_list, "gather_list")
        _same_dtypes(tensor, gather_list)
    if is_outside(group, "gather"):
        return None
    members = group_of(group)
    root = rank_in(members, 0 if dst is None and group_dst is None else dst, group_dst)
    if members.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    opts = _sync(options.GatherOptions, async_op, rootRank=root)
    return _done(members.gather([gather_list] if gather_list else [], [tensor], opts), async_op)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Gives each process its tensor of the list of the process ``src`` (0 by default)."""
    check_tensor(tensor, "tensor")
    if scatter_list:
        check_tensors(scatter_list, "scatter_list")
        _same_dtypes(tensor, scatter_list)
    if is_outside(group, "scatter"):
        return None
    members = group_of(group)
    root = rank_in(members, 0 if src is None and group_src is None else src, group_src)
    if members.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    opts = _sync(options.ScatterOptions, async_op, rootRank=root)
    return _done(members.scatter([tensor], [scatter_list] if scatter_list else [], opts), async_op)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Combines lists of tensors over all processes; each gets its own element."""
    check_tensor(output, "output")
    check_tensors(input_list, "input_list")
    _same_dtypes(output, input_list)
    if is_outside(group, "reduce_scatter"):
        return None
    opts = _sync(options.ReduceScatterOptions, async_op, reduceOp=check_op(op))
    return _done(group_of(group).reduce_scatter([output], [input_list], opts=opts), async_op)


def reduce_scatter_single(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """`reduce_scatter` of one tensor, cut along the first dimension."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    if is_outside(group, "reduce_scatter_single"):
        return None
    if _goes_into(input, output, group, "reduce_scatter_single", async_op, op):
        _functional().reduce_scatter_tensor_inplace(output, input, op.name, group)
        return None
    opts = _sync(options.ReduceScatterOptions, async_op, reduceOp=check_op(op))
    return _done(group_of(group).reduce_scatter_single(output, input, opts), async_op)


reduce_scatter_tensor = _renamed(reduce_scatter_single, "reduce_scatter_tensor", "is deprecated")
_reduce_scatter_base = _renamed(
    reduce_scatter_single, "_reduce_scatter_base", "is a private function and will be deprecated"
)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Each process gives one tensor to each."""
    if is_outside(group, "all_to_all"):
        return None
    check_tensors(output_tensor_list, "output_tensor_list")
    check_tensors(input_tensor_list, "input_tensor_list")
    _same_dtypes(output_tensor_list, input_tensor_list)
    opts = _sync(options.AllToAllOptions, async_op)
    return _done(group_of(group).alltoall(output_tensor_list, input_tensor_list, opts), async_op)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None,
                      async_op=False):
    """`all_to_all` of pieces of one tensor, along its first dimension."""
    if is_outside(group, "all_to_all_single"):
        return None
    check_tensor(output, "output")
    check_tensor(input, "input")
    _same_dtypes(output, input)
    count = group_of(group).size()
    fits = _is_cut(output, output_split_sizes, count) and _is_cut(input, input_split_sizes, count)
    fits = fits and input.dim() == output.dim() > 0 and input.shape[1:] == output.shape[1:]
    if fits and _in_program("all_to_all_single", async_op):
        _functional().all_to_all_inplace(
            output, input, output_split_sizes, input_split_sizes, group
        )
        return None
    opts = _sync(options.AllToAllOptions, async_op)
    work = group_of(group).all_to_all_single(
        output, input, output_split_sizes or [], input_split_sizes or [], opts
    )
    return _done(work, async_op)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Returns when all processes of the group have called it (``timeout``: instead of the group's)."""
    if is_outside(group, "barrier"):
        return None
    opts = _sync(options.BarrierOptions, async_op, device_ids=device_ids)
    if timeout is not None:
        opts.timeout = timeout
    return _done(group_of(group).barrier(opts=opts), async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False) -> None:
    """`barrier` of which rank 0 says who did not come in time.

    Raises:
        RuntimeError: if somebody did not.
    """
    if is_outside(group, "monitored_barrier"):
        return
    group_of(group).monitored_barrier(timeout, wait_all_ranks)


class _CoalescingManager:
    def __init__(self):
        self.works: list = []

    def append(self, work=None):
        """Adds a handle."""
        if work:
            self.works.append(work)

    def wait(self):
        """Waits for all."""
        for work in self.works:
            work.wait()


@contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Within, collectives start without waiting; behind it all are done, or its value waits for them."""
    manager = _CoalescingManager()
    _COALESCING.append(manager.works)
    try:
        yield manager
    finally:
        _COALESCING.pop()
    if not async_ops:
        Joint(manager.works).wait()
