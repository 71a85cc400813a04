"""Counters of the executor: what was compiled and what ran."""

from __future__ import annotations


class Stats:
    """Counters of the executor: read them to see what compiled and what ran.

    Attributes:
        compilations: functions handed to XLA's compiler (steps and programs).
        hits: runs that found their compiled function.
        programs: traces and single steps that ran.
        ops: steps recorded.
    """

    __slots__ = ("compilations", "hits", "programs", "ops")

    def __init__(self):
        self.reset()

    def reset(self):
        self.compilations = self.hits = self.programs = self.ops = 0

    def __repr__(self):
        return f"Stats({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"


stats = Stats()
