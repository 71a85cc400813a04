"""`elastic_launch`: a function or a program in several processes, with restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ._agent import Agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """What to launch (``torch.distributed.launcher.LaunchConfig``).

    Args:
        min_nodes, max_nodes: how many launchers take part.
        nproc_per_node: workers of each.
        rdzv_backend: ``static`` (numbered nodes) or ``c10d`` (whoever comes).
        rdzv_endpoint: ``host:port`` where launchers meet; that on ``host`` serves.
        max_restarts: how often workers are started again when one fails.
    """

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "static"
    rdzv_configs: dict[str, Any] = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: str | None = None
    metrics_cfg: dict[str, str] = field(default_factory=dict)
    local_addr: str | None = None
    event_log_handler: str = "null"
    log_dir: str | None = None
    redirects: str = "0"
    tee: str = "0"
    local_ranks_filter: str = ""

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)


class elastic_launch:  # noqa: N801
    """A callable that runs an entry point in all workers of this node.

    Args:
        entrypoint: a function, or the path of a program.

    Returns (when called): {rank: result of the function}.

    Raises:
        ChildFailedError: if workers fail more often than ``max_restarts``.
    """

    def __init__(self, config: LaunchConfig, entrypoint):
        self._config, self._entrypoint = config, entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))


def launch_agent(config: LaunchConfig, entrypoint, args: list) -> dict[int, Any]:
    """Runs an entry point as `elastic_launch` does."""
    return Agent(config, entrypoint, args).run()
