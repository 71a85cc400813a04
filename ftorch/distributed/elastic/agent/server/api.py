"""What a launcher runs, what becomes of it, and the loop of one that has workers of one role."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import Any

from ...events import Event, EventSource, record
from ...metrics import prof, put_metric
from ...multiprocessing import ProcessFailure, SignalException
from ...rendezvous import RendezvousGracefulExitError, RendezvousHandler
from ...utils import store as meetings
from ...utils.logging import get_logger

__all__ = [
    "ElasticAgent", "RunResult", "SimpleElasticAgent", "Worker", "WorkerGroup", "WorkerSpec", "WorkerState",
]

DEFAULT_ROLE = "default"
_TERMINAL_STATE_SYNC_ID = "torchelastic/agent/terminal_state"
logger = get_logger(__name__)


@dataclass
class WorkerSpec:
    """What the workers of a role are.

    Args:
        local_world_size: how many run on each node.
        rdzv_handler: how the launchers of several nodes meet.
        fn: the older name of ``entrypoint``.
        entrypoint: a function or a program.
        max_restarts: how often they are started again.
        monitor_interval: seconds between looks.
        master_addr, master_port: where workers meet, if the rendezvous does not say.
        virtual_local_rank: whether each worker sees one device, as the first.
    """

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler
    fn: Callable | None = None
    entrypoint: Callable | str | None = None
    args: tuple = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False

    def __post_init__(self):
        if self.local_world_size <= 0 or self.monitor_interval <= 0:
            raise AssertionError
        if self.fn:
            warnings.warn(
                "WorkerSpec.fn will be deprecated, please use WorkerSpec.entrypoint instead", DeprecationWarning,
                stacklevel=2,
            )
            self.entrypoint = self.fn
        if not self.entrypoint:
            raise AssertionError

    def get_entrypoint_name(self) -> str:
        """The function's or the program's name."""
        if isinstance(self.entrypoint, str):
            return os.path.basename(self.entrypoint)
        if self.entrypoint is None:
            raise AssertionError
        return self.entrypoint.__qualname__


class Worker:
    """One worker: its ``id`` (the launcher's business: here the process) and its ranks."""

    __slots__ = ["global_rank", "id", "local_rank", "role_rank", "role_world_size", "world_size"]

    def __init__(self, local_rank: int, global_rank: int = -1, role_rank: int = -1, world_size: int = -1,
                 role_world_size: int = -1):
        self.id: Any = None
        self.local_rank, self.global_rank, self.role_rank = local_rank, global_rank, role_rank
        self.world_size, self.role_world_size = world_size, role_world_size

    def __str__(self):
        names = ("local_rank", "global_rank", "role_rank", "world_size", "role_world_size")
        return ",".join(f"{name}={getattr(self, name)}" for name in names)

    __repr__ = __str__


class WorkerState(str, Enum):  # noqa: UP042  (as PyTorch prints it)
    """What the workers of a node do, as one."""

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state: WorkerState) -> bool:
        """Whether there are processes."""
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The workers of this node."""

    __slots__ = [
        "group_rank", "group_world_size", "master_addr", "master_port", "spec", "state", "store", "workers",
    ]

    def __init__(self, spec: WorkerSpec):
        self.spec, self.state = spec, WorkerState.INIT
        self.workers = [Worker(i) for i in range(spec.local_world_size)]
        self.store = self.group_rank = self.group_world_size = self.master_addr = self.master_port = None


@dataclass
class RunResult:
    """What became of the workers of this node, by global rank: results if all have succeeded, else failures."""

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether one failed."""
        return self.state == WorkerState.FAILED


def _get_fq_hostname() -> str:
    return socket.getfqdn(socket.gethostname())


class ElasticAgent(ABC):
    """A launcher."""

    @abstractmethod
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Runs workers until they are done, or have failed once too often."""
        ...

    @abstractmethod
    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The workers."""
        ...


