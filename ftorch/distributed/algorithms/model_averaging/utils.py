"""Parameters averaged over processes."""

from __future__ import annotations

import ftorch as torch

from ... import distributed_c10d as dist

__all__ = ["average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average"]


def average_parameters(params, process_group) -> None:
    """Replaces parameters by their averages over a group, in one exchange."""
    params = list(params)
    with torch.no_grad():
        flat = torch.cat([p.detach().reshape(-1) for p in params]) / dist.get_world_size(process_group)
        dist.all_reduce(flat, group=process_group)
        for p, part in zip(params, flat.split([p.numel() for p in params])):
            p.copy_(part.view(p.shape))


def get_params_to_average(params) -> list:
    """The parameters that have gradients, of parameters or of groups of an optimizer."""
    found = []
    for p in params:
        for q in p["params"] if isinstance(p, dict) else [p]:
            if q.grad is not None:
                found.append(q)
    return found


def average_parameters_or_parameter_groups(params, process_group) -> None:
    """`average_parameters` of what has gradients."""
    average_parameters(get_params_to_average(params), process_group)
