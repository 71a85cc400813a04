"""Collectives of objects that also carry failures (``torch.distributed.collective_utils``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from . import distributed_c10d as dist

__all__ = ["SyncPayload", "all_gather", "all_gather_object_enforce_type", "broadcast"]

T = TypeVar("T")


@dataclass
class SyncPayload(Generic[T]):
    """What a rank made: a value, or the exception that kept it from that."""

    stage_name: str | None
    success: bool
    payload: Any
    exception: Exception | None = None


def _made(data_or_fn, stage_name, success=True):
    if not callable(data_or_fn):
        return SyncPayload(stage_name, success, data_or_fn)
    try:
        return SyncPayload(stage_name, success, data_or_fn())
    except Exception as error:
        return SyncPayload(stage_name, False, None, error)


def broadcast(data_or_fn, *, success: bool = True, stage_name: str | None = None, rank: int = 0, pg=None):
    """The value of one rank, or of the function that it calls.

    Raises:
        RuntimeError: in all ranks if the function raises.
    """
    if not success and data_or_fn is not None:
        raise AssertionError("Data or Function is expected to be None if not successful")
    own = (0 if pg is None else pg.rank()) == rank
    made = _made(data_or_fn, stage_name, success) if own else SyncPayload(stage_name, success, None)
    if pg is not None:
        box: list = [made]
        dist.broadcast_object_list(box, src=rank, group=pg)
        made = box[0]
    if not made.success:
        text = f"Rank {rank} failed"
        text += f": stage {made.stage_name}" if stage_name is not None else ""
        text += f": exception {made.exception}" if made.exception is not None else ""
        raise RuntimeError(text) from made.exception
    return made.payload


def all_gather(data_or_fn, stage_name: str | None = None, pg=None) -> list:
    """The values of all ranks, or of the functions that they call.

    Raises:
        RuntimeError: in all ranks if one of them raises.
    """
    own = _made(data_or_fn, stage_name)
    if pg is None:
        if not own.success:
            raise RuntimeError(f"all_gather failed with exception {own.exception}") from own.exception
        return [own.payload]
    everybody: list = [None] * pg.size()
    all_gather_object_enforce_type(pg, everybody, own)
    wrong = ""
    failed = []
    for rank, made in enumerate(everybody):
        if made.stage_name != everybody[0].stage_name:
            wrong += f"Unexpected stage name received from rank {rank}: {made.stage_name} "
        elif not made.success:
            failed.append((rank, made.exception))
    if failed:
        raise RuntimeError(wrong, failed) from failed[0][1]
    return [m.payload for m in everybody]


def all_gather_object_enforce_type(pg, object_list: list, obj, type_checker=lambda x, y: type(x) is type(y)) -> None:
    """`all_gather_object` of objects of one type.

    Raises:
        TypeError: for others.
    """
    dist.all_gather_object(object_list, obj, group=pg)
    for i, other in enumerate(object_list):
        if not type_checker(object_list[0], other):
            raise TypeError(
                f"Object type at index {i} is {type(other)}, while first object type is {type(object_list[0])}"
            )