class SimpleElasticAgent(ElasticAgent):
    """A launcher of workers of one role. A derived class says how they are started, watched and ended.

    Args:
        exit_barrier_timeout: seconds that it waits at the end for other nodes.
        shutdown_timeout: seconds between the signal that ends a worker and SIGKILL.
    """

    def __init__(self, spec: WorkerSpec, exit_barrier_timeout: float = 300, shutdown_timeout: int = 30):
        self._worker_group = WorkerGroup(spec)
        self._remaining_restarts = spec.max_restarts
        self._store = None
        self._exit_barrier_timeout, self._shutdown_timeout = exit_barrier_timeout, shutdown_timeout
        self._total_execution_time = 0
        self._in_exit_barrier = False

    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The workers."""
        return self._worker_group

    @abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]: ...

    @abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup) -> None: ...

    @abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult: ...

    @abstractmethod
    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None: ...

    # --- a round ---

    @prof
    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        spec = worker_group.spec
        with self.record_duration("RENDEZVOUS"):
            found = spec.rdzv_handler.next_rendezvous()
        self._store = worker_group.store = found.store
        with self.record_duration("ASSIGN_WORKER_RANKS"):
            worker_group.workers = self._assign_worker_ranks(found.store, found.rank, found.world_size, spec)
        worker_group.group_rank, worker_group.group_world_size = found.rank, found.world_size
        worker_group.master_addr = spec.master_addr or found.bootstrap_store_info.master_addr
        worker_group.master_port = spec.master_port or found.bootstrap_store_info.master_port
        logger.info("[%s] rendezvous complete: %s", spec.role, worker_group.workers)

    @prof
    def _assign_worker_ranks(self, store, group_rank: int, group_world_size: int, spec: WorkerSpec) -> list[Worker]:
        """Ranks go by nodes; among workers of one role likewise. Node 0 adds up what each node has."""
        local = spec.local_world_size
        if os.environ.get("TORCH_ELASTIC_WORKER_IDENTICAL", "0") == "1":
            first = first_of_role = group_rank * local
            size = size_of_role = group_world_size * local
        else:
            own = json.dumps([spec.role, local])
            store.set(f"torchelastic/role_info/{group_rank}", own)
            if group_rank == 0:
                given = store.multi_get([f"torchelastic/role_info/{i}" for i in range(group_world_size)])
                self._add_up(store, [json.loads(each) for each in given])
            first, size, first_of_role, size_of_role = json.loads(store.get(f"torchelastic/assigned_ranks/{group_rank}"))
        return [Worker(i, first + i, first_of_role + i, size, size_of_role) for i in range(local)]

    @staticmethod
    def _add_up(store, nodes):
        size, of_role = sum(count for _, count in nodes), {}
        for role, count in nodes:
            of_role[role] = of_role.get(role, 0) + count
        begun, keys, values = {}, [], []
        for i, (first, (role, count)) in enumerate(zip(accumulate((n for _, n in nodes), initial=0), nodes)):
            keys.append(f"torchelastic/assigned_ranks/{i}")
            values.append(json.dumps([first, size, begun.get(role, 0), of_role[role]]))
            begun[role] = begun.get(role, 0) + count
        store.multi_set(keys, values)

    @prof
    def _initialize_workers(self, worker_group: WorkerGroup) -> None:
        spec = worker_group.spec
        self._rendezvous(worker_group)
        for rank, name in self._start_workers(worker_group).items():
            worker = worker_group.workers[rank]
            worker.id = name
            record(self._construct_event("START", EventSource.WORKER, worker), spec.event_log_handler)
        worker_group.state = WorkerState.HEALTHY

    @prof
    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        self._stop_workers(worker_group)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    # --- all of it ---

    @prof
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Runs workers until they are done, or have failed once too often.

        Raises:
            SignalException: if a signal came; the workers have got it, too.
        """
        began, ended = time.monotonic(), False
        try:
            result = self._invoke_run(role)
            self._total_execution_time = int(time.monotonic() - began)
            self._record_metrics(result)
            self._record_worker_events(result)
            return result
        except RendezvousGracefulExitError as error:
            logger.info("Rendezvous gracefully exited: %s", error)
            return RunResult(WorkerState.SUCCEEDED)
        except SignalException as error:
            logger.warning("Received %s death signal, shutting down workers", error.sigval)
            ended = True
            self._shutdown(error.sigval, timeout=self._shutdown_timeout)
            raise
        finally:
            if not ended:
                self._shutdown(timeout=self._shutdown_timeout)
            self._total_execution_time = int(time.monotonic() - began)

    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        group = self._worker_group
        spec = group.spec
        self._initialize_workers(group)
        while True:
            time.sleep(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = state = result.state
            put_metric(f"workers.{spec.role}.remaining_restarts", self._remaining_restarts)
            put_metric(f"workers.{spec.role}.{state.name.lower()}", 1)
            if state == WorkerState.SUCCEEDED:
                self._exit_barrier()
                return result
            if state == WorkerState.HEALTHY:
                if spec.rdzv_handler.num_nodes_waiting() > 0:  # no failure: does not count
                    logger.info("[%s] other nodes wait; will restart worker group", spec.role)
                    self._restart_workers(group)
            elif state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                if self._remaining_restarts <= 0:
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    return result
                logger.info(
                    "[%s] Worker group %s. %s/%s attempts left; will restart worker group", spec.role, state.name,
                    self._remaining_restarts, spec.max_restarts,
                )
                self._remaining_restarts -= 1
                self._restart_workers(group)
            else:
                raise Exception(f"[{spec.role}] Worker group in {state.name} state")  # noqa: TRY002

    def _exit_barrier(self):
        """Waits for other nodes, whose workers may still need what this launcher serves."""
        began, self._in_exit_barrier = time.time(), True
        try:
            meetings.barrier(
                self._store, self._worker_group.group_world_size, _TERMINAL_STATE_SYNC_ID, self._exit_barrier_timeout
            )
        except SignalException as error:
            logger.warning("Got termination signal: %s", error.sigval)
            raise
        except Exception:
            logger.exception("Error waiting on exit barrier. Elapsed: %s seconds", time.time() - began)
        finally:
            self._in_exit_barrier = False

    # --- records ---

    def get_event_failed(self) -> Event:
        """The record of a launcher that failed."""
        return self._construct_event("FAILED", EventSource.AGENT, raw_error=traceback.format_exc())

    def get_event_succeeded(self) -> Event:
        """The record of a launcher that ended."""
        return self._construct_event("SUCCEEDED", EventSource.AGENT)

    @contextmanager
    def record_duration(self, state: str):
        """A block whose time is recorded."""
        began = time.perf_counter()
        try:
            yield
        finally:
            took = (time.perf_counter() - began) * 1000
            event = self._construct_event(state, EventSource.AGENT, duration_ms=took)
            record(event, self._worker_group.spec.event_log_handler)

    def _record_worker_events(self, result: RunResult) -> None:
        for worker in self._worker_group.workers:
            failure = result.failures.get(worker.global_rank)
            details = {}
            if failure is not None:
                details = {
                    "raw_error": json.dumps(failure.error_file_data), "exit_code": failure.exitcode,
                    "worker_pid": failure.pid,
                }
            state = self._get_worker_state(worker, result)
            event = self._construct_event(state, EventSource.WORKER, worker, **details)
            record(event, self._worker_group.spec.event_log_handler)

    def _get_worker_state(self, worker: Worker, result: RunResult) -> str:
        failure = result.failures.get(worker.global_rank)
        if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED) and not failure:
            return "TERMINATED"  # by the launcher, because another one failed
        if failure or worker.global_rank in result.return_values:
            return result.state.value
        raise ValueError(f"Unknown worker: {worker.global_rank}")

    def _construct_event(self, state: str, source: EventSource, worker: Worker | None = None,
                         raw_error: str | None = None, duration_ms: float | None = None, exit_code: int | None = None,
                         worker_pid: int | None = None) -> Event:
        group = self._worker_group
        spec = group.spec
        details: dict[str, Any] = {
            "group_world_size": group.group_world_size, "entry_point": spec.get_entrypoint_name(),
        }
        if worker is not None:
            values = (worker.local_rank, worker.role_rank, worker.role_world_size, exit_code, worker_pid)
            names = ("local_rank", "role_rank", "role_world_size", "exit_code", "worker_pid")
            details |= {name: (value,) for name, value in zip(names, values)}
        return Event(f"torchelastic.worker.status.{state}", source, metadata={
            "run_id": spec.rdzv_handler.get_run_id(), "global_rank": None if worker is None else worker.global_rank,
            "group_rank": group.group_rank, "worker_id": None if worker is None else str(worker.id),
            "role": spec.role, "hostname": _get_fq_hostname(), "state": state,
            "total_run_time": self._total_execution_time, "rdzv_backend": spec.rdzv_handler.get_backend(),
            "raw_error": raw_error, "metadata": json.dumps(details),
            "agent_restarts": spec.max_restarts - self._remaining_restarts, "duration_ms": duration_ms,
        })

    def _record_metrics(self, group_results: RunResult) -> None:
        spec, failed = self._worker_group.spec, group_results.is_failed()
        restarted = self._remaining_restarts != spec.max_restarts
        flaky = 100.0 if failed else 100.0 - 100.0 * (self._remaining_restarts + 1) / (spec.max_restarts + 1)
        values = {
            "flakiness": int(flaky), "run_total": 1, "run_success_with_retries": int(not failed and restarted),
            "run_success_no_retries": int(not failed and not restarted),
            "run_failed_with_retries": int(failed and restarted),
            "run_failed_no_retries": int(failed and not restarted),
        }
        for name, value in values.items():
            put_metric(f"workers.{spec.role}.{name}", value)
