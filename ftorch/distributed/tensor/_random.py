"""Random numbers of `DTensor`s (``torch.distributed.tensor._random``).

Each process draws what one process alone would draw and takes its part, so results are those of a single device
whenever all processes have one seed.
"""

from __future__ import annotations

import ftorch as torch

__all__ = ["is_rng_supported_mesh", "manual_seed"]


def is_rng_supported_mesh(device_mesh) -> bool:
    """Whether a mesh' devices draw random numbers for `DTensor`s: all do."""
    return True


def manual_seed(seed: int, device_mesh) -> None:
    """Gives the processes of a mesh one seed.

    >>> import ftorch as torch
    >>> from ftorch.distributed.tensor._random import manual_seed
    >>> dist = torch.distributed
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = dist.init_device_mesh("cpu", (1,))
    >>> manual_seed(3, mesh)
    >>> torch.initial_seed()
    3
    >>> dist.destroy_process_group()

    Raises:
        RuntimeError: the process is not in the mesh.
    """
    if device_mesh.get_coordinate() is None:
        raise RuntimeError("manual_seed requires the current rank to be a part of the device mesh")
    torch.manual_seed(seed)
