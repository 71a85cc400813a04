"""The launcher of one node (``torch.distributed.elastic.agent.server``).

It meets those of other nodes, starts workers, watches them, and starts them again when one fails or when nodes come.
"""

from .api import (
    ElasticAgent,
    RunResult,
    SimpleElasticAgent,
    Worker,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from .local_elastic_agent import (
    TORCHELASTIC_ENABLE_FILE_TIMER,
    TORCHELASTIC_TIMER_FILE,
    LocalElasticAgent,
)

__all__ = [
    "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_TIMER_FILE", "ElasticAgent", "LocalElasticAgent", "RunResult",
    "SimpleElasticAgent", "Worker", "WorkerGroup", "WorkerSpec", "WorkerState",
]
