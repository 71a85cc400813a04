"""Records of what happens."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum

__all__ = ["Event", "EventSource", "NodeState", "RdzvEvent"]

EventMetadataValue = str | int | float | bool | None


class EventSource(StrEnum):
    """Who reports."""

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(StrEnum):
    """What became of a node."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class _Record:
    def __str__(self):
        return self.serialize()

    def serialize(self) -> str:
        """The record as JSON."""
        return json.dumps(asdict(self))  # type: ignore[call-overload]


@dataclass
class Event(_Record):
    """Something that happened.

    >>> Event.deserialize(Event("start", EventSource.AGENT, metadata={"n": 1}).serialize()).metadata
    {'n': 1}
    """

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    __str__ = _Record.__str__

    @staticmethod
    def deserialize(data):
        """The event of a JSON text (or itself)."""
        if isinstance(data, Event):
            return data
        values = json.loads(data)
        return Event(**{**values, "source": EventSource[values["source"]]})


@dataclass
class RdzvEvent(_Record):
    """Something that happened in a rendezvous."""

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    __str__ = _Record.__str__

    @staticmethod
    def deserialize(data):
        """The event of a JSON text (or itself)."""
        if isinstance(data, RdzvEvent):
            return data
        values = json.loads(data)
        return RdzvEvent(**{**values, "node_state": NodeState[values["node_state"]]})
