"""Where a part lies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _StorageInfo:
    """The file of a part, and the place in it."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: tuple | None = None

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if v is not None}

    def __setstate__(self, state):
        self.__dict__.update({"transform_descriptors": None, **state})
