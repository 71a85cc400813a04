"""Between checkpoints and files of `ftorch.save`."""

from __future__ import annotations

import os

import ftorch as torch

from ...futures import Future
from .. import distributed_c10d as dist
from ._nested_dict import flatten_state_dict
from .default_planner import DefaultLoadPlanner
from .default_planner import _EmptyStateDictLoadPlanner as _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .metadata import ChunkStorageMetadata, Metadata, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType
from .state_dict_loader import _load_state_dict as _load_state_dict
from .state_dict_saver import save
from .storage import StorageReader

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `ftorch.save` on one rank, which gives the tensors to all; each keeps its parts. Goes with
    `DynamicMetaLoadPlanner`.

    Args:
        checkpoint_id: the file. ``coordinator_rank``: who reads it.

    >>> import os, tempfile, ftorch as torch
    >>> import ftorch.distributed.checkpoint as dcp
    >>> from ftorch.distributed.checkpoint.format_utils import BroadcastingTorchSaveReader, DynamicMetaLoadPlanner
    >>> state = {"a": torch.zeros(2)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"a": torch.ones(2)}, file := os.path.join(folder, "x.pt"))
    ...     dcp.load(state, storage_reader=BroadcastingTorchSaveReader(), planner=DynamicMetaLoadPlanner(), checkpoint_id=file)
    >>> state["a"]
    tensor([1., 1.])
    """

    def __init__(self, checkpoint_id: str | os.PathLike | None = None, coordinator_rank: int = 0):
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank
        self.is_coordinator = False

    def read_metadata(self) -> Metadata:
        """An empty index: files have none."""
        return Metadata(state_dict_metadata={})

    def set_up_storage_reader(self, metadata, is_coordinator: bool, *args, **kwargs) -> None:
        """Takes who reads.

        Raises:
            AssertionError: if that is not ``coordinator_rank``, or there is no file.
        """
        self.is_coordinator = is_coordinator
        try:
            own = torch.distributed.get_rank()
        except ValueError:  # no group: this process is alone
            own = 0
        if is_coordinator and own != self.coordinator_rank:
            raise AssertionError(f"Coordinator rank mismatch: expected {self.coordinator_rank}, got {own}")
        if self.checkpoint_id is None:
            raise AssertionError("checkpoint_id must be set before setting up storage reader")

    def prepare_local_plan(self, plan):
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans):
        """The plans as they are."""
        return plans

    def read_data(self, plan, planner) -> Future:
        """Fills this rank's parts of each tensor, one tensor after the other.

        Raises:
            RuntimeError: for a value that is no tensor.
        """
        for item in plan.items:
            if item.type is LoadItemType.BYTE_IO:
                raise RuntimeError(
                    f"Non-tensor value identified at {item.storage_index.fqn}. "
                    f"At this time {type(self).__name__} only supports loading Tensors."
                )
        whole = {}
        if self.is_coordinator:
            whole = torch.load(self.checkpoint_id, map_location="cpu", weights_only=False)
            whole = flatten_state_dict(whole)[0] if planner.flatten_state_dict else whole
        items: dict = {}
        for item in plan.items:
            items.setdefault(item.storage_index.fqn, []).append(item)
        with torch.no_grad():
            for name, like in planner.state_dict.items():
                tensor = torch.empty(tuple(like.shape), dtype=like.dtype)
                if self.is_coordinator:
                    if tensor.shape != whole[name].shape:
                        raise AssertionError(f"req {name} mismatch sizes, {tensor.size()} vs {whole[name].size()}")
                    tensor.copy_(whole[name])
                if dist.is_initialized():
                    dist.broadcast(tensor, src=self.coordinator_rank)
                for item in items.get(name, ()):
                    part = tensor
                    for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths)):
                        part = part.narrow(dim, start, length)
                    target = planner.resolve_tensor(item).detach()
                    target.copy_(part)
                    planner.commit_tensor(item, target)
        done = Future()
        done.set_result(None)
        return done

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        """Begins with a file."""
        self.checkpoint_id = checkpoint_id

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        """Whether there is such a file."""
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """A `DefaultLoadPlanner` for files without an index: what is loaded into says what there is."""

    def set_up_planner(self, state_dict, metadata=None, is_coordinator: bool = False) -> None:
        """Takes what is loaded into.

        Raises:
            RuntimeError: for a value that is no tensor.
        """
        super().set_up_planner(state_dict, metadata, is_coordinator)
        known = {}
        for name, value in self.state_dict.items():
            if not isinstance(value, torch.Tensor):
                raise RuntimeError(
                    f"Non-tensor value identified at {name}. At this time {type(self).__name__} only supports loading Tensors."
                )
            all_of_it = ChunkStorageMetadata(torch.Size([0] * value.dim()), torch.Size(value.shape))
            known[name] = TensorStorageMetadata(TensorProperties(dtype=value.dtype), torch.Size(value.shape), [all_of_it])
        self.metadata = Metadata(state_dict_metadata=known)


def _whole(reader, keys=None):
    state: dict = {}
    reader = reader if hasattr(reader, "read_metadata") else FileSystemReader(reader)
    _load_state_dict(state, reader, planner=_EmptyStateDictLoadPlanner(keys), no_dist=True)
    return state


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path: str | os.PathLike) -> None:
    """A checkpoint's folder as one file of `ftorch.save`."""
    torch.save(_whole(dcp_checkpoint_dir), torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir) -> None:
    """A file of `ftorch.save` as a checkpoint's folder."""
    save(torch.load(torch_save_path, weights_only=False), checkpoint_id=dcp_checkpoint_dir, no_dist=True)
