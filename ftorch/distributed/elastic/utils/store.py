"""Meetings at a store."""

from __future__ import annotations

import contextlib
from datetime import timedelta

from ..._errors import DistStoreError

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]


@contextlib.contextmanager
def store_timeout(store, timeout: float):
    """Within, a store waits for so many seconds."""
    kept = store.timeout
    store.set_timeout(timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(kept)


def get_all(store, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """What all have set under ``prefix`` and their rank; rank 0, which serves, goes when all have read it."""
    found = store.multi_get([f"{prefix}{i}" for i in range(world_size)])
    last = _arrive(store, world_size, f"{prefix}/finished")
    if rank == 0:
        store.wait([last])
    return found


def synchronize(store, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300) -> list[bytes]:
    """The data of all, by rank.

    Raises:
        DistStoreError: if they do not come in time.
    """
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def _arrive(store, world_size, prefix) -> str:
    """Counts; the key that the last one sets."""
    last = f"{prefix}/last_member"
    if store.add(f"{prefix}/num_members", 1) == world_size:
        store.set(last, b"1")
    return last


def barrier(store, world_size: int, key_prefix: str, barrier_timeout: float = 300, rank: int | None = None,
            rank_tracing_decoder=None, trace_timeout: float = 10) -> None:
    """Waits for all.

    Args:
        rank: of the caller; then an error says which ranks are missing.

    Raises:
        DistStoreError: if they do not come in time.
    """
    if rank is None and rank_tracing_decoder is not None:
        raise AssertionError("Tracing requires rank information")
    shown = rank_tracing_decoder or str
    with store_timeout(store, barrier_timeout):
        last = _arrive(store, world_size, key_prefix)
        if rank is not None:
            store.set(f"{key_prefix}{rank}/TRACE", b"1")
        try:
            store.wait([last])
        except DistStoreError:
            if rank is None:
                raise
            missing = [shown(i) for i in range(world_size) if not store.check([f"{key_prefix}{i}/TRACE"])]
            raise DistStoreError(
                f"Timed out waiting on barrier on rank {rank}, for key prefix: {key_prefix} "
                f"(world_size={world_size}, missing_ranks=[{', '.join(missing)}], timeout={barrier_timeout})"
            ) from None
