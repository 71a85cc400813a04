"""Distributed checkpoints as safetensors files (``torch.distributed.checkpoint.hf_storage``)."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import ftorch as torch

from ...futures import Future
from . import _hf_utils as files
from ._consolidate_hf_safetensors import consolidate_safetensors_files
from .filesystem import FileSystemReader, FileSystemWriter, _done
from .metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .planner import SavePlan, SavePlanner, WriteItemType
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


@dataclass
class _HFStorageInfo:
    """A tensor's file, its place in it, its shape and dtype."""

    relative_path: str
    offset: int
    length: int
    shape: Any = None
    dtype: Any = None


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes a checkpoint as safetensors files.

    Args:
        path: the folder.
        fqn_to_index_mapping: the number of the file that each name goes to (one file by default).
        save_distributed: whether each process writes its own parts; else all tensors are whole.
        enable_consolidation: whether rank 0 makes whole files of the parts in the end.
    """

    def __init__(self, path, fqn_to_index_mapping: dict[str, int] | None = None, thread_count: int = 1,
                 save_distributed: bool = False, enable_consolidation: bool = False,
                 thread_count_consolidation: int = 1):
        super().__init__(path)
        self.fqn_to_index_mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.enable_consolidation = enable_consolidation
        self.consolidated_output_path = None
        if enable_consolidation:
            self.consolidated_output_path = str(path)
            self.folder = self._folder_at(f"{path}/{files.SHARDED_DIR_NAME}")

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Numbers the ranks."""
        return [dataclasses.replace(plan, storage_data=rank) for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Writes a rank's tensors, one file for each number of the mapping; where each one is."""
        rank, mapping = plan.storage_data, self.fqn_to_index_mapping
        items = [
            (item.index, planner.resolve_data(item).detach().cpu().clone())  # pyright: ignore
            for item in plan.items if item.type is not WriteItemType.BYTE_IO
        ]
        by_file: dict[int, list] = {}
        for index, value in items:
            by_file.setdefault(1 if mapping is None else mapping[index.fqn], []).append((index, value))
        most = 1 if mapping is None else max(mapping.values())
        places = []
        for file, own in by_file.items():
            name = files._gen_file_name(file, most, rank + 1 if self.save_distributed else None)
            offsets = {i.fqn: {files.SAVED_OFFSETS_KEY: list(i.offset or [0] * v.dim())} for i, v in own}
            notes = {"format": "pt"}
            if self.save_distributed:
                notes |= {files.CUSTOM_METADATA_KEY: json.dumps(offsets), "DCP_VERSION": "1.0"}
            parts, found = files.file_bytes({i.fqn: v for i, v in own}, notes)
            self.folder.write(name, parts)
            for index, value in own:
                info = _HFStorageInfo(name, *found[index.fqn], torch.Size(value.shape), value.dtype)
                places.append(WriteResult(index, info.length, info))
        return _done(places)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Writes the index of whole files, or makes whole files of parts."""
        if self.save_distributed:
            if self.enable_consolidation:
                names = list(metadata.state_dict_metadata)
                consolidate_safetensors_files(
                    str(self.path), self.consolidated_output_path,
                    self.fqn_to_index_mapping or dict.fromkeys(names, 1),
                )
            return
        infos = metadata.storage_data = {r.index: r.storage_data for row in results for r in row}
        index = {
            "metadata": {"total_size": sum(info.length for info in infos.values())},
            "weight_map": {i.fqn: info.relative_path for i, info in infos.items()},
        }
        self.folder.write(files._metadata_fn, [json.dumps(index, indent=2).encode()])


class HuggingFaceStorageReader(FileSystemReader):
    """Reads safetensors files, whole ones or a checkpoint's parts."""

    def read_metadata(self, *args, **kwargs) -> Metadata:
        """What the files' headers say."""
        described: dict[str, TensorStorageMetadata] = {}
        storage: dict = {}
        for name in self.folder.names():
            if not name.endswith(files.SUFFIX):
                continue
            header, start = files.header_of(self.folder, name)
            notes = header.pop("__metadata__", None) or {}
            offsets = json.loads(notes.get(files.CUSTOM_METADATA_KEY, "{}"))
            for key, entry in header.items():
                shape, dtype = entry["shape"], files.DTYPE_MAP[entry["dtype"]]
                begin = offsets.get(key, {}).get(files.SAVED_OFFSETS_KEY, [0] * len(shape))
                size = torch.Size([a + b for a, b in zip(begin, shape)])
                chunk = ChunkStorageMetadata(torch.Size(begin), torch.Size(shape))
                if key in described:
                    described[key].chunks.append(chunk)
                    size = torch.Size([max(a, b) for a, b in zip(described[key].size, size)])
                    described[key].size = size
                else:
                    described[key] = TensorStorageMetadata(TensorProperties(dtype=dtype), size, [chunk])
                first, last = entry["data_offsets"]
                storage[MetadataIndex(key, begin)] = _HFStorageInfo(
                    name, start + first, last - first, torch.Size(shape), dtype
                )
        return Metadata(described, None, storage, StorageMeta(), "1.0.0")

    def tensor_of(self, info: _HFStorageInfo):  # pyright: ignore
        """A tensor."""
        data = self.bytes_of(info)  # pyright: ignore
        if not data:
            return torch.empty(tuple(info.shape), dtype=info.dtype)
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(info.dtype).reshape(info.shape)
