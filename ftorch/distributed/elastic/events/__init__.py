"""What happens in launchers and workers, as records (``torch.distributed.elastic.events``)."""

from __future__ import annotations

import inspect
import logging
import os
import socket
import traceback

from .api import Event, EventMetadataValue, EventSource, NodeState, RdzvEvent
from .handlers import get_logging_handler

__all__ = [
    "Event", "EventMetadataValue", "EventSource", "NodeState", "RdzvEvent", "construct_and_record_rdzv_event",
    "get_logging_handler", "record", "record_rdzv_event",
]


def _get_or_create_logger(destination: str = "null") -> logging.Logger:
    """The logger of a destination."""
    logger = logging.getLogger(f"torchelastic-events-{destination}")
    if not logger.handlers:
        logger.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        logger.propagate = False
        logger.addHandler(get_logging_handler(destination))
    return logger


def record(event: Event, destination: str = "null") -> None:
    """Gives an event to a destination: ``"null"``, ``"console"`` or one that a program registered."""
    _get_or_create_logger(destination).info(event.serialize())


def record_rdzv_event(event: RdzvEvent) -> None:
    """Gives an event of a rendezvous to its destination."""
    _get_or_create_logger("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(run_id: str, message: str, node_state: NodeState, name: str = "",
                                    hostname: str = "", pid: int | None = None, master_endpoint: str = "",
                                    local_id: int | None = None, rank: int | None = None) -> None:
    """Records an event of a rendezvous; what is not given is found out."""
    if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
        return
    caller = inspect.stack()[1]
    record_rdzv_event(RdzvEvent(
        f"{os.path.basename(caller.filename)}:{name or caller.function}", run_id, message,
        hostname or socket.getfqdn(), pid or os.getpid(), node_state, master_endpoint, rank, local_id,
        traceback.format_exc() if node_state == NodeState.FAILED else "",
    ))
