"""Which handler writes errors."""

from __future__ import annotations

from .error_handler import ErrorHandler

__all__ = ["get_error_handler"]


def get_error_handler() -> ErrorHandler:
    """The handler."""
    return ErrorHandler()
