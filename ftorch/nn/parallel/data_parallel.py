"""``DataParallel``: one process that would feed several devices."""

from __future__ import annotations

from ..modules.module import Module
from .parallel_apply import parallel_apply as parallel_apply
from .replicate import replicate as replicate
from .scatter_gather import gather as gather
from .scatter_gather import scatter_kwargs as scatter_kwargs


class DataParallel(Module):
    """A module that runs its ``module`` (``torch.nn.DataParallel``).

    On one device PyTorch's does the same. JAX's own sharding splits a batch over several devices:
    place the parameters and inputs with ``jax.sharding`` and the module runs on all of them.

    >>> import ftorch as torch
    >>> list(torch.nn.DataParallel(torch.nn.Linear(1, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module, device_ids=None, output_device=None, dim=0):
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids = list(device_ids or [])
        self.output_device = output_device

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """Runs a module on its inputs (a tensor or a tuple)."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))
