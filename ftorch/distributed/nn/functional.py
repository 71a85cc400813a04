"""Collectives that give new tensors and have derivatives (``torch.distributed.nn.functional``)."""

from __future__ import annotations

import warnings

import ftorch as torch

from ...autograd import Function
from .. import distributed_c10d as dist
from .._collectives import _same_dtypes
from .._reductions import ReduceOp


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, src, group, tensor):
        ctx.src, ctx.group = src, group
        out = tensor.clone()
        dist.broadcast(out, src, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        total = grad.contiguous().clone()
        dist.reduce(total, ctx.src, group=ctx.group)
        if dist.get_rank() != ctx.src:
            total = torch.zeros_like(total)
        return None, None, total


class _Gather(Function):
    @staticmethod
    def forward(ctx, dst, group, tensor):
        ctx.dst, ctx.group = dst, group
        outs = [torch.zeros_like(tensor) for _ in range(dist.get_world_size(group))]
        tensor = tensor.contiguous()
        dist.gather(tensor, outs if dist.get_rank(group) == dist.get_group_rank(group, dst) else None,
                    dst, group=group)
        return tuple(outs)

    @staticmethod
    def backward(ctx, *grads):
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx, src, group, *tensors):
        ctx.src, ctx.group = src, group
        out = torch.zeros_like(tensors[0])
        own = dist.get_rank() == src
        dist.scatter(out, [t.contiguous() for t in tensors] if own else None, src, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _Reduce(Function):
    @staticmethod
    def forward(ctx, src, op, group, tensor):
        ctx.src, ctx.group = src, group
        out = tensor.clone()
        dist.reduce(out, src, op=op, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, _Broadcast.apply(ctx.src, ctx.group, grad)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, op, group, tensor):
        ctx.op, ctx.group = op, group
        out = tensor.clone()
        dist.all_reduce(out, op=op, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx, group, tensor):
        ctx.group = group
        tensor = tensor.contiguous()
        outs = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.all_gather(outs, tensor, group=group)
        return tuple(outs)

    @staticmethod
    def backward(ctx, *grads):
        out = torch.empty_like(grads[0])
        return None, _Reduce_Scatter.apply(ReduceOp.SUM, ctx.group, out, *grads)


class _Reduce_Scatter(Function):
    @staticmethod
    def forward(ctx, op, group, tensor, *inputs):
        ctx.group = group
        out = torch.empty_like(inputs[dist.get_rank(group)])
        dist.reduce_scatter(out, [t.contiguous() for t in inputs], op=op, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, *_AllGather.apply(ctx.group, grad)


class _AllGatherBase(Function):
    @staticmethod
    def forward(ctx, output, tensor, group):
        ctx.group = group
        out = torch.empty_like(output)
        dist.all_gather_single(out, tensor.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        size = dist.get_world_size(ctx.group)
        out = grad.new_empty((grad.shape[0] // size, *grad.shape[1:]))
        dist.reduce_scatter_single(out, grad.contiguous(), group=ctx.group)
        return None, out, None


class _AlltoAll(Function):
    @staticmethod
    def forward(ctx, group, outs, *tensors):
        ctx.group = group
        ctx.shapes = [t.shape for t in tensors]
        made = [torch.empty_like(o) for o in outs]
        dist.all_to_all(made, [t.contiguous() for t in tensors], group=group)
        return tuple(made)

    @staticmethod
    def backward(ctx, *grads):
        outs = [grads[0].new_empty(s) for s in ctx.shapes]
        return None, None, *_AlltoAll.apply(ctx.group, outs, *grads)


class _AlltoAllSingle(Function):
    @staticmethod
    def forward(ctx, group, output, output_splits, input_splits, tensor):
        ctx.group, ctx.shape = group, tensor.shape
        ctx.splits = input_splits, output_splits
        out = torch.empty_like(output)
        dist.all_to_all_single(out, tensor.contiguous(), output_splits, input_splits, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        out = grad.new_empty(ctx.shape)
        return None, None, None, None, _AlltoAllSingle.apply(
            ctx.group, out, *ctx.splits, grad.contiguous()
        )


def _deprecated(name, later):
    warnings.warn(
        f"torch.distributed.nn.functional.{name} is deprecated, use torch.distributed._functional_collectives.{later} instead.",
        FutureWarning, stacklevel=3,
    )


def broadcast(tensor, src, group=None):
    """A new tensor: that of the process ``src``. Its gradient is the sum of all processes'."""
    _deprecated("broadcast", "broadcast")
    return _Broadcast.apply(src, group, tensor)


def gather(tensor, dst=0, group=None):
    """A tuple of the tensors of all processes, in the process ``dst`` (zeros elsewhere)."""
    return _Gather.apply(dst, group, tensor)


def scatter(tensors, src=0, group=None):
    """The calling process' tensor of the list of the process ``src``."""
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """A new tensor: all processes' combined, in the process ``dst``.

    >>> import ftorch as torch
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> import ftorch.distributed.nn
    >>> ftorch.distributed.nn.functional.reduce(torch.ones(2), 0)
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _Reduce.apply(dst, op, group, tensor)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None):
    """A new tensor: the calling process' element of all processes' lists, combined."""
    _deprecated("reduce_scatter", "reduce_scatter_single")
    _same_dtypes(output, input_list)
    return _Reduce_Scatter.apply(op, group, output, *input_list)


def all_gather(tensor, group=None):
    """A tuple of the tensors of all processes."""
    _deprecated("all_gather", "all_gather_single")
    return _AllGather.apply(group, tensor)


def _all_gather_base(output_tensor, input_tensor, group=None):
    return _AllGatherBase.apply(output_tensor, input_tensor, group)


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    """A tuple of tensors, one from each process."""
    return _AlltoAll.apply(group, output_tensor_list, *input_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """A new tensor of pieces, one from each process."""
    _deprecated("all_to_all_single", "all_to_all_single")
    return _AlltoAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """A new tensor: all processes' combined."""
    _deprecated("all_reduce", "all_reduce")
    return _AllReduce.apply(op, group, tensor)
