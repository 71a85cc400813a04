"""`parallelize_module`."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch

from ...device_mesh import _mesh_resources
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(module, device_mesh=None, parallelize_plan=None, *, src_data_rank=0):
    """Divides a module's parameters over a 1-d mesh, in place.

    Args:
        parallelize_plan: a style for the module, or {path of a submodule (with ``*``): style}.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> model = parallelize_module(torch.nn.Linear(2, 4), mesh, ColwiseParallel())
    >>> model.weight.placements
    (Shard(dim=0),)
    >>> dist.destroy_process_group()
    """
    mesh = device_mesh or _mesh_resources.get_current_mesh()
    if mesh.ndim > 1:
        raise ValueError(
            f"Currently only 1D device mesh is supported in the context manager, but got {mesh.ndim}-D: "
            f"slice the mesh, as in mesh['tp']"
        )
    if parallelize_plan is None:
        warnings.warn(
            "No parallelize_plan is provided and auto-parallel is not supported at the moment, "
            "so this parallelize_module call will do nothing.",
            stacklevel=2,
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        first, _, rest = path.partition(".")
        found = [child for name, child in module.named_children() if fnmatch(name, first)] if path else [module]
        if not found:
            warnings.warn(
                f"Parallelize plan key '{path}' could not be resolved: no submodule matching token '{first}' in module "
                f"{module}, skipping this plan entry.", stacklevel=2
            )
        for child in found:
            parallelize_module(child, mesh, {rest: style} if rest else style, src_data_rank=src_data_rank)
    return module
