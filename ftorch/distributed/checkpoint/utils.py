"""Values of state dicts by their indices (``torch.distributed.checkpoint.utils``)."""

from __future__ import annotations

from typing import Any

import ftorch as torch

from .. import distributed_c10d as dist
from ..tensor import DTensor
from .api import CheckpointException, _is_wrapped_exception, _wrap_exception
from .metadata import MetadataIndex

__all__ = ["find_state_dict_object", "find_tensor_shard"]


def find_tensor_shard(tensor, index: MetadataIndex):
    """The part of a tensor that an index names.

    Raises:
        ValueError: if the tensor is whole and the index names another part.
    """
    if hasattr(tensor, "__get_tensor_shard__"):
        return tensor.__get_tensor_shard__(index)
    if isinstance(tensor, DTensor):
        return tensor._local_tensor
    if index.offset is not None and any(index.offset):
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return tensor


def find_state_dict_object(state_dict: dict, index: MetadataIndex) -> Any:
    """The value that an index names: of a divided tensor the part that is here.

    Raises:
        ValueError: if there is none.
    """
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    value = state_dict[index.fqn]
    if isinstance(value, torch.Tensor):
        return find_tensor_shard(value, index)
    if index.offset is not None:
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return value


def _get_failure_dict(results: list) -> dict:
    """{rank: what it raised} of what the ranks gave."""
    return {rank: found for rank, found in enumerate(results) if _is_wrapped_exception(found)}


class _DistWrapper:
    """Steps that the ranks of a group make together, with a coordinator: what one raises, all raise.

    Args:
        use_dist: whether there are others; without, everything is done here.
        coordinator_rank: its rank among all processes.
    """

    def __init__(self, group, use_dist: bool, coordinator_rank: int):
        self.group, self.use_dist = group, use_dist
        self.rank, self.global_coordinator_rank, self.coordinator_rank = 0, coordinator_rank, coordinator_rank
        if use_dist:
            self.rank = dist.get_rank(group)
            self.coordinator_rank = coordinator_rank if group is None else dist.get_group_rank(group, coordinator_rank)
        self.is_coordinator = self.rank == self.coordinator_rank

    def get_rank(self) -> int:
        """The own rank in the group."""
        return self.rank

    def get_world_size(self) -> int:
        """How many ranks there are."""
        return dist.get_world_size(self.group) if self.use_dist else 1

    def broadcast_object(self, object):
        """The coordinator's object."""
        box = [object]
        if self.use_dist:
            dist.broadcast_object_list(box, src=self.global_coordinator_rank, group=self.group)
        return box[0]

    def gather_object(self, object) -> list | None:
        """All ranks' objects for the coordinator; None for others."""
        if not self.use_dist:
            return [object]
        found = [None] * self.get_world_size() if self.is_coordinator else None
        dist.gather_object(object, found, dst=self.global_coordinator_rank, group=self.group)
        return found

    def all_gather_object(self, object) -> list:
        """All ranks' objects."""
        found = [object]
        if self.use_dist:
            found = [None] * self.get_world_size()
            dist.all_gather_object(found, object, group=self.group)
        return found

    def scatter_object(self, object_list: list | None):
        """The own one of the coordinator's objects."""
        if not self.use_dist:
            assert object_list is not None
            return object_list[0]
        box: list = [None]
        dist.scatter_object_list(
            box, object_list if self.is_coordinator else None, src=self.global_coordinator_rank, group=self.group
        )
        return box[0]

    def _attempt(self, compute, *args):
        try:
            return compute(*args)
        except BaseException as error:
            return _wrap_exception(error)

    def _of_all(self, step, found, reduce_fun):
        """What the coordinator makes of all ranks' results, or the error that says which failed."""
        failures = _get_failure_dict(found)
        made = None if failures else self._attempt(reduce_fun, found)
        if _is_wrapped_exception(made):
            failures = {self.rank: made}
        return CheckpointException(step, failures) if failures else made

    def reduce_scatter(self, step: str, map_fun, reduce_fun):
        """The own one of the values that the coordinator makes of all ranks'.

        Raises:
            CheckpointException: on all ranks, if something fails on one.
        """
        found, made = self.gather_object(self._attempt(map_fun)), None
        if self.is_coordinator:
            made = self._of_all(step, found, reduce_fun)
            if isinstance(made, CheckpointException):
                made = [made] * self.get_world_size()
        own = self.scatter_object(made)
        if isinstance(own, CheckpointException):
            raise own
        return own

    def all_reduce(self, step: str, map_fun, reduce_fun):
        """What the coordinator makes of all ranks' values. Raises as `reduce_scatter`."""
        found = self.gather_object(self._attempt(map_fun))
        made = self.broadcast_object(self._of_all(step, found, reduce_fun) if self.is_coordinator else None)
        if isinstance(made, CheckpointException):
            raise made
        return made

    def all_gather(self, step: str, map_fun) -> list:
        """All ranks' values. Raises as `reduce_scatter`."""
        found = self.all_gather_object(self._attempt(map_fun))
        if failures := _get_failure_dict(found):
            raise CheckpointException(step, failures)
        return found

    def broadcast(self, step: str, map_fun):
        """The coordinator's value. Raises as `reduce_scatter`."""
        made = self.broadcast_object(self._attempt(map_fun) if self.is_coordinator else None)
        if _is_wrapped_exception(made):
            raise CheckpointException(step, {self.coordinator_rank: made})
        return made

    def barrier(self) -> None:
        """Waits for all ranks."""
        if self.use_dist:
            dist.barrier(group=self.group)
