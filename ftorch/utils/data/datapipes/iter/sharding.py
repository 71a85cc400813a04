"""`ShardingFilter`: a share of the samples for each process."""

from __future__ import annotations

from enum import IntEnum

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from ..utils.common import length_of

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):
    """Which processes share: first those of a distributed program, then workers."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


class _ShardingIterDataPipe(IterDataPipe):
    def apply_sharding(
        self, num_of_instances: int, instance_id: int, sharding_group: SHARDING_PRIORITIES
    ):
        raise NotImplementedError


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(_ShardingIterDataPipe):
    """Every n-th sample, once ``apply_sharding`` has said so (method ``sharding_filter``): in a
    worker of a `DataLoader`, each worker's share.

    Args:
        source_datapipe: the source.
        sharding_group_filter: the only group of processes among which to share.
    """

    def __init__(self, source_datapipe: IterDataPipe, sharding_group_filter=None) -> None:
        super().__init__()
        self.source_datapipe = source_datapipe
        self.sharding_group_filter = sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}
        self._update_num_of_instances()

    def apply_sharding(
        self, num_of_instances, instance_id, sharding_group=SHARDING_PRIORITIES.DEFAULT
    ):
        """Takes share ``instance_id`` of ``num_of_instances``.

        Raises:
            ValueError: if there is no such share.
            RuntimeError: if groups are given after or before ``DEFAULT``.
        """
        if instance_id >= num_of_instances:
            raise ValueError(
                f"instance_id({instance_id}) should be smaller than "
                f"num_of_instances({num_of_instances})"
            )
        default = SHARDING_PRIORITIES.DEFAULT
        if any((group == default) != (sharding_group == default) for group in self.groups):
            raise RuntimeError("ShardingFilter cannot mix DEFAULT and non DEFAULT groups")
        self.groups[sharding_group] = (num_of_instances, instance_id)
        self._update_num_of_instances()

    def _update_num_of_instances(self) -> None:
        self.num_of_instances, self.instance_id = 1, 0
        for group in sorted(self.groups, reverse=True):
            if self.sharding_group_filter in (None, group):
                size, rank = self.groups[group]
                self.instance_id += self.num_of_instances * rank
                self.num_of_instances *= size

    def __iter__(self):
        for i, item in enumerate(self.source_datapipe):
            if i % self.num_of_instances == self.instance_id:
                yield item

    def __len__(self) -> int:
        share, rest = divmod(length_of(self.source_datapipe, self), self.num_of_instances)
        return share + (self.instance_id < rest)
