"""What is logged of blocks that did not end in time."""

from __future__ import annotations

from ..utils.logging import get_logger

__all__ = ["log_debug_info_for_expired_timers"]

logger = get_logger(__name__)


def log_debug_info_for_expired_timers(run_id: str, expired_timers: dict[int, list[str]]) -> None:
    """Logs them, by process."""
    if expired_timers:
        logger.info("Timers expired for run:[%s] [%s].", run_id, expired_timers)
