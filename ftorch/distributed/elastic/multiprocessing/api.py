"""Which streams of workers go into files, and signals as exceptions."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any

from .errors import ProcessFailure

__all__ = ["RunProcsResult", "SignalException", "Std", "to_map"]

_VALUE, _MAPPING = "^[0123]$", r"^(\d:[0123],)*(\d:[0123])$"


class SignalException(Exception):
    """A signal came."""

    def __init__(self, msg: str, sigval: signal.Signals):
        super().__init__(msg)
        self.sigval = sigval


def _terminate_process_handler(signum: int, frame) -> None:
    sigval = signal.Signals(signum)
    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval)


class Std(IntFlag):
    """Streams.

    >>> Std.from_str("0:3,1:0")
    {0: <Std.ALL: 3>, 1: <Std.NONE: 0>}
    """

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Any:
        """The streams of ``"3"``, or those of each worker of ``"0:3,1:0"``.

        Raises:
            ValueError: for other texts.
        """
        if re.match(_VALUE, vm):
            return Std(int(vm))
        if re.match(_MAPPING, vm):
            pairs = (pair.split(":") for pair in vm.split(","))
            return {int(rank): Std(int(value)) for rank, value in pairs}
        raise ValueError(f"{vm} does not match: <{_VALUE}> or <{_MAPPING}>")


def to_map(val_or_map, local_world_size: int) -> dict[int, Std]:
    """The streams of each worker, of one value or of some workers'."""
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {i: val_or_map.get(i, Std.NONE) for i in range(local_world_size)}


@dataclass
class RunProcsResult:
    """What became of workers: their results, or their failures, and the files of their output."""

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether one of them failed."""
        return len(self.failures) > 0
