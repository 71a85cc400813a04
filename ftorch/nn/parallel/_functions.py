"""Copies between devices with gradients (``torch.nn.parallel._functions``): those of `comm`."""

from __future__ import annotations

from ...autograd.function import Function
from . import comm

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


class Broadcast(Function):
    """Copies of tensors on several devices, one after the other; the gradients are added up.

    >>> import ftorch as torch
    >>> from ftorch.nn.parallel._functions import Broadcast
    >>> x = torch.ones(2, requires_grad=True)
    >>> a, b = Broadcast.apply(("cpu", "cpu"), x)
    >>> (a + 2 * b).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """

    @staticmethod
    def forward(ctx, target_gpus, *inputs):
        ctx.count = len(inputs)
        ctx.home = [x.device for x in inputs]
        copies = tuple(x.clone() for each in comm.broadcast_coalesced(inputs, target_gpus) for x in each)
        needed = ctx.needs_input_grad[1:] * len(target_gpus)
        ctx.mark_non_differentiable(*(x for x, asked in zip(copies, needed) if not asked))
        return copies

    @staticmethod
    def backward(ctx, *grads):
        sums = [sum(grads[i + ctx.count:: ctx.count], grads[i]) for i in range(ctx.count)]
        return (None, *(grad.to(home) for grad, home in zip(sums, ctx.home)))


class ReduceAddCoalesced(Function):
    """The sums of several devices' tensors, on one."""

    @staticmethod
    def forward(ctx, destination, num_inputs, *grads):
        ctx.devices = [x.device for x in grads[::num_inputs]]
        groups = [grads[i:i + num_inputs] for i in range(0, len(grads), num_inputs)]
        return tuple(comm.reduce_add_coalesced(groups, destination))

    @staticmethod
    def backward(ctx, *grads):
        return (None, None, *(grad.to(device) for device in ctx.devices for grad in grads))


class Gather(Function):
    """Tensors of several devices one behind the other, on one."""

    @staticmethod
    def forward(ctx, target_device, dim, *inputs):
        ctx.dim = dim
        ctx.devices = [x.device for x in inputs]
        ctx.flat = all(x.dim() == 0 for x in inputs) and dim == 0
        if ctx.flat:
            inputs = tuple(x.view(1) for x in inputs)
        ctx.sizes = [x.size(dim) for x in inputs]
        return comm.gather(inputs, dim, target_device)

    @staticmethod
    def backward(ctx, grad):
        parts = [part.to(device) for part, device in zip(grad.split(ctx.sizes, ctx.dim), ctx.devices)]
        return (None, None, *(part[0] if ctx.flat else part for part in parts))


class Scatter(Function):
    """Parts of a tensor, on several devices."""

    @staticmethod
    def forward(ctx, target_gpus, chunk_sizes, dim, input):
        ctx.dim, ctx.home = dim, input.device
        return tuple(part.clone() for part in comm.scatter(input, target_gpus, chunk_sizes, dim))

    @staticmethod
    def backward(ctx, *grads):
        return None, None, None, comm.gather([grad.to(ctx.home) for grad in grads], ctx.dim, ctx.home)


def _get_stream(device):
    """The stream that copies to a device run on: None, as XLA orders them."""
