"""Plans: what a rank writes and reads (``torch.distributed.checkpoint.planner``)."""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import ftorch as torch

from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties

__all__ = [
    "BytesIOWriteData", "LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner",
    "TensorWriteData", "WriteItem", "WriteItemType",
]


class WriteItemType(Enum):
    """What is written: a whole tensor, a part of one, or bytes."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What is read: a part of a tensor, or bytes."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """The number of bytes that something takes."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A part of a tensor: where it lies, and the whole tensor's properties and size."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: torch.Size


@dataclass(frozen=True)
class WriteItem:
    """Something that a rank writes; its value comes from `SavePlanner.resolve_data`."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """The bytes of the whole tensor, or None for what is none."""
        if self.tensor_data is None:
            return None
        return math.prod(self.tensor_data.size) * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """A box that a rank reads: where it lies in the part that was saved, and where it goes."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Any
    storage_index: MetadataIndex
    storage_offsets: Any
    lengths: Any


@dataclass(frozen=True)
class SavePlan:
    """What a rank writes, and what storage and planner add for it."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What a rank reads, and what storage and planner add for it."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(ABC):
    """Says what each rank writes. In this order, on every rank but where said:

    `set_up_planner`, `create_local_plan`, `create_global_plan` (on the coordinator), `finish_plan`,
    `resolve_data` (for each item, perhaps several times and from several threads).
    """

    @abstractmethod
    def set_up_planner(self, state_dict: dict, storage_meta: StorageMeta | None = None,
                       is_coordinator: bool = False) -> None:
        """Takes what is saved."""

    @abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this rank would write."""

    @abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """The plans of all ranks together, and the index."""

    @abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """What this rank writes after all."""

    @abstractmethod
    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        """The value of an item."""


class LoadPlanner(ABC):
    """Says what each rank reads. In this order, on every rank but where said:

    `set_up_planner`, `create_local_plan`, `create_global_plan` (on the coordinator), `finish_plan`, then for each
    item `load_bytes`, or `resolve_tensor` and `commit_tensor`.
    """

    @abstractmethod
    def set_up_planner(self, state_dict: dict, metadata: Metadata | None = None,
                       is_coordinator: bool = False) -> None:
        """Takes what is loaded into, and the index."""

    @abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this rank would read."""

    @abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """The plans of all ranks together."""

    @abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """What this rank reads after all."""

    @abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Takes what is no tensor."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where the storage writes what is no tensor."""
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor:
        """The tensor that an item is copied into: it has the item's lengths."""

    @abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None:
        """Called when that tensor is filled."""
