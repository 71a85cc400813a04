"""``.graph`` and ``.code``: a program's function as PyTorch's compiler writes it."""

from __future__ import annotations

import weakref

from ..program.objects import Function as ProgramFunction
from ..program.services import services
from .cleanup import clean, eliminate, inline, lower_tuples
from .exits import transform_exits
from .ir import Function, Graph
from .printer import function_text, separate_breaks
from .ssa import to_ssa
from .statements import Emitter
from .traced import TracedEmitter

__all__ = ["Graph", "lower", "text_of"]

_graphs: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def graph_of(function: ProgramFunction) -> Graph:
    """The graph of a function, which is made once."""
    found = _graphs.get(function)
    if found is None:
        if function.notes is not None:
            found = TracedEmitter(function).emit()
            lower_tuples(found)
            eliminate(found)
        else:
            found = Emitter(function).emit()
            to_ssa(found)
            transform_exits(found)
            clean(found)
        _graphs[function] = found
    return found


def lower(function: ProgramFunction, inlined: bool = False) -> Graph:
    """The graph of a program's function.

    Args:
        inlined: write called functions and methods out.
    """
    graph = graph_of(function)
    if not inlined:
        return graph

    def callee(node):
        if node.op == "prim::CallFunction":
            target = node.operands[0].toIValue()
            return (lower(target.function, True), 1, False) if isinstance(target, Function) else None
        owner = function.unit.classes.get(str(node.operands[0].kind))
        method = owner.methods.get(node.attributes["name"]) if owner is not None else None
        return None if method is None else (lower(method, True), 0, function.notes is not None)

    return inline(graph, callee)


def text_of(function: ProgramFunction) -> tuple[str, list]:
    """(the function's text as PyTorch prints it, the tensors that it names as constants)."""
    graph = graph_of(function)
    separate_breaks(graph)
    text, tensors = function_text(function, graph)
    return text, [graph.numbers.get(id(t), t) for t in tensors]


services.lower = lower
services.text_of = text_of
