"""What cuts a module in a way of its own."""

from __future__ import annotations

import abc
from typing import Any


class Sharder(abc.ABC):
    """Makes of a module one that is cut."""

    @abc.abstractmethod
    def shard(self, module: Any) -> Any:
        """The module in its place."""
