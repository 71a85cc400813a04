"""Collectives that give new tensors and name their group in every way that PyTorch's do: a group, its
name, a list of ranks, a mesh and a dimension (``torch.distributed._functional_collectives``)."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import ftorch as torch

from ..autograd import Function
from ..eager.runtime import capture_trace
from ..eager.tensor import modes
from ..utils._python_dispatch import _len_torch_dispatch_stack
from ..utils._pytree import tree_map_only
from . import distributed_c10d as dist
from ._programs.steps import collective
from ._reductions import ReduceOp

RANK_TYPES = Any


def _expand_group(group, tag: str = ""):
    """(tag, ranks, processes of each group) of a group, a list of ranks or of such lists, a 1-d mesh, or (mesh, dimension).

    Raises:
        ValueError: for anything else, and for groups of several sizes.
    """
    if isinstance(group, list):
        rows = group if isinstance(group[0], list) else [group]
        for row in rows[1:]:
            if len(row) != len(rows[0]):
                raise ValueError(f"group sizes must be identical found {len(rows[0])} and {len(row)}")
        return tag, [rank for row in rows for rank in row], len(rows[-1])
    if isinstance(group, str) or not isinstance(group, (dist.ProcessGroup, tuple, *_meshes())):
        raise ValueError(
            "Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int)."
        )
    made = _resolve_group(group)
    ranks = dist.get_process_group_ranks(made)
    return tag or dist._get_group_tag(made), ranks, len(ranks)


def _meshes():
    from .device_mesh import DeviceMesh

    return (DeviceMesh,)


def _resolve_group(group, tag: str = ""):
    """The group that an argument means.

    Raises:
        ValueError: if it is none of the kinds that name one, or a list of ranks of which no group with the tag is there.
    """
    if isinstance(group, dist.ProcessGroup):
        return group
    if isinstance(group, str):
        return dist._resolve_process_group(group)
    if isinstance(group, _meshes()):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return group.get_group()
    if isinstance(group, tuple):
        if len(group) == 2 and isinstance(group[0], _meshes()) and isinstance(group[1], int):
            return group[0].get_group(group[1])
        kinds = tuple(map(type, group[:2]))
        raise ValueError(f"Invalid tuple for group must be (DeviceMesh, int). Instead got {kinds}")
    if isinstance(group, list):
        if not is_torchdynamo_compiling():
            warnings.warn(
                "The combination of ranks + tag as process group identifier has been deprecated. Please switch to using "
                "ProcessGroup, DeviceMesh, or group name instead.", FutureWarning, stacklevel=4,
            )
        return dist._resolve_process_group(dist._resolve_group_name_by_ranks_and_tag(group, tag))
    raise ValueError(f"Unsupported group type: {type(group)}, {group}")


def _dimension(dim, rank):
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(rank, 1)}, {max(rank, 1) - 1}], but got {dim})"
        )
    return dim % rank if rank else 0


def _resolve_group_name(group, tag: str = "") -> str:
    """The name of the group that an argument means; a name is its own."""
    return group if isinstance(group, str) else _resolve_group(group, tag).group_name


def is_torchdynamo_compiling() -> bool:
    """Whether a call is being captured (``torch.compiler.is_dynamo_compiling``)."""
    return torch.compiler.is_dynamo_compiling()


def _reduction(name):
    if not isinstance(name, str):
        return name
    found = getattr(ReduceOp, name.upper(), None)
    if found is None:
        raise RuntimeError(f"Unrecognized reduce_op: {name}")
    return found


# What the functions below compute, at once or called back from a program (`_programs.steps.collective`).


def _all_reduce(x, group, op):
    out = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(out, op, group)
    return out


def _all_gather(x, group):
    out = x.new_empty((x.shape[0] * group.size(), *x.shape[1:]))
    dist.all_gather_single(out, x, group)
    return out


def _reduce_scatter(x, group, op):
    out = x.new_empty((x.shape[0] // group.size(), *x.shape[1:]))
    dist.reduce_scatter_single(out, x, op, group)
    return out


def _all_to_all_single(x, group, output_splits, input_splits):
    out = x.new_empty((sum(output_splits) if output_splits else x.shape[0], *x.shape[1:]))
    dist.all_to_all_single(out, x, output_splits, input_splits, group)
    return out


def _broadcast(x, group, src):
    out = x.clone(memory_format=torch.contiguous_format)
    dist.broadcast(out, group=group, group_src=src)
    return out


def _reduce(x, group, dst):
    total = x.clone(memory_format=torch.contiguous_format)
    dist.reduce(total, group=group, group_dst=dst)
    return total


def _name(op):
    return str(getattr(op, "name", op)).lower()


def _even(x, group, splits):
    return [x.shape[0] // group.size()] * group.size() if splits is None else list(splits)


# The same as a call of an operator: `torch.ops._c10d_functional`.
_AS_OPERATORS = {
    _all_reduce: lambda ops, x, group, op: ops.all_reduce(x, _name(op), group.group_name),
    _all_gather: lambda ops, x, group: ops.all_gather_into_tensor(x, group.size(), group.group_name),
    _reduce_scatter: lambda ops, x, group, op: ops.reduce_scatter_tensor(x, _name(op), group.size(), group.group_name),
    _all_to_all_single: lambda ops, x, group, *splits: ops.all_to_all_single(
        x, *[_even(x, group, s) for s in splits], group.group_name),
    _broadcast: lambda ops, x, group, src: ops.broadcast(x, src, group.group_name),
    _reduce: lambda ops, x, group, dst: ops.all_reduce(x, "sum", group.group_name),
}


def _computed(compute, x, shape, group, *settings):
    """What a function above computes, or its operator where a graph is made of calls."""
    if capture_trace.capturing() is None and _is_traced():
        return _AS_OPERATORS[compute](torch.ops._c10d_functional, x, group, *settings)
    return collective(compute, x, shape, group, *settings)


def _is_traced() -> bool:
    return any(level.is_graph for level in modes.levels)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, x, op, group):
        ctx.op, ctx.group = op, group
        return _computed(_all_reduce, x, x.shape, group, op)

    @staticmethod
    def backward(ctx, grad):
        if ctx.op is not ReduceOp.SUM:
            raise RuntimeError(
                f"all_reduce backward only supports 'sum' reduction, got '{_name(ctx.op)}'"
            )
        return _AllReduce.apply(grad, ctx.op, ctx.group), None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx, x, dim, group):
        ctx.dim, ctx.group = dim, group
        size = group.size()
        shape = (x.shape[0] * size, *x.shape[1:])
        out = _computed(_all_gather, x.contiguous(), shape, group)
        return torch.cat(out.chunk(size), dim) if dim else out

    @staticmethod
    def backward(ctx, grad):
        return _ReduceScatter.apply(grad, ReduceOp.SUM, ctx.dim, ctx.group), None, None


def _divides(x, dim, size):
    if x.shape[dim] % size:
        raise AssertionError(
            f"input dimension {dim} ({x.shape[dim]} must be a multiple of group_size {size})"
        )


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx, x, op, dim, group):
        ctx.dim, ctx.group, ctx.op = dim, group, op
        size = group.size()
        _divides(x, dim, size)
        if dim:
            x = torch.cat(x.chunk(size, dim))
        return _computed(
            _reduce_scatter, x.contiguous(), (x.shape[0] // size, *x.shape[1:]), group, op
        )

    @staticmethod
    def backward(ctx, grad):
        out = _AllGather.apply(grad, ctx.dim, ctx.group)
        if ctx.op is ReduceOp.AVG:
            out = out / ctx.group.size()
        return out, None, None, None


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx, x, output_splits, input_splits, group):
        ctx.splits, ctx.group = (input_splits, output_splits), group
        shape = (sum(output_splits) if output_splits else x.shape[0], *x.shape[1:])
        splits = [None if s is None else tuple(map(int, s)) for s in (output_splits, input_splits)]
        return _computed(_all_to_all_single, x.contiguous(), shape, group, *splits)

    @staticmethod
    def backward(ctx, grad):
        return _AllToAllSingle.apply(grad, *ctx.splits, ctx.group), None, None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, x, src, group):
        ctx.src, ctx.group = src, group
        return _computed(_broadcast, x, x.shape, group, src)

    @staticmethod
    def backward(ctx, grad):
        total = _computed(_reduce, grad, grad.shape, ctx.group, ctx.src)
        return (total if ctx.group.rank() == ctx.src else torch.zeros_like(total)), None, None


def wait_tensor(tensor):
    """The tensor, when it is there: that of an `AsyncCollectiveTensor`."""
    return tensor.elem if isinstance(tensor, AsyncCollectiveTensor) else tensor


class AsyncCollectiveTensor(torch.Tensor):
    """The result of a collective, which the first call that reads it waits for: its results are plain tensors, and those of
    views are not waited for either.

    Attributes:
        elem: the plain tensor. ``completed``: whether it was waited for.
    """

    elem: torch.Tensor
    completed: bool

    @staticmethod
    def __new__(cls, elem):
        made = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(), dtype=elem.dtype,
            layout=elem.layout, device=elem.device, requires_grad=elem.requires_grad,
        )
        made.elem, made.completed = elem, False
        return made

    def __tensor_flatten__(self):
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(inner_tensors, meta, outer_size, outer_stride):
        if meta is not None:
            raise AssertionError("meta must be None for AsyncCollectiveTensor unflatten")
        return AsyncCollectiveTensor(inner_tensors["elem"])

    def __repr__(self):  # type: ignore[override]
        return f"AsyncCollectiveTensor({self.trigger_wait()})"

    def trigger_wait(self):
        """The plain tensor, which is waited for."""
        self.completed = True
        return self.elem

    def wait(self):
        """`trigger_wait`."""
        return self.trigger_wait()

    def tolist(self):
        """The elements as lists."""
        return self.trigger_wait().tolist()

    def numpy(self):  # type: ignore[override]
        """The elements as an array."""
        return self.trigger_wait().numpy()

    def _get_acs_underlying_tensor(self):
        return self.elem

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        view = getattr(func, "is_view", False)

        def plain(t):
            return t.elem if view else t.trigger_wait()

        args, kwargs = tree_map_only(cls, plain, args), tree_map_only(cls, plain, kwargs or {})
        out = func(*args, **kwargs)
        return tree_map_only(torch.Tensor, cls, out) if view else out


def _maybe_wrap_tensor(out):
    """What a function gives for a result: one that is waited for when it is read; the result itself where a transform
    records calls or it has derivatives.
    """
    return (
        out
        if modes.levels or type(out) is not torch.Tensor or out.requires_grad
        else AsyncCollectiveTensor(out)
    )


def _is_recorded() -> bool:
    """Whether graphs are made of calls, which see operators."""
    return bool(
        modes.function_modes or _len_torch_dispatch_stack() or capture_trace.capturing() is not None
        or _is_traced()
    )


def _called(name, *args):
    """What an operator gives, waited for."""
    ops = torch.ops._c10d_functional
    return ops.wait_tensor(getattr(ops, name)(*args))


def _all_called(name, *args):
    """What an operator of several tensors gives, waited for."""
    ops = torch.ops._c10d_functional
    return [ops.wait_tensor(t) for t in getattr(ops, name)(*args)]


def all_reduce(self, reduceOp: str, group, tag: str = ""):
    """A new tensor: all processes' combined.

    Args:
        reduceOp: ``"sum"``, ``"avg"``, ``"max"`` and so on.
        group: a group, its name, a list of ranks, a 1-d mesh, or (mesh, dimension).
    """
    op = _reduction(reduceOp)
    if (_is_recorded() or self.is_meta) and isinstance(reduceOp, str):
        return _called("all_reduce", self, reduceOp.lower(), _resolve_group_name(group, tag))
    return _maybe_wrap_tensor(_AllReduce.apply(self, op, _resolve_group(group, tag)))


def reduced(tensor, op, group):
    """`all_reduce` as a plain tensor."""
    return _AllReduce.apply(tensor, _reduction(op), _resolve_group(group))


def broadcast(self, src: int, group, tag: str = ""):
    """A new tensor: that of the group's rank ``src``."""
    members = _resolve_group(group, tag)
    if _is_recorded():
        return _called("broadcast", self, src, members.group_name)
    return _maybe_wrap_tensor(_Broadcast.apply(self, src, members))


