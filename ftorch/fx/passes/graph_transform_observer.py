"""``GraphTransformObserver``: what a pass makes of a graph's nodes."""

from __future__ import annotations

import os

from .._compatibility import compatibility
from ..graph_module import GraphModule
from ..node import Node

__all__ = ["GraphTransformObserver"]


@compatibility(is_backward_compatible=False)
class GraphTransformObserver:
    """A ``with`` block around a pass, which notes the nodes that it makes and removes.

    Args:
        passname: what drawings are called.
        log_url: a folder for drawings of the graph before and after, where it changes.

    Attributes:
        created_nodes, erased_nodes: names.
    """

    __pass_count = 0

    def __init__(self, gm: GraphModule, passname: str, subsystem: str | None = None,
                 log_url: str | None = None):
        self.gm, self.passname, self.subsystem, self.log_url = gm, passname, subsystem, log_url
        GraphTransformObserver.__pass_count += 1
        self.created_nodes: set[str] = set()
        self.erased_nodes: set[str] = set()

    @classmethod
    def get_current_pass_count(cls) -> int:
        """How many passes have been observed."""
        return cls.__pass_count

    def apply_gm_pass(self, pass_fn):
        """Runs a pass of the module within the block; gives its result."""
        with self:
            return pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn):
        """Runs a pass of the graph within the block; gives its result."""
        with self:
            return pass_fn(self.gm.graph)

    def __enter__(self):
        self._before: list[Node] = list(self.gm.graph.nodes)
        self._drawing = self._draw() if self.log_url else None
        return self

    def __exit__(self, kind, value, traceback):
        if kind is not None:
            return
        before, after = set(self._before), set(self.gm.graph.nodes)
        self.created_nodes |= {n.name for n in after - before}
        self.erased_nodes |= {n.name for n in before - after}
        if self._drawing is not None and (self.created_nodes or self.erased_nodes):
            for when, drawing in (("input", self._drawing), ("output", self._draw())):
                name = f"pass_{self.get_current_pass_count()}_{self.passname}_{when}_graph.dot"
                with open(os.path.join(self.log_url or "", name), "w") as file:
                    file.write(drawing)

    def _draw(self) -> str:
        from .graph_drawer import FxGraphDrawer

        return FxGraphDrawer(self.gm, self.passname).get_dot_graph().to_string()
