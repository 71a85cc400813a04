"""Graphs' code for logs."""

from __future__ import annotations

from .graph_module import GraphModule

__all__ = ["LazyText", "lazy_format_graph_code"]


class LazyText:
    """A text that is made when somebody reads it."""

    def __init__(self, make):
        self._make = make

    def __str__(self):
        return self._make()


def lazy_format_graph_code(name: str, gm: GraphModule, maybe_id=None, **kwargs) -> LazyText:
    """The code of a module with a heading, made when it is read."""
    heading = f"TRACED GRAPH\n ===== {name}{'' if maybe_id is None else f' {maybe_id}'} =====\n "

    def text():
        return heading + gm.print_readable(print_output=False, **kwargs)

    return LazyText(text)
