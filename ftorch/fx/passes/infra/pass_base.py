"""``PassBase``: what passes over graph modules have in common."""

from __future__ import annotations

import abc
from typing import NamedTuple

from ...graph_module import GraphModule


class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it changed."""

    graph_module: GraphModule
    modified: bool


class PassBase(abc.ABC):
    """A pass: `call`, between `requires` and `ensures`."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Does the work."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises where the pass cannot work on a module."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises where the result is not as it must be."""


__all__ = ["PassBase", "PassResult"]
