"""Between checkpoints and files of `ftorch.save`."""

from __future__ import annotations

import os

import ftorch as torch

from .default_planner import _EmptyStateDictLoadPlanner as _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .state_dict_loader import _load_state_dict as _load_state_dict
from .state_dict_saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


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
