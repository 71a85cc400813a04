"""Python's `multiprocessing` with tensors (``torch.multiprocessing``).

Tensors travel between processes as their bytes, or share their memory (`Tensor.share_memory_`). New processes are
started from scratch (``spawn``): a process with JAX's threads cannot be forked.
"""
# ruff: noqa: F403, F401

import multiprocessing
from multiprocessing import *

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

_strategy = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """What was set; tensors are copied either way."""
    return _strategy[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Accepts a strategy's name. Raises AssertionError for another."""
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, expected one of {get_all_sharing_strategies()}")
    _strategy[0] = new_strategy


def _set_thread_name(name: str) -> None:
    import threading

    threading.current_thread().name = name


def _get_thread_name() -> str:
    import threading

    return threading.current_thread().name
