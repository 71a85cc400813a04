"""Tensor parallelism within `DistributedDataParallel`: which reduces plain tensors.

Outside of forward the module's parameters are the own parts of its `DTensor`s; forward sees the `DTensor`s.
"""

from __future__ import annotations

import ftorch as torch

from ._data_parallel_utils import _flatten_tensor, _unflatten_tensor

__all__: list[str] = []


def _owner(module, name):
    parent, _, leaf = name.rpartition(".")
    return module.get_submodule(parent), leaf


def _reconstruct_dtensor(module, _input) -> None:
    """Makes the parameters `DTensor`s."""
    for name, p in list(module.named_parameters()):
        if hasattr(p, "_st_info"):
            owner, leaf = _owner(module, name)
            del owner._parameters[leaf]
            setattr(owner, leaf, _unflatten_tensor(p, p._st_info))
            owner.__dict__.setdefault("_local_parameters", {})[leaf] = p


def _localize_dtensor(module, *_, ignored_params=None) -> None:
    """Makes the parameters the own parts of `DTensor`s."""
    for owner in module.modules():
        for leaf, p in owner.__dict__.pop("_local_parameters", {}).items():
            delattr(owner, leaf)
            owner.register_parameter(leaf, p)
        for leaf, p in list(owner._parameters.items()):
            if p is None or (ignored_params is not None and p in ignored_params):
                continue
            local, spec = _flatten_tensor(p)
            if spec is not None:
                made = torch.nn.Parameter(local.detach(), p.requires_grad)
                made._st_info = spec
                owner.register_parameter(leaf, made)


def _pre_dp_module_transform(module) -> None:
    """Lets `DistributedDataParallel` of a tensor-parallel module see plain parameters. Call it before wrapping.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    >>> from ftorch.distributed.tensor.parallel.ddp import _pre_dp_module_transform
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> model = parallelize_module(torch.nn.Linear(2, 4), mesh, ColwiseParallel())
    >>> _pre_dp_module_transform(model)
    >>> type(model.weight).__name__, model(torch.ones(1, 2)).shape
    ('Parameter', torch.Size([1, 4]))
    >>> dist.destroy_process_group()
    """
    _localize_dtensor(module)
    module.register_forward_pre_hook(_reconstruct_dtensor)
    module.register_forward_hook(_localize_dtensor)
