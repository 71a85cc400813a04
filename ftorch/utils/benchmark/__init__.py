"""Timing (``torch.utils.benchmark``)."""

from .timer import Measurement, Timer, timer

__all__ = ["Measurement", "Timer", "timer"]
