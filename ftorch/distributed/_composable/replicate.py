"""Data parallelism of a module that stays itself."""

from __future__ import annotations

import functools

import ftorch as torch

from ...nn import Module
from ...nn.parallel import DistributedDataParallel
from .contract import contract

__all__ = ["DDP", "replicate"]


class _Undivided(Module):
    """The module's forward alone, with the module's own parameters, buffers and submodules."""

    def __init__(self, module):
        super().__init__()
        self.forward = module.forward
        self._parameters, self._buffers = module._parameters, module._buffers
        self._modules = module._modules


class DDP:
    """Methods that a module has after `replicate`."""

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Whether backward averages gradients."""
        replicate.state(self).ddp.require_backward_grad_sync = requires_gradient_sync

    def register_comm_hook(self, *args, **kwargs) -> None:
        """`DistributedDataParallel.register_comm_hook`."""
        replicate.state(self).ddp.register_comm_hook(*args, **kwargs)


@contract()
def replicate(module, ignored_modules=None, **kwargs):
    """Averages a module's gradients over processes, in place: what `DistributedDataParallel` does around it.

    Args:
        ignored_modules: modules within, whose gradients stay each process' own.
        kwargs: those of `DistributedDataParallel` (``process_group``, ``bucket_cap_mb`` and so on).

    Raises:
        RuntimeError: for parameters on several devices, or none that requires gradients.

    >>> import ftorch as torch
    >>> from ftorch.distributed._composable import replicate
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = replicate(torch.nn.Linear(2, 1))
    >>> model(torch.ones(1, 2)).sum().backward()
    >>> model.weight.grad
    tensor([[1., 1.]])
    >>> dist.destroy_process_group()
    """
    device = kwargs.pop("device_id", 0)
    if not isinstance(device, (int, torch.device)):
        raise RuntimeError(f"Expected device_id to be int or torch.device, but got {type(device)}")
    device_mesh = kwargs.pop("device_mesh", None)
    if device_mesh is not None:
        kwargs["process_group"] = device_mesh.get_group()
    ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", None)
    buffers = [name for name, _ in module.named_buffers()]  # stay each process' own, as in PyTorch
    own = {id(p) for m in ignored_modules or () for p in m.parameters()}
    own_names = [name for name, p in module.named_parameters(remove_duplicate=False) if id(p) in own]
    module._ddp_params_and_buffers_to_ignore = [*(ignored or ()), *buffers, *own_names]
    try:
        ddp = DistributedDataParallel(module, **kwargs)
    finally:
        if ignored is None:
            del module._ddp_params_and_buffers_to_ignore
        else:
            module._ddp_params_and_buffers_to_ignore = ignored
    ddp._modules["module"] = _Undivided(module)
    replicate.state(module).ddp = ddp

    @functools.wraps(module.forward)
    def forward(*args, **named):
        return ddp(*args, **named)

    module.forward = forward
    kind = type(module)
    module.__class__ = type(f"DDP{kind.__name__}", (DDP, kind), {})
    return module
