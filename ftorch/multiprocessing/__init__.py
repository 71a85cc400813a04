"""Python's `multiprocessing` with tensors (``torch.multiprocessing``).

Tensors that are sent to other processes share their memory with them (`Tensor.share_memory_`). Forked processes compute on
the host tier, without XLA's threads; `spawn` starts processes from scratch.
"""
# ruff: noqa: F403, F401

import multiprocessing
from multiprocessing import *

from ..eager.memory import shared_memory
from .reductions import init_reductions
from .spawn import (
    ENV_VAR_PARALLEL_START,
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessException", "ProcessExitedException",
    "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy",
    "set_sharing_strategy", "spawn", "start_processes",
]

init_reductions()


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """How the next tensors are shared."""
    return shared_memory.strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Sets how the next tensors are shared.

    Args:
        new_strategy: ``"file_descriptor"``, whose memory has no name and is gone with its processes however they end, or
            ``"file_system"``, which needs no descriptor for each tensor.

    Raises:
        AssertionError: for another.
    """
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {get_all_sharing_strategies()}")
    shared_memory.strategy[0] = new_strategy


def _set_thread_name(name: str) -> None:
    import threading

    threading.current_thread().name = name


def _get_thread_name() -> str:
    import threading

    return threading.current_thread().name
