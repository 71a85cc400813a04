"""Saving (``torch.distributed.checkpoint.save``)."""

from __future__ import annotations

import inspect
import threading
import uuid
import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum

import ftorch as torch

from .. import distributed_c10d as dist
from ..tensor import DTensor
from .api import CheckpointException, _wrap_exception
from .default_planner import DefaultSavePlanner
from .filesystem import FileSystemWriter
from .metadata import Metadata
from .staging import AsyncStager
from .stateful import Stateful
from .storage import StorageWriter

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """What writes in the background: a thread in either case."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Futures of the copy and of the files."""

    staging_completion: Future
    upload_completion: Future


def plain(state_dict) -> dict:
    """A state dict whose objects are replaced by their states."""
    return {
        k: v.state_dict() if isinstance(v, Stateful) and not isinstance(v, dict) else v
        for k, v in state_dict.items()
    }


class _Alone:
    """A group of one process."""

    def rank(self):
        """0"""
        return 0

    def size(self):
        """1"""
        return 1


def group_of(process_group, no_dist):
    """The group that saves or loads together."""
    if no_dist or not dist.is_initialized():
        return _Alone()
    return process_group or dist.group.WORLD


def everybody(group, value) -> list:
    """The values of all ranks."""
    if group.size() == 1:
        return [value]
    out = [None] * group.size()
    dist.all_gather_object(out, value, group=group)
    return out


def save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None,
         no_dist: bool = False, use_collectives: bool = True) -> Metadata:
    """Saves a state dict; all ranks of the group call it.

    Parts of `DTensor`s are written by who has them, what several ranks have by one of them, and what is no tensor
    by rank 0.

    Args:
        checkpoint_id: the folder.
        storage_writer: instead of a `FileSystemWriter` of the folder.
        planner: what each rank writes, instead of a `DefaultSavePlanner`.

    Raises:
        CheckpointException: on all ranks, if something fails on one.

    >>> import ftorch as torch, tempfile
    >>> import ftorch.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dcp.save({"a": torch.arange(3)}, checkpoint_id=folder)
    ...     state = {"a": torch.zeros(3, dtype=torch.int64)}
    ...     dcp.load(state, checkpoint_id=folder)
    >>> state
    {'a': tensor([0, 1, 2])}
    """
    group = group_of(process_group, no_dist)
    if storage_writer is None and checkpoint_id is None:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
    writer = storage_writer or FileSystemWriter(checkpoint_id)
    if not isinstance(writer, StorageWriter):
        raise TypeError("storage_writer must be a StorageWriter")
    if checkpoint_id is not None:
        writer.reset(checkpoint_id)
    planner = DefaultSavePlanner() if planner is None else planner
    first = group.rank() == 0

    def local():
        if "storage_meta" in inspect.signature(planner.set_up_planner).parameters:
            planner.set_up_planner(
                state_dict=plain(state_dict), storage_meta=writer.storage_meta(), is_coordinator=first
            )
        else:
            warnings.warn(
                "The function definition for SavePlanner.set_up_planner has been updated to include the storage_meta "
                "argument. Please update your implementation to include this parameter.", stacklevel=2,
            )
            planner.set_up_planner(plain(state_dict), first)  # type: ignore[call-arg]
        takes_more = "kwargs" in inspect.signature(writer.set_up_storage_writer).parameters
        options = {"rank": group.rank(), "use_collectives": use_collectives} if takes_more else {}
        writer.set_up_storage_writer(first, **options)
        return writer.prepare_local_plan(planner.create_local_plan())

    def together(plans):
        made, metadata = planner.create_global_plan(plans)
        return writer.prepare_global_plan(made), metadata

    plans = together_on(group, "plan", local)
    made, metadata = of_first(group, "plan", lambda: together(plans))

    def write():
        done = writer.write_data(planner.finish_plan(made[group.rank()]), planner)
        return done.wait() if hasattr(done, "wait") else done.result()

    results = together_on(group, "write", write)

    def finish():
        writer.finish(metadata=metadata, results=results)
        return metadata

    return of_first(group, "write", finish)


def together_on(group, step: str, compute) -> list:
    """What a step gives on all ranks.

    Raises:
        CheckpointException: on all ranks, if it fails on some.
    """
    try:
        own = (compute(), None)
    except Exception as error:
        own = (None, _wrap_exception(error))
    found = everybody(group, own)
    failures = {r: e for r, (_, e) in enumerate(found) if e is not None}
    if failures:
        raise CheckpointException(step, failures)
    return [value for value, _ in found]


def of_first(group, step: str, compute):
    """What a step gives on rank 0, on all ranks.

    Raises:
        CheckpointException: on all ranks, if it fails.
    """
    return together_on(group, step, compute if group.rank() == 0 else lambda: None)[0]


def async_save(state_dict, *, checkpoint_id=None, storage_writer=None, planner=None, process_group=None,
               async_checkpointer_type=None, async_stager=None, no_dist: bool = False, **_):
    """`save` by another thread, of copies that are made at once. A future comes back; with several
    processes use a ``process_group`` of its own, which no other thread uses meanwhile.

    Args:
        async_stager: makes the copies (`ftorch.distributed.checkpoint.staging`); the ``storage_writer``, if it is one.
    """
    if async_stager is None and isinstance(storage_writer, AsyncStager):
        async_stager = storage_writer
    if async_stager is None:
        copied = _copied(plain(state_dict))
    else:
        copied = async_stager.stage(plain(state_dict))
        copied = copied.result() if isinstance(copied, Future) else copied
    future: Future = Future()
    if process_group is None and dist.is_initialized() and dist.get_world_size() > 1 and not no_dist:
        process_group = dist.new_group(group_desc=f"checkpoint_{uuid.uuid4().hex[:0]}")

    def run():
        try:
            future.set_result(save(
                copied, checkpoint_id=checkpoint_id, storage_writer=storage_writer, planner=planner,
                process_group=process_group, no_dist=no_dist,
            ))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="checkpoint").start()
    if async_stager is not None and getattr(async_stager, "should_synchronize_after_execute", False):
        async_stager.synchronize_staging()
    return future


def _copied(value):
    if isinstance(value, DTensor):
        return DTensor._made(value._local_tensor.detach().clone(), value.device_mesh, value.placements,
                             tuple(value.shape))
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: _copied(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return value


def save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank: int = 0,
                    no_dist: bool = False, planner=None) -> Metadata:
    """The older name of `save`."""
    return save(
        state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist, planner=planner
    )


def _save_state_dict(state_dict, storage_writer, process_group=None, coordinator_rank: int = 0,
                     no_dist: bool = False, planner=None, use_collectives: bool = True) -> Metadata:
    """`save_state_dict`."""
    return save(
        state_dict, storage_writer=storage_writer, process_group=process_group, no_dist=no_dist, planner=planner,
        use_collectives=use_collectives,
    )
