"""How a module's parameters are cut (``torch.distributed._shard.sharding_plan``)."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any

from ..sharder import Sharder
from ..sharding_spec import ShardingSpec


@dataclass
class ShardingPlan:
    """What becomes of a module's parameters and results.

    Attributes:
        plan: {path of a parameter: `ShardingSpec`, or of a module: `Sharder`}.
        output_plan: {path of a module: how its result is cut}.
        return_local_tensor: paths of modules that give the piece that is here.
    """

    plan: dict[str, ShardingSpec | Sharder]
    output_plan: dict[str, ShardingSpec] | None = None
    return_local_tensor: list[str] | None = None


class ShardingPlanner(abc.ABC):
    """Makes a plan for a module."""

    @abc.abstractmethod
    def build_plan(self, module: Any) -> ShardingPlan:
        """The plan."""
