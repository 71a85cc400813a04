"""What a storage of checkpoints does (``torch.distributed.checkpoint.storage``)."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ...futures import Future
from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """Where an item was written; the index keeps ``storage_data``."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(ABC):
    """Writes plans. In this order, on every rank but where said:

    `reset`, `set_up_storage_writer`, `prepare_local_plan`, `prepare_global_plan` (on the coordinator), `write_data`,
    `finish` (on the coordinator).
    """

    @abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        """Begins a checkpoint."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Says whether this rank is the coordinator."""

    @abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Changes this rank's plan before others see it."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Changes the plans of all ranks."""

    @abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Writes a plan's items: a future of a list of `WriteResult`."""

    @abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Writes the index: the checkpoint is there when it is."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        """Whether the storage has such names."""

    def storage_meta(self) -> StorageMeta | None:
        """What the index says of the storage."""
        return None


class StorageReader(ABC):
    """Reads plans. In this order, on every rank but where said:

    `reset`, `read_metadata`, `set_up_storage_reader`, `prepare_local_plan`, `prepare_global_plan` (on the coordinator),
    `read_data`.
    """

    @abstractmethod
    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        """Begins with a checkpoint."""

    @abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The index."""

    @abstractmethod
    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any,
                              **kwargs: Any) -> None:
        """Gives the index back."""

    @abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Changes this rank's plan before others see it."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Changes the plans of all ranks."""

    @abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Reads a plan's items into what the planner gives for them."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        """Whether the storage has such names."""
