"""Breakpoints in generated code."""

from __future__ import annotations

from ..graph_module import GraphModule

__all__ = ["set_trace"]


def set_trace(gm: GraphModule) -> GraphModule:
    """Lets the code of a module begin with a breakpoint of ``pdb``, in place."""

    def insert(body):
        return ["import pdb; pdb.set_trace()\n", *body]

    with gm.graph.on_generate_code(
        make_transformer=lambda current: lambda body: insert(current(body) if current else body)
    ):
        gm.recompile()
    return gm
