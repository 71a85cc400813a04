"""A launcher whose workers are processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
import uuid
from collections.abc import Callable
from string import Template
from typing import Any

from ... import events, timer
from ...metrics import prof
from ...multiprocessing import LogsSpecs, PContext, start_processes
from ...rendezvous.dynamic_rendezvous import DynamicRendezvousHandler
from ...utils import macros
from ...utils.logging import get_logger
from ...utils.process_state import is_uninterruptible_state, read_proc_state
from .api import (
    RunResult,
    SimpleElasticAgent,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
    _get_fq_hostname,
)
from .health_check_server import HealthCheckServer, create_healthcheck_server

__all__ = [
    "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_HEALTH_CHECK_PORT", "TORCHELASTIC_TIMER_FILE",
    "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "LocalElasticAgent",
]

TORCHELASTIC_ENABLE_FILE_TIMER = "TORCHELASTIC_ENABLE_FILE_TIMER"
TORCHELASTIC_HEALTH_CHECK_PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"
TORCHELASTIC_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"
TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT"
_STOPPED_LIMIT = 10  # seconds that a worker may be stopped after others have ended
logger = get_logger(__name__)


def _limit(given: float | None) -> float:
    """Seconds that a worker may wait for a device: as given, or as the environment says; 0: any time."""
    try:
        value = os.environ.get(TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT) or 0 if given is None else given
        return max(0.0, float(value))
    except ValueError:
        return 0.0


class LocalElasticAgent(SimpleElasticAgent):
    """A launcher of processes of this machine: functions (started by ``multiprocessing``) or programs.

    Args:
        logs_specs: where the workers' output goes.
        start_method: how processes of functions are started.
        log_line_prefix_template: what precedes lines on the console: ``"[${role_name}${local_rank}]:"``, ``${rank}``.
        uninterruptible_state_timeout: seconds after which a worker that waits for a device, taking no signal,
            counts as lost.
    """

    def __init__(self, spec: WorkerSpec, logs_specs: LogsSpecs, start_method: str = "spawn",
                 exit_barrier_timeout: float = 300, log_line_prefix_template: str | None = None,
                 shutdown_timeout: int = 30, health_check_server: HealthCheckServer | None = None,
                 uninterruptible_state_timeout: float | None = None):
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout)
        self._start_method, self._logs_specs = start_method, logs_specs
        self._log_line_prefix_template = log_line_prefix_template
        self._pcontext: PContext | None = None
        self._worker_watchdog: timer.FileTimerServer | None = None
        self._health_check_server = health_check_server
        self._uninterruptible_state_timeout = _limit(uninterruptible_state_timeout)
        self._stuck_since: dict[int, float] = {}
        self._stopped_since: dict[int, float] = {}

    # --- beside the workers ---

    def _setup_local_watchdog(self, envs: dict[int, dict[str, str]]) -> None:
        path = os.environ.get(TORCHELASTIC_TIMER_FILE)
        if os.environ.get(TORCHELASTIC_ENABLE_FILE_TIMER) == "1":
            path = path or os.path.join(tempfile.gettempdir(), f"watchdog_timer_{uuid.uuid4()}")
            self._worker_watchdog = timer.FileTimerServer(
                path, self._worker_group.spec.rdzv_handler.get_run_id(), 0.1, True, self._log_watchdog_event
            )
            self._worker_watchdog.start()
        if path is not None:
            for env in envs.values():
                env[TORCHELASTIC_TIMER_FILE] = path

    def _log_watchdog_event(self, name: str, request: timer.FileTimerRequest | None) -> None:
        details = {"watchdog_event": name}
        if request is not None:
            details |= {
                "worker_pid": str(request.worker_pid), "scope_id": request.scope_id,
                "expiration_time": str(request.expiration_time), "signal": str(request.signal),
            }
        group = self._worker_group
        spec = group.spec
        event = events.Event(name, events.EventSource.AGENT, metadata={
            "run_id": spec.rdzv_handler.get_run_id(), "global_rank": None, "group_rank": group.group_rank,
            "worker_id": None, "role": spec.role, "hostname": _get_fq_hostname(), "state": "RUNNING",
            "total_run_time": self._total_execution_time, "rdzv_backend": spec.rdzv_handler.get_backend(),
            "raw_error": None, "metadata": json.dumps(details),
            "agent_restarts": spec.max_restarts - self._remaining_restarts,
        })
        events.record(event, spec.event_log_handler)

    def _get_alive_time(self) -> int:
        watchdog = self._worker_watchdog
        if self._in_exit_barrier or watchdog is None:
            return int(time.time())
        return watchdog.get_last_progress_time()

    def _setup_healthcheck(self) -> None:
        port = os.environ.get(TORCHELASTIC_HEALTH_CHECK_PORT)
        if port is None:
            return
        try:
            number = int(port)
        except ValueError:
            logger.info("Invalid healthcheck port value: '%s', expecting integer.", port)
            return
        callback: Callable[[], int] = self._get_alive_time
        self._health_check_server = create_healthcheck_server(callback, number, 60)
        self._health_check_server.start()

    # --- workers ---

    def _environment(self, group: WorkerGroup, worker) -> dict[str, str]:
        spec, handler = group.spec, group.spec.rdzv_handler
        restarts = spec.max_restarts - self._remaining_restarts
        # Keys of workers that were ended must not be taken for those of a later start. Nodes do not restart equally
        # often, so where nodes come and go the round tells starts apart.
        dynamic = isinstance(handler, DynamicRendezvousHandler)
        values = {
            "RANK": worker.global_rank, "GROUP_RANK": group.group_rank, "ROLE_RANK": worker.role_rank,
            "ROLE_NAME": spec.role, "LOCAL_WORLD_SIZE": spec.local_world_size, "WORLD_SIZE": worker.world_size,
            "GROUP_WORLD_SIZE": group.group_world_size, "ROLE_WORLD_SIZE": worker.role_world_size,
            "MASTER_ADDR": group.master_addr, "MASTER_PORT": group.master_port,
            "TORCHELASTIC_RESTART_COUNT": restarts, "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
            "TORCHELASTIC_RUN_ID": handler.get_run_id(), "TORCHELASTIC_USE_AGENT_STORE": handler.use_agent_store,
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
            "FTORCH_ELASTIC_ROUND": handler.round if dynamic else restarts,
        }
        if spec.virtual_local_rank:
            seen = os.environ.get("CUDA_VISIBLE_DEVICES")
            devices = None if seen is None else seen.split(",")
            if devices is not None and worker.local_rank >= len(devices):
                raise ValueError(
                    f"local_rank {worker.local_rank} exceeds available GPUs in CUDA_VISIBLE_DEVICES={seen}"
                )
            own = worker.local_rank if devices is None else devices[worker.local_rank].strip()
            values |= {"LOCAL_RANK": 0, "CUDA_VISIBLE_DEVICES": own}
        else:
            values["LOCAL_RANK"] = worker.local_rank
        for name in ("OMP_NUM_THREADS", *(() if spec.virtual_local_rank else ("CUDA_VISIBLE_DEVICES",))):
            if name in os.environ:
                values[name] = os.environ[name]
        return {name: str(value) for name, value in values.items()}

    @prof
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        spec = worker_group.spec
        args, envs, template = {}, {}, self._log_line_prefix_template
        prefixes: dict[int, str] | None = {} if template else None
        for worker in worker_group.workers:
            rank = worker.local_rank
            envs[rank] = self._environment(worker_group, worker)
            args[rank] = tuple(macros.substitute(list(spec.args), str(rank)))
            if template and prefixes is not None:
                prefixes[rank] = Template(template).safe_substitute(
                    role_name=spec.role, rank=worker.global_rank, local_rank=rank
                )
        self._setup_local_watchdog(envs)
        self._setup_healthcheck()
        if spec.entrypoint is None:
            raise AssertionError
        self._pcontext = start_processes(
            spec.role, spec.entrypoint, args, envs, self._logs_specs, prefixes, self._start_method,
            spec.numa_options, spec.duplicate_stdout_filters, spec.duplicate_stderr_filters,
        )
        return self._pcontext.pids()

    @prof
    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        self._shutdown(timeout=self._shutdown_timeout)

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        if self._worker_watchdog is not None:
            self._worker_watchdog.stop()
            self._worker_watchdog = None
        if self._health_check_server is not None:
            self._health_check_server.stop()
            self._health_check_server = None
        if self._pcontext is not None:
            self._pcontext.close(death_sig, timeout)

    @prof
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        if self._pcontext is None:
            raise AssertionError("the workers were not started")
        pids = set(self._pcontext.pids().values())
        if {worker.id for worker in worker_group.workers} != pids:
            logger.error("[%s] other processes than those that were started: %s", worker_group.spec.role, pids)
            return RunResult(WorkerState.UNKNOWN)
        result = self._pcontext.wait(0)
        workers = worker_group.workers
        if result is None:
            self._kill_stopped()
            return RunResult(WorkerState.UNHEALTHY if self._stuck(pids) else WorkerState.HEALTHY)
        if result.is_failed():
            failures = {workers[rank].global_rank: failure for rank, failure in result.failures.items()}
            return RunResult(WorkerState.FAILED, failures=failures)
        values = {workers[rank].global_rank: value for rank, value in result.return_values.items()}
        return RunResult(WorkerState.SUCCEEDED, return_values=values)

    def _stuck(self, pids) -> bool:
        """Whether a worker waits for a device for too long: no signal reaches it, so there are no more restarts."""
        limit = self._uninterruptible_state_timeout
        if limit <= 0:
            return False
        now = time.monotonic()
        states = {pid: read_proc_state(pid) for pid in pids}
        self._stuck_since = {
            pid: self._stuck_since.get(pid, now) for pid, state in states.items() if is_uninterruptible_state(state)
        }
        late = [pid for pid, since in self._stuck_since.items() if now - since >= limit]
        if late:
            logger.error("workers %s stuck in uninterruptible sleep for %.1f s", late, limit)
            self._remaining_restarts = 0
        return bool(late)

    def _kill_stopped(self) -> None:
        """Kills workers that are stopped although others have ended: no peer waits for them, so no group's timeout does."""
        if self._pcontext is None:
            return
        pids, now = self._pcontext._unfinished().values(), time.monotonic()
        if len(pids) == self._pcontext.nprocs:
            return
        stopped = [pid for pid in pids if read_proc_state(pid) == "T"]  # not by a debugger: "t"
        self._stopped_since = {pid: self._stopped_since.get(pid, now) for pid in stopped}
        for pid in stopped:
            if now - self._stopped_since[pid] >= _STOPPED_LIMIT:
                logger.error("worker %s is stopped for %.1f s while others have ended: it is killed", pid, _STOPPED_LIMIT)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
