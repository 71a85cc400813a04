"""Where the records of collectives' errors go, by destination."""

from __future__ import annotations

import logging

__all__: list[str] = []

_log_handlers: dict[str, logging.Handler] = {"default": logging.NullHandler()}
