"""Errors of checkpoints."""

from __future__ import annotations

import traceback
from typing import Any

__all__ = ["CheckpointException"]

WRAPPED_EXCEPTION = tuple[BaseException, traceback.StackSummary]


def _wrap_exception(exc: BaseException) -> WRAPPED_EXCEPTION:
    """An exception with the lines that it came through, which other processes can be sent."""
    lines = traceback.extract_tb(exc.__traceback__)
    for line in lines:
        if getattr(line, "_code", None) is not None:  # Python 3.13's: it is not pickled
            object.__setattr__(line, "_code", None)
    return exc, lines


def _is_wrapped_exception(obj: Any) -> bool:
    if not isinstance(obj, tuple) or len(obj) != 2:
        return False
    return isinstance(obj[0], BaseException) and isinstance(obj[1], traceback.StackSummary)


class CheckpointException(BaseException):
    """Something failed on some ranks.

    Attributes:
        failures: {rank: (exception, the lines that it came through)}.
    """

    def __init__(self, msg: str, failures: dict[int, WRAPPED_EXCEPTION]):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, WRAPPED_EXCEPTION]:
        """The exceptions by rank."""
        return self._failures

    def __str__(self):
        text = f"CheckpointException ranks:{self._failures.keys()}\n"
        for rank, (error, lines) in self._failures.items():
            text += f"Traceback (most recent call last): (RANK {rank})\n"
            text += "".join(traceback.format_list(lines or [])) + "".join(traceback.format_exception_only(error))
        return text
