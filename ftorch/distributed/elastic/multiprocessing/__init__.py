"""Workers of one machine and their errors (``torch.distributed.elastic.multiprocessing``)."""

from __future__ import annotations

from collections.abc import Callable

from ..utils.logging import get_logger
from . import errors
from .api import (
    DefaultLogsSpecs,
    LogsDest,
    LogsSpecs,
    MultiprocessContext,
    PContext,
    RunProcsResult,
    SignalException,
    Std,
    SubprocessContext,
    _validate_full_rank,
    to_map,
)
from .errors import ChildFailedError, ProcessFailure, record

__all__ = [
    "ChildFailedError", "DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext",
    "ProcessFailure", "RunProcsResult", "SignalException", "Std", "SubprocessContext", "errors", "record",
    "start_processes", "to_map",
]

logger = get_logger(__name__)


def start_processes(name: str, entrypoint: Callable | str, args: dict[int, tuple], envs: dict[int, dict[str, str]],
                    logs_specs: LogsSpecs, log_line_prefixes: dict[int, str] | None = None,
                    start_method: str = "spawn", numa_options=None, duplicate_stdout_filters: list[str] | None = None,
                    duplicate_stderr_filters: list[str] | None = None) -> PContext:
    """Starts workers of this machine, which all call a function or all run a program.

    Args:
        name: what precedes their lines on the console.
        args, envs: arguments and environment by local rank, from 0.
        logs_specs: where their output goes.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``, for functions.

    Raises:
        RuntimeError: if ``args`` or ``envs`` lacks a rank.
    """
    _validate_full_rank(args, len(args), "args")
    _validate_full_rank(envs, len(args), "envs")
    context: PContext
    if isinstance(entrypoint, str):
        context = SubprocessContext(
            name, entrypoint, args, envs, logs_specs, log_line_prefixes, numa_options, duplicate_stdout_filters,
            duplicate_stderr_filters,
        )
    else:
        context = MultiprocessContext(
            name, entrypoint, args, envs, start_method, logs_specs, log_line_prefixes, numa_options,
            duplicate_stdout_filters, duplicate_stderr_filters,
        )
    try:
        context.start()
    except Exception:
        context.close()
        raise
    return context
