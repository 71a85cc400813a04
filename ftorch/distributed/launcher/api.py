"""`elastic_launch`: a function or a program in several processes, with restarts."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import _wire
from ..elastic import events, metrics
from ..elastic.agent.server.api import WorkerSpec
from ..elastic.agent.server.health_check_server import HealthCheckServer
from ..elastic.agent.server.local_elastic_agent import LocalElasticAgent
from ..elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, SignalException
from ..elastic.multiprocessing.errors import ChildFailedError
from ..elastic.rendezvous import RendezvousParameters
from ..elastic.rendezvous.registry import get_rendezvous_handler
from ..elastic.rendezvous.utils import parse_rendezvous_endpoint
from ..elastic.utils.logging import get_logger

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]

logger = get_logger(__name__)


@dataclass
class LaunchConfig:
    """What to launch (``torch.distributed.launcher.LaunchConfig``).

    Args:
        min_nodes, max_nodes: how many launchers take part.
        nproc_per_node: workers of each.
        logs_specs: where their output goes.
        rdzv_backend: ``static`` (numbered nodes) or ``c10d`` (whoever comes).
        rdzv_endpoint: ``host:port`` where launchers meet; that on ``host`` serves.
        rdzv_configs: options of the rendezvous; ``rank`` is the node's number for ``static``.
        max_restarts: how often workers are started again when one fails.
        shutdown_timeout: seconds between the signal that ends a worker and SIGKILL
            (the environment's ``TORCH_ELASTIC_SHUTDOWN_TIMEOUT``, or 30).

    Raises:
        ValueError: for a negative ``shutdown_timeout``.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: LogsSpecs | None = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "etcd"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False
    shutdown_timeout: int | None = None

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        if self.logs_specs is None:
            self.logs_specs = DefaultLogsSpecs()
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))
        elif self.shutdown_timeout < 0:
            raise ValueError(f"shutdown_timeout must be non-negative, got {self.shutdown_timeout}")


class elastic_launch:  # noqa: N801
    """A callable that runs an entry point in all workers of this node.

    Args:
        entrypoint: a function, or the path of a program.

    Returns (when called): {rank: result of the function}.

    Raises:
        ChildFailedError: if workers fail more often than ``max_restarts``.
    """

    def __init__(self, config: LaunchConfig, entrypoint: Callable | str | None,
                 health_check_server: HealthCheckServer | None = None):
        self._config, self._entrypoint = config, entrypoint
        self._health_check_server = health_check_server

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args), self._health_check_server)


def _get_entrypoint_name(entrypoint: Callable | str | None, args: list[Any]) -> str:
    """The name that errors show: the function's, or the script that Python runs."""
    if isinstance(entrypoint, str):
        if entrypoint != sys.executable:
            return entrypoint
        return next((arg for arg in args if arg[0] != "-"), "")
    return getattr(entrypoint, "__name__", "")


def _get_addr_and_port(parameters: RendezvousParameters) -> tuple[str | None, int | None]:
    """Where workers meet if nodes are numbered."""
    if parameters.backend != "static":
        return None, None
    endpoint = parameters.endpoint.strip()
    if not endpoint:
        raise ValueError("Endpoint is missing in endpoint. Try to add --master-addr and --master-port")
    host, port = parse_rendezvous_endpoint(endpoint, -1)
    if port == -1:
        raise ValueError(f"port is missing in endpoint: {endpoint}. Try to specify --master-port")
    return host, port


def _share_token(config: LaunchConfig) -> None:
    """All workers get the token that ports ask for: a new one, or on several nodes what all of them know."""
    if config.max_nodes == 1:
        os.environ.setdefault(_wire.TOKEN_VARIABLE, _wire.new_token())
    else:
        os.environ[_wire.TOKEN_VARIABLE] = _wire.token().decode()


def launch_agent(config: LaunchConfig, entrypoint: Callable | str | None, args: list[Any],
                 health_check_server: HealthCheckServer | None = None) -> dict[int, Any]:
    """Runs an entry point as `elastic_launch` does."""
    if not config.run_id:
        config.run_id = str(uuid.uuid4().int)
        logger.warning("config has no run_id, generated a random run_id: %s", config.run_id)
    _share_token(config)
    parameters = RendezvousParameters(
        config.rdzv_backend, config.rdzv_endpoint, config.run_id, config.min_nodes, config.max_nodes,
        config.local_addr, **config.rdzv_configs,
    )
    host, port = _get_addr_and_port(parameters)
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = config.signals_to_handle
    name = _get_entrypoint_name(entrypoint, args)
    logger.info("Starting %s: %s", name, config)
    spec = WorkerSpec(
        config.role, config.nproc_per_node, get_rendezvous_handler(parameters), entrypoint=entrypoint,
        args=tuple(args), max_restarts=config.max_restarts, monitor_interval=config.monitor_interval,
        master_addr=host, master_port=port, local_addr=config.local_addr, event_log_handler=config.event_log_handler,
        numa_options=config.numa_options, duplicate_stdout_filters=config.duplicate_stdout_filters,
        duplicate_stderr_filters=config.duplicate_stderr_filters, virtual_local_rank=config.virtual_local_rank,
    )
    agent = LocalElasticAgent(
        spec, config.logs_specs or DefaultLogsSpecs(), config.start_method,
        log_line_prefix_template=config.log_line_prefix_template, shutdown_timeout=config.shutdown_timeout or 0,
        health_check_server=health_check_server,
    )
    closes = True
    try:
        metrics.initialize_metrics(metrics.MetricsConfig(config.metrics_cfg))
        result = agent.run()
        events.record(agent.get_event_succeeded(), config.event_log_handler)
        if result.is_failed():
            raise ChildFailedError(name, result.failures)
        return result.return_values
    except ChildFailedError:
        raise
    except Exception as error:
        closes = not isinstance(error, SignalException)  # a launcher that is ended leaves the others their rendezvous
        events.record(agent.get_event_failed(), config.event_log_handler)
        raise
    finally:
        if closes:
            spec.rdzv_handler.shutdown()
