"""What nodes remember of where they come from, while graphs are made of graphs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from typing import Any

from ..eager.native.contexts import contextmanager, putting_back
from ._node_source import NodeSource, NodeSourceAction

_preserving = [False]
_current: dict[str, Any] = {}


def has_preserved_node_meta() -> bool:
    """Whether new nodes take over `get_current_meta`."""
    return _preserving[0]


def _put_back(preserving, current):
    _preserving[0] = preserving
    _current.clear()
    _current.update(current)


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Inside, nodes made while a graph is interpreted take over the interpreted node's ``meta``."""
    with putting_back(_put_back, _preserving[0], dict(_current)):
        _preserving[0] = enable
        yield


@contextmanager
def annotate(annotation: dict[str, Any]) -> Iterator[None]:
    """Inside, nodes have ``meta["custom"]`` with these entries."""
    before = _current.get("custom")
    _current["custom"] = {**(before or {}), **annotation}
    try:
        with preserve_node_meta():
            yield
    finally:
        if before is None:
            _current.pop("custom", None)
        else:
            _current["custom"] = before


def annotate_fn(annotation_dict: dict[str, Any]):
    """A decorator: nodes made in calls of the function have ``meta["custom"]`` with these entries (`annotate`)."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return call

    return decorate


def set_stack_trace(stack: list[str]) -> None:
    """The stack of the nodes that are made from now on."""
    if _preserving[0] and stack:
        _current["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """The stack of the node that is interpreted."""
    trace = _current.get("stack_trace")
    return [trace] if trace else []


@contextmanager
def set_current_meta(node, pass_name: str = "") -> Iterator[None]:
    """Inside, the ``meta`` of a node is the current one."""
    if not _preserving[0] or not node.meta:
        yield
        return
    with putting_back(_put_back, _preserving[0], dict(_current)):
        _current.update(copy.copy(node.meta))
        yield


def get_current_meta() -> dict[str, Any]:
    """The ``meta`` of the node that is interpreted."""
    return _current


__all__ = [
    "NodeSource", "NodeSourceAction", "annotate", "annotate_fn", "format_stack", "get_current_meta",
    "has_preserved_node_meta", "preserve_node_meta", "set_current_meta", "set_stack_trace",
]
