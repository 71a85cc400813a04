"""Loading (``torch.distributed.checkpoint.load``)."""

from __future__ import annotations

import inspect
import warnings

from .. import distributed_c10d as dist
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader
from .state_dict_saver import group_of, of_first, plain, together_on
from .stateful import Stateful

__all__ = ["load", "load_state_dict"]


def load(state_dict, *, checkpoint_id=None, storage_reader=None, planner=None, process_group=None,
         no_dist: bool = False) -> None:
    """Loads into a state dict, in place: its tensors get the values of those saved under their names,
    however many ranks saved them and however they were divided.

    Raises:
        CheckpointException: if a name is missing or a shape differs.
    """
    group = group_of(process_group, no_dist)
    if storage_reader is None and checkpoint_id is None:
        raise RuntimeError("`checkpoint_id` must be specified if storage_reader/storage_writer is None.")
    reader = storage_reader or FileSystemReader(checkpoint_id)
    if checkpoint_id is not None:
        reader.reset(checkpoint_id)
    planner = DefaultLoadPlanner() if planner is None else planner
    values = plain(state_dict)

    def local():
        metadata = reader.read_metadata()
        planner.set_up_planner(values, metadata, group.rank() == 0)
        takes_more = "kwargs" in inspect.signature(reader.set_up_storage_reader).parameters
        options = {"rank": group.rank(), "use_collectives": True} if takes_more else {}
        reader.set_up_storage_reader(metadata, group.rank() == 0, **options)
        return reader.prepare_local_plan(planner.create_local_plan())

    plans = together_on(group, "load", local)
    made = of_first(
        group, "load", lambda: reader.prepare_global_plan(planner.create_global_plan(plans))
    )

    def read():
        done = reader.read_data(planner.finish_plan(made[group.rank()]), planner)
        done.wait() if hasattr(done, "wait") else done.result()

    together_on(group, "load", read)
    for key, value in values.items():
        own = state_dict.get(key)
        if isinstance(own, Stateful) and not isinstance(own, dict):
            own.load_state_dict(value)
        else:
            state_dict[key] = value


def load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank: int = 0,
                    no_dist: bool = False, planner=None) -> None:
    """The older name of `load`."""
    load(state_dict, storage_reader=storage_reader, process_group=process_group, no_dist=no_dist, planner=planner)


def _load_state_dict(state_dict, storage_reader, process_group=None, coordinator_rank: int = 0,
                     no_dist: bool = False, planner=None) -> None:
    """`load_state_dict`."""
    load(state_dict, storage_reader=storage_reader, planner=planner, process_group=process_group, no_dist=no_dist)


def _load_state_dict_from_keys(keys=None, *, checkpoint_id=None, storage_reader=None, process_group=None) -> dict:
    """A checkpoint's values, as a new state dict.

    Args:
        keys: their names, or how these begin (one, or a set of them); None: all.
    """
    alone = not dist.is_initialized()
    if alone:
        warnings.warn(
            "torch.distributed is unavailable or uninitialized, assuming the intent is to load in a single process.",
            stacklevel=2,
        )
    state: dict = {}
    load(
        state, checkpoint_id=checkpoint_id, storage_reader=storage_reader, process_group=process_group, no_dist=alone,
        planner=_EmptyStateDictLoadPlanner({keys} if isinstance(keys, str) else keys),
    )
    return state
