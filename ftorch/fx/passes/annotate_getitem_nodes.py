"""Types of elements, from the types of the containers that they are taken of."""

from __future__ import annotations

import operator
import typing

from ..graph import Graph

__all__ = ["annotate_getitem_nodes"]


def annotate_getitem_nodes(graph: Graph) -> None:
    """Gives nodes that take elements their types, where the container has an annotation, in place."""
    for node in graph.nodes:
        if node.target is not operator.getitem or node.type is not None:
            continue
        sequence, index = node.args
        if not hasattr(sequence, "type") or not isinstance(index, int):
            continue
        node.type = _element(sequence.type, index)


def _element(annotation, index: int):
    args = typing.get_args(annotation)
    if hasattr(annotation, "_fields"):
        return list(typing.get_type_hints(annotation).values())[index]
    if typing.get_origin(annotation) is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return args[0]
        assert isinstance(args, tuple) and index < len(args)
        return args[index]
    return args[0] if typing.get_origin(annotation) is list and len(args) == 1 else None
