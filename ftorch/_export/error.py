"""Exceptions of exports (``torch._export.error``)."""

from __future__ import annotations

from enum import Enum

__all__ = ["ExportError", "ExportErrorType", "InternalError", "internal_assert"]


class ExportErrorType(Enum):
    """What is wrong with a program."""

    INVALID_INPUT_TYPE = 1
    INVALID_OUTPUT_TYPE = 2
    VIOLATION_OF_SPEC = 3
    NOT_SUPPORTED = 4
    MISSING_PROPERTY = 5
    UNINITIALIZED = 6


class InternalError(Exception):
    """Something that cannot be."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class ExportError(Exception):
    """A program that cannot be exported."""

    def __init__(self, error_code: ExportErrorType, message: str) -> None:
        super().__init__(f"[{error_code}]: {message}")


def internal_assert(pred: bool, assert_msg: str) -> None:
    """Raises `InternalError` unless something holds."""
    if not pred:
        raise InternalError(assert_msg)