def spread(tensor, src, group):
    """`broadcast` as a plain tensor."""
    return _Broadcast.apply(tensor, src, _resolve_group(group))


def gathered(tensor, dim, group, tag=""):
    """`all_gather_single` as a plain tensor."""
    return _AllGather.apply(tensor, _dimension(dim, tensor.dim()), _resolve_group(group, tag))


def all_gather_single(self, gather_dim: int, group, tag: str = ""):
    """The tensors of all processes, joined along a dimension."""
    if _is_recorded():
        members, dim = _resolve_group(group, tag), _dimension(gather_dim, self.dim())
        out = _called("all_gather_into_tensor", self, members.size(), members.group_name)
        return torch.cat(torch.chunk(out, members.size(), dim=0), dim=dim) if dim else out
    out = gathered(self, gather_dim, group, tag)
    return out if gather_dim else _maybe_wrap_tensor(out)  # others are joined, which waits


all_gather_single_autograd = all_gather_single


def scattered(tensor, op, dim, group, tag=""):
    """`reduce_scatter_single` as a plain tensor."""
    return _ReduceScatter.apply(tensor, _reduction(op), _dimension(dim, tensor.dim()), _resolve_group(group, tag))


def reduce_scatter_single(self, reduceOp: str, scatter_dim: int, group, tag: str = ""):
    """The calling process' part, along a dimension, of all processes' tensors combined."""
    if _is_recorded() and isinstance(reduceOp, str):
        members, dim = _resolve_group(group, tag), _dimension(scatter_dim, self.dim())
        size = members.size()
        _divides(self, dim, size)
        x = torch.cat(torch.chunk(self, size, dim=dim)) if dim else self
        return _called("reduce_scatter_tensor", x, reduceOp.lower(), size, members.group_name)
    return _maybe_wrap_tensor(scattered(self, reduceOp, scatter_dim, group, tag))


