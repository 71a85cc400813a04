"""`DistributedDataParallel` inside a program: the averages of gradients are steps of its backward pass."""

from __future__ import annotations

import ftorch as torch

from ...autograd import Function
from ...utils._pytree import tree_flatten, tree_unflatten
from .. import _functional_collectives as functional
from .. import distributed_c10d as dist
from .._reducer import all_reduce_hook


def _link():
    return torch.zeros((), dtype=torch.float32, device="cpu")


class _Averaged(Function):
    """Tensors as they are, whose gradients are averages over a group's processes, exchanged as one. Those that a process does
    not use count as zeros there: others may, and what is exchanged has one layout.

    Buckets are chained: each takes what the one after it in backward gives first (``after``), and the model's results take the
    first one's (`_Reached`). So a backward pass that comes from these exchanges all buckets in one order, also those of which
    this process uses nothing: others would wait for it.
    """

    @staticmethod
    def forward(ctx, group_name, after, *tensors):
        ctx.group_name = group_name
        return _link(), *[t.view_as(t) for t in tensors]

    @staticmethod
    def backward(ctx, after, *grads):
        buffer = torch.cat([g.reshape(-1) for g in grads])
        buffer = buffer / dist._get_group_size_by_name(ctx.group_name)
        parts = functional.reduced(buffer, "sum", ctx.group_name).split([g.numel() for g in grads])
        return None, after if ctx.needs_input_grad[1] else None, *[part.view(g.shape) for part, g in zip(parts, grads)]


class _Reached(Function):
    """A model's results as they are: backward passes that come from them go on to all of its buckets."""

    @staticmethod
    def forward(ctx, first, *tensors):
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return _link(), *grads


def fits(ddp) -> bool:
    """Whether a call of a `DistributedDataParallel` can be a part of a program: all it does is to average dense gradients."""
    reducer = ddp.reducer
    if not (torch.is_grad_enabled() and ddp.require_backward_grad_sync) or ddp._join_config.enable:
        return False
    if ddp.mixed_precision is not None or ddp.find_unused_parameters:
        return False
    if (
        reducer.hook is not all_reduce_hook
        or reducer.sparse
        or reducer.armed
        and not reducer.finished
    ):
        return False
    # What `no_sync` has left is averaged together with what comes.
    return not (reducer.unsynced and any(p.grad is not None for p in reducer.parameters))


def call(ddp, inputs, kwargs):
    """The module's result, where gradients of its parameters are averages."""
    from ...eager.transforms.functional_call import functional_call

    group, reducer, module = ddp.process_group, ddp.reducer, ddp.module
    if ddp.will_sync_module_buffers() and group.size() > 1:
        with torch.no_grad():
            for b in ddp._synced_buffers():
                b.copy_(functional.wait_tensor(functional.broadcast(b, 0, group)))
    if not ddp.require_forward_param_sync:  # a call without gradients has left it so
        ddp.require_forward_param_sync = True
    if group.size() == 1:
        return module(*inputs, **kwargs)
    names, parameters, values = {id(p): n for n, p in module.named_parameters()}, reducer.parameters, {}
    chain = None
    for indices in reversed(reducer.fixed_buckets()):
        own = [parameters[i] for i in indices]
        chain, *averaged = _Averaged.apply(group.group_name, chain, *own)
        values.update(zip([names[id(p)] for p in own], averaged))
    leaves, spec = tree_flatten(functional_call(module, values, inputs, kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and x.requires_grad]
    if places:
        for i, t in zip(places, _Reached.apply(chain, *[leaves[i] for i in places])):
            leaves[i] = t
    return tree_unflatten(leaves, spec)
