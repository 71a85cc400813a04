"""Saved activations of a tensor-parallel module kept divided until backward."""

from __future__ import annotations

import ftorch as torch

from .. import _dispatch
from .._api import DTensor
from ..placement_types import Replicate, Shard

__all__ = ["input_reshard"]


def input_reshard(module, tp_device_mesh, input_reshard_dim: int | None = None):
    """Lets each process keep only its part of what a module saves for backward, where all have the same.

    Args:
        tp_device_mesh: 1-d. ``input_reshard_dim``: the dimension to divide; None: nothing is done.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor.parallel.input_reshard import input_reshard
    >>> model = torch.nn.Linear(2, 2)
    >>> input_reshard(model, None) is model
    True
    """
    if input_reshard_dim is None:
        return module
    entered: list = []

    def before(_module, _inputs):
        entered.append(torch.autograd.graph.saved_tensors_hooks(
            lambda x: _divided(tp_device_mesh, input_reshard_dim, x),
            lambda x: _gathered(tp_device_mesh, input_reshard_dim, x),
        ))
        entered[-1].__enter__()
        _dispatch.replicated.append({})

    def after(_module, _inputs, _outputs):
        _dispatch.replicated.pop()
        entered.pop().__exit__(None, None, None)

    module.register_forward_pre_hook(before)
    module.register_forward_hook(after, always_call=True)
    return module


class _Divided:
    """The own part of a plain tensor."""

    def __init__(self, part):
        self.part = part


def _divided(mesh, dim, x):
    with torch.no_grad():
        if isinstance(x, DTensor):
            whole = all(p.is_replicate() for p in x.placements)
            return x.redistribute(mesh, [Shard(dim)]) if whole else x
        alike = _dispatch.replicated and id(x._ftorch_storage) in _dispatch.replicated[-1]
        if not alike or x.numel() < mesh.size() or x.dim() <= dim:
            return x  # parts that are this process' own
        return _Divided(DTensor.from_local(x.detach(), mesh).redistribute(mesh, [Shard(dim)]))


def _gathered(mesh, dim, x):
    with torch.no_grad():
        if isinstance(x, _Divided):
            return x.part.full_tensor()
        if isinstance(x, DTensor) and len(x.placements) == 1 and x.placements[0].is_shard():
            return x.redistribute(mesh, [Replicate()])
        return x