reduce_scatter_single_autograd = reduce_scatter_single


def exchanged(tensor, output_splits, input_splits, group, tag=""):
    """`all_to_all_single` as a plain tensor."""
    return _AllToAllSingle.apply(tensor, output_splits, input_splits, _resolve_group(group, tag))


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag: str = ""):
    """A new tensor of pieces along the first dimension, one from each process."""
    if _is_recorded():
        members = _resolve_group(group, tag)
        even = [self.shape[0] // members.size()] * members.size()
        splits = output_split_sizes or even, input_split_sizes or even
        return _called("all_to_all_single", self, *splits, members.group_name)
    return _maybe_wrap_tensor(exchanged(self, output_split_sizes, input_split_sizes, group, tag))


all_to_all_single_autograd = all_to_all_single


def all_reduce_coalesced(self: list, reduceOp: str, group, tag: str = "") -> list:
    """`all_reduce` of several tensors."""
    if _is_recorded() and isinstance(reduceOp, str):
        return _all_called("all_reduce_coalesced", self, reduceOp.lower(), _resolve_group(group, tag).group_name)
    return [all_reduce(t, reduceOp, group, tag) for t in self]


def all_gather_single_coalesced(self: list, group, tag: str = "") -> list:
    """`all_gather_single` along the first dimension of several tensors."""
    if _is_recorded():
        made = _resolve_group(group, tag)
        return _all_called("all_gather_into_tensor_coalesced", self, made.size(), made.group_name)
    return [all_gather_single(t, 0, group, tag) for t in self]


def reduce_scatter_single_coalesced(inputs: list, reduceOp: str, scatter_dim: list, group, tag: str = "") -> list:
    """`reduce_scatter_single` of several tensors."""
    if _is_recorded() and isinstance(reduceOp, str):
        made = _resolve_group(group, tag)
        rows = [torch.cat(torch.chunk(t, made.size(), dim=d)) if d else t for t, d in zip(inputs, scatter_dim)]
        return _all_called("reduce_scatter_tensor_coalesced", rows, reduceOp.lower(), made.size(), made.group_name)
    return [reduce_scatter_single(t, reduceOp, dim, group, tag) for t, dim in zip(inputs, scatter_dim)]


def _under_earlier_name(function, name):
    """A function under the name that it had before, which warns."""

    own = "torch.distributed._functional_collectives"
    later = name.replace("into_tensor", "single").replace("_tensor", "_single")
    text = f"`{own}.{name}` is deprecated. Please use `{own}.{later}` instead."

    @functools.wraps(function)
    def earlier(*args, **kwargs):
        if capture_trace.capturing() is None:
            warnings.warn(text, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    earlier.__name__ = earlier.__qualname__ = name
    earlier.__doc__ = f"`{function.__name__}`."
    return earlier


all_gather_tensor = _under_earlier_name(all_gather_single, "all_gather_tensor")
all_gather_tensor_autograd = _under_earlier_name(all_gather_single, "all_gather_tensor_autograd")
all_gather_into_tensor_coalesced = _under_earlier_name(all_gather_single_coalesced, "all_gather_into_tensor_coalesced")
reduce_scatter_tensor = _under_earlier_name(reduce_scatter_single, "reduce_scatter_tensor")
reduce_scatter_tensor_autograd = _under_earlier_name(reduce_scatter_single, "reduce_scatter_tensor_autograd")
reduce_scatter_tensor_coalesced = _under_earlier_name(
    reduce_scatter_single_coalesced, "reduce_scatter_tensor_coalesced"
)


def permute_tensor(self, src_dst: list[int], group, tag: str = ""):
    """The tensor of the rank whose entry in ``src_dst`` is the calling process' rank."""
    made = _resolve_group(group, tag)
    rank, rows = made.rank(), self.shape[0]
    given, got = [0] * made.size(), [0] * made.size()
    given[src_dst[rank]] = got[src_dst.index(rank)] = rows
    return all_to_all_single(self, got, given, made)


def _at_once(async_op, group):
    if async_op:
        raise AssertionError("Can't remap async version of inplace op to functional collective")
    return dist.group_of(None) if group is None else group


def all_gather_tensor_inplace(output_tensor, input_tensor, group=None, async_op: bool = False, tag: str = "",
                              gather_dim: int = 0):
    """`all_gather_single` into a tensor."""
    group = _at_once(async_op, group)
    return output_tensor.copy_(wait_tensor(all_gather_single(input_tensor, gather_dim, group, tag)))


def reduce_scatter_tensor_inplace(output, input, op: str = "sum", group=None, async_op: bool = False,
                                  scatter_dim: int = 0, tag: str = ""):
    """`reduce_scatter_single` into a tensor."""
    group = _at_once(async_op, group)
    return output.copy_(wait_tensor(reduce_scatter_single(input, op, scatter_dim, group, tag)))


def all_reduce_inplace(tensor, op: str = "sum", group=None, async_op: bool = False, tag: str = ""):
    """`all_reduce` into the tensor itself."""
    group = _at_once(async_op, group)
    return tensor.copy_(wait_tensor(all_reduce(tensor, op, group, tag)))


def all_to_all_inplace(output, input, output_split_sizes=None, input_split_sizes=None, group=None,
                       async_op: bool = False, tag: str = ""):
    """`all_to_all_single` into a tensor."""
    group = _at_once(async_op, group)
    return output.copy_(
        wait_tensor(all_to_all_single(input, output_split_sizes, input_split_sizes, group, tag))
    )


def all_gather_inplace(tensor_list: list, tensor, group=None, async_op: bool = False, tag: str = ""):
    """`all_gather_single` into several tensors."""
    group = _at_once(async_op, group)
    if tensor.dim() and not all(t.size(0) == tensor.size(0) for t in tensor_list):
        raise AssertionError("Remapping variable size all_gather is not yet supported")
    rows = tensor if tensor.dim() else tensor.reshape(1)
    out, count = wait_tensor(all_gather_single(rows, 0, group, tag)), rows.shape[0]
    parts = [out[i * count : (i + 1) * count] for i in range(len(tensor_list))]
    for held, part in zip(tensor_list, parts):
        held.copy_(part if held.dim() else part[0])
    return tensor_list
