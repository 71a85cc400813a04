"""Checkpoints in a folder (``torch.distributed.checkpoint.filesystem``).

Each rank writes one file, whose parts are files of `ftorch.save`; rank 0 writes the index. Files
are complete before they have their names, and the index comes last, so a save that is killed leaves
the checkpoint that was there.
"""

from __future__ import annotations

import dataclasses
import io
import os
import pathlib
import uuid
from dataclasses import dataclass
from enum import Enum

import ftorch as torch

from ...futures import Future
from . import _index
from ._storage_info import _StorageInfo
from .metadata import Metadata, MetadataIndex, StorageMeta
from .planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

DEFAULT_SUFFIX = ".distcp"
CURRENT_DCP_VERSION = "1.0.0"  # of the files' form


class SerializationFormat(Enum):
    """How tensors are written."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class _Folder:
    """Files of a folder by name."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def make(self) -> None:
        """Makes the folder."""
        self.path.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """The files' names."""
        return sorted(p.name for p in self.path.iterdir()) if self.path.exists() else []

    def write(self, name, chunks) -> None:
        """Writes a file, which has its name when it is complete."""
        path = self.path / name
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}.tmp")
        with open(temporary, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def read(self, name, offset=0, length=-1) -> bytes:
        """A part of a file."""
        with open(self.path / name, "rb") as file:
            file.seek(offset)
            return file.read(length)

    def remove(self, name) -> None:
        """Removes a file."""
        (self.path / name).unlink(missing_ok=True)


@dataclass
class _StoragePrefix:
    """How a rank's files begin."""

    prefix: str


@dataclass
class _NumberedPrefix(_StoragePrefix):
    """How a rank's files begin, and the number of the first."""

    number: int = 0


def _write_item(stream, data, write_item: WriteItem, storage_key: str) -> WriteResult:
    """Writes an item at the end of a file; where it is.

    Args:
        data: `io.BytesIO`, or a tensor on the CPU. ``storage_key``: the file's name.

    Raises:
        AssertionError: for other data.
    """
    offset = stream.tell()
    if write_item.type is WriteItemType.BYTE_IO:
        if not isinstance(data, io.BytesIO):
            raise AssertionError("Data must be io.BytesIO for BYTE_IO write items")
        stream.write(data.getbuffer())
    else:
        if not isinstance(data, torch.Tensor):
            raise AssertionError("Data must be torch.Tensor for non-BYTE_IO write items")
        if data.device.type != "cpu":
            raise AssertionError("Tensor must be on CPU device")
        torch.save(data, stream)
    length = stream.tell() - offset
    return WriteResult(write_item.index, length, _StorageInfo(storage_key, offset, length))


def _item_size(item: WriteItem) -> int:
    """The bytes of a tensor's part."""
    described = item.tensor_data
    assert described is not None
    return described.chunk.sizes.numel() * described.properties.dtype.itemsize


def _split_by_size_and_type(bins: int, items: list[WriteItem]) -> list[list[WriteItem]]:
    """Items in ``bins`` lists of about as many bytes each: large ones first, each to the list with the fewest."""
    if bins == 1:
        return [items]
    lists: list[list[WriteItem]] = [[] for _ in range(bins)]
    sizes = [0] * bins
    for i, item in enumerate(i for i in items if i.type is WriteItemType.BYTE_IO):
        lists[i % bins].append(item)
    tensors = [i for i in items if i.type is not WriteItemType.BYTE_IO]
    for item in sorted(tensors, key=_item_size, reverse=True):
        least = sizes.index(min(sizes))
        lists[least].append(item)
        sizes[least] += _item_size(item)
    return lists


class FileSystemWriter(StorageWriter, BlockingAsyncStager):
    """Writes a checkpoint into a folder.

    Args:
        path: the folder, made if need be.
        single_file_per_rank: whether a rank's items share a file (with ``thread_count``: as many files).
        overwrite: whether a checkpoint that is there may be replaced.
        cache_staged_state_dict: whether copies for saves in the background share memory.
    """

    def __init__(self, path, single_file_per_rank: bool = True, sync_files: bool = True,
                 thread_count: int = 1, per_thread_copy_ahead: int = 10_000_000,
                 cache_staged_state_dict: bool = False, overwrite: bool = True, _extensions=None,
                 serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE):
        if serialization_format is not SerializationFormat.TORCH_SAVE:
            raise NotImplementedError("safetensors files are written by HuggingFaceStorageWriter")
        self.folder, self.overwrite = self._folder_at(path), overwrite
        self.save_id, self.is_coordinator = str(uuid.uuid4()), True
        self.single_file_per_rank, self.sync_files, self.thread_count = single_file_per_rank, sync_files, thread_count
        self.per_thread_copy_ahead, self.serialization_format = per_thread_copy_ahead, serialization_format
        BlockingAsyncStager.__init__(self, cache_staged_state_dict)

    _folder_at = _Folder

    @property
    def path(self):
        """The folder."""
        return self.folder.path

    @property
    def checkpoint_id(self):
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        """Whether a name is a path."""
        return isinstance(checkpoint_id, os.PathLike) or "://" not in str(checkpoint_id)

    def storage_meta(self) -> StorageMeta:
        """The folder, and the name of this save."""
        return StorageMeta(str(self.path), self.save_id)

    def reset(self, checkpoint_id=None) -> None:
        """Begins a checkpoint, in another folder if one is given."""
        if checkpoint_id:
            self.folder = self._folder_at(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args, **kwargs) -> None:
        """Says whether this rank writes the index."""
        self.is_coordinator = is_coordinator

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Makes the folder.

        Raises:
            RuntimeError: if a checkpoint is there that may not be replaced.
        """
        self.folder.make()
        if self.is_coordinator and not self.overwrite and ".metadata" in self.folder.names():
            raise RuntimeError(f"Checkpoint already exists and self.overwrite={self.overwrite}.")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Says how each rank's files are called: not as those of a checkpoint that is there."""
        names = self.folder.names()
        used = [n[: -len(DEFAULT_SUFFIX)].rsplit("_", 1)[-1] for n in names if n.endswith(DEFAULT_SUFFIX)]
        there = ".metadata" in names
        number = 1 + max((int(u) for u in used if u.isdigit()), default=-1) if there else 0
        return [
            dataclasses.replace(p, storage_data=_NumberedPrefix(f"__{rank}_", number))
            for rank, p in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Writes a plan's items; where each one is."""
        prefix, results = plan.storage_data, []
        lists = _split_by_size_and_type(self.thread_count, plan.items) if self.single_file_per_rank else (
            [[item] for item in plan.items]
        )
        for number, items in enumerate(filter(None, lists), getattr(prefix, "number", 0)):
            name, stream = f"{prefix.prefix}{number}{DEFAULT_SUFFIX}", io.BytesIO()
            for item in items:
                value = planner.resolve_data(item)
                if isinstance(value, torch.Tensor):
                    value = value.detach().cpu().clone()
                results.append(_write_item(stream, value, item, name))
            self.folder.write(name, [stream.getbuffer()])
        return _done(results)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Writes the index, and removes the files of an older checkpoint in the folder."""
        metadata.storage_data = {r.index: r.storage_data for row in results for r in row}
        metadata.storage_meta, metadata.version = self.storage_meta(), CURRENT_DCP_VERSION
        self.folder.write(".metadata", [_index.dumps(metadata)])
        current = {info.relative_path for info in metadata.storage_data.values()}
        for name in self.folder.names():
            if name.startswith("__") and DEFAULT_SUFFIX in name and name not in current:
                self.folder.remove(name)

    def stage(self, state_dict: dict) -> dict:
        """A copy of a state dict, from which a save in the background writes."""
        self.per_thread_copy_ahead = 0  # it is on the CPU already
        return super().stage(state_dict)


def _done(value=None) -> Future:
    future: Future = Future()
    future.set_result(value)
    return future


class FileSystemReader(StorageReader):
    """Reads a checkpoint from a folder."""

    _folder_at = _Folder

    def __init__(self, path, _extension_registry=None):
        self.folder, self.storage_data = self._folder_at(path), {}
        self.load_id = str(uuid.uuid4())

    @property
    def path(self):
        """The folder."""
        return self.folder.path

    @property
    def checkpoint_id(self):
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id) -> bool:
        """Whether a name is a path."""
        return FileSystemWriter.validate_checkpoint_id(checkpoint_id)

    def reset(self, checkpoint_id=None) -> None:
        """Reads from another folder."""
        self.storage_data = {}
        if checkpoint_id:
            self.folder = self._folder_at(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args, **kwargs) -> Metadata:
        """The index."""
        metadata = _index.loads(self.folder.read(".metadata"))
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args, **kwargs) -> None:
        """Takes where each part is."""
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The plans as they are."""
        return plans

    def _whole(self, index: MetadataIndex, info):
        """A part, of which items may be pieces."""
        return self.tensor_of(info)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Reads each part that a plan needs once, and fills what the planner gives for its items."""
        wanted: dict[MetadataIndex, list] = {}
        for item in plan.items:
            wanted.setdefault(item.storage_index, []).append(item)
        order = {i: (self.storage_data[i].relative_path, self.storage_data[i].offset) for i in wanted}
        for index in sorted(wanted, key=order.__getitem__):
            info, part = self.storage_data[index], None
            for item in wanted[index]:
                if item.type is LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(self.bytes_of(info)))
                    continue
                part = self._whole(index, info) if part is None else part
                box = part
                for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                    box = box.narrow(dim, start, length)
                target = planner.resolve_tensor(item).detach()
                if target.shape != box.shape:
                    raise AssertionError(
                        f"req {item.storage_index} mismatch sizes {target.shape} vs {box.shape}"
                    )
                with torch.no_grad():
                    target.copy_(box)
                planner.commit_tensor(item, target)
        return _done()

    def bytes_of(self, info: _StorageInfo) -> bytes:
        """The bytes of a part."""
        return self.folder.read(info.relative_path, info.offset, info.length)

    def tensor_of(self, info: _StorageInfo):
        """The tensor of a part."""
        return torch.load(io.BytesIO(self.bytes_of(info)), map_location="cpu", weights_only=True)
