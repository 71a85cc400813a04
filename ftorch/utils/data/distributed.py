"""`DistributedSampler`: each process of a group reads its own share of a dataset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sized

import ftorch as torch

from .dataset import Dataset as Dataset
from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every ``num_replicas``-th index, from ``rank`` on (``torch.utils.data.DistributedSampler``).

    Every share has the same length: without ``drop_last`` the order is padded from its start.

    Args:
        num_replicas, rank: those of the default process group by default.
        shuffle: permute, with a generator seeded by ``seed + epoch``; call `set_epoch` before each
            epoch, or all epochs have one order.

    Raises:
        ValueError: if ``rank`` is not in ``[0, num_replicas)``.
        RuntimeError: if a default is wanted and the distributed package is not available.

    >>> import ftorch as torch
    >>> list(torch.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None,
                 shuffle: bool = True, seed: int = 0, drop_last: bool = False) -> None:
        if num_replicas is None:
            num_replicas = _distributed().get_world_size()
        if rank is None:
            rank = _distributed().get_rank()
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        n = len(dataset)
        self.num_samples = n // num_replicas if drop_last else math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = torch.randperm(n, generator=generator).tolist()
        else:
            indices = list(range(n))
        padded = itertools.islice(itertools.cycle(indices), self.total_size)
        return iter(list(itertools.islice(padded, self.rank, None, self.num_replicas)))

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which seeds the permutation together with ``seed``."""
        self.epoch = epoch


def _distributed():
    try:
        package = torch.distributed
    except ImportError:
        package = None
    if package is None or not package.is_available():
        raise RuntimeError("Requires distributed package to be available")
    return package
