"""A sampler that begins within an epoch."""

from __future__ import annotations

import ftorch as torch

from .....utils.data.distributed import DistributedSampler

__all__ = ["ElasticDistributedSampler"]


class ElasticDistributedSampler(DistributedSampler):
    """`DistributedSampler` of what is left of an epoch from ``start_index`` on.

    Raises:
        ValueError: for an index at or behind the dataset's end.
    """

    def __init__(self, dataset, num_replicas: int | None = None, rank: int | None = None, start_index: int = 0):
        super().__init__(dataset=dataset, num_replicas=num_replicas, rank=rank)
        if not hasattr(dataset, "__len__"):
            raise TypeError("Dataset must be an instance of collections.abc.Sized")
        if start_index >= len(dataset):
            raise ValueError(
                f"Start index {start_index} should be less than dataset size {len(dataset)}"
            )
        self.start_index = start_index
        self.num_samples = -(-(len(dataset) - start_index) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self):
        generator = torch.Generator()
        generator.manual_seed(self.epoch)
        left = len(self.dataset) - self.start_index
        indices = (torch.randperm(left, generator=generator) + self.start_index).tolist()
        indices += indices[: self.total_size - len(indices)]
        if len(indices) != self.total_size:
            raise AssertionError(f"{left} samples are left: too few for {self.num_replicas} processes")
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples
