"""Errors of checkpoints."""

from __future__ import annotations

__all__ = ["CheckpointException"]


class CheckpointException(BaseException):
    """Something failed on some ranks.

    Attributes:
        failures: {rank: exception}.
    """

    def __init__(self, msg: str, failures: dict):
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict:
        """The exceptions by rank."""
        return self._failures

    def __str__(self):
        text = f"CheckpointException ranks:{self._failures.keys()}\n"
        for rank, error in self._failures.items():
            text += f"Traceback (most recent call last): (RANK {rank})\n{type(error).__name__}: {error}\n"
        return text
