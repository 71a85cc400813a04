"""What a `DataLoader` does for datapipes: seeds for their shufflers and a share for each process."""

from __future__ import annotations

import functools
import sys

import ftorch as torch

from ..datapipes.datapipe import (
    IterDataPipe,
    MapDataPipe,
    _IterDataPipeSerializationWrapper,
    _MapDataPipeSerializationWrapper,
)
from ..graph_settings import apply_sharding, seed_pipes
from ..sampler import draw_seed
from . import worker


def wrap(dataset):
    """The dataset, if it is a datapipe in a wrapper that belongs to the loader."""
    if isinstance(dataset, IterDataPipe):
        return _IterDataPipeSerializationWrapper(dataset)
    if isinstance(dataset, MapDataPipe):
        return _MapDataPipeSerializationWrapper(dataset)
    return dataset


def is_datapipe(dataset) -> bool:
    """Whether it has a graph."""
    return isinstance(dataset, (IterDataPipe, MapDataPipe))


def _distributed():
    """The distributed package, if this process belongs to a group."""
    distributed = sys.modules.get(f"{torch.__name__}.distributed")
    return distributed if distributed is not None and distributed.is_initialized() else None


def shared_seed(dataset, generator) -> int | None:
    """The seed of an epoch of a datapipe, the same in all distributed processes; None for other datasets."""
    if not isinstance(dataset, IterDataPipe):
        return None
    seed = draw_seed(generator)
    if (distributed := _distributed()) is not None:
        shared = torch.tensor(seed)
        distributed.broadcast(shared, src=0)
        seed = int(shared.item())
    return seed


def seed_epoch(dataset, seed) -> list[int] | None:
    """Seeds the random datapipes of a stream for an epoch, whose `shared_seed` is given.

    Returns the seeds, which its copies in workers need as well; None for other datasets.
    """
    return None if seed is None else seed_pipes(dataset, torch.Generator().manual_seed(seed))


def place() -> tuple[int, int]:
    """How many distributed processes there are, and which of them this one is."""
    distributed = _distributed()
    return (1, 0) if distributed is None else (distributed.get_world_size(), distributed.get_rank())


def shard_for_process(dataset) -> None:
    """Shares a datapipe among distributed processes."""
    if is_datapipe(dataset):
        apply_sharding(dataset, *place())


def sharding_init_fn(dataset, worker_init_fn):
    """The ``worker_init_fn`` for a dataset: workers share a datapipe before the user's is called."""
    if not is_datapipe(dataset):
        return worker_init_fn
    return functools.partial(_shard_in_worker, worker_init_fn, *place())


def _shard_in_worker(worker_init_fn, world_size, rank, worker_id):
    info = worker.get_worker_info()
    assert info is not None
    # Distributed processes share first, then each one's workers.
    shares = info.num_workers * world_size
    apply_sharding(info.dataset, shares, worker_id * world_size + rank)
    if worker_init_fn is not None:
        worker_init_fn(worker_id)
