"""Partitioning at graph breaks: the programs that a function with breaks consists of, as PyTorch cuts them.

A function that is left for Python at some place is a program before and one behind it. Where that place
is in a function that it calls, the caller's program ends at the call: the function called is compiled by
itself. What stands in a ``for`` loop or a ``try`` block with a break is not compiled.
"""

from __future__ import annotations

import ast
import functools
import linecache
import traceback
from dataclasses import dataclass, field
from typing import Any

from ...utils import _pytree as pytree
from .call_recorder import Break
from .graph_builder import Builder, input_name


@dataclass
class Piece:
    """A program: its calls, and why it ends (None: it ends with its function).

    Attributes:
        start: the code and line that it begins at.
        stack: the user's frames where it ends, the innermost last.
    """

    start: tuple
    calls: list = field(default_factory=list)
    reason: str | None = None
    stack: tuple = ()


def cut(events) -> list[Piece]:
    """The pieces of a recorded call, in order; those that a loop comes to again are one."""
    breaks = [e for e in events if isinstance(e, Break)]
    broken = {id(f) for b in breaks for f in b.frames}
    skipped = {
        id(f) for b in breaks for f, line in zip(b.frames, b.lines) if _is_skipped(f.f_code, line)
    }
    pieces: list[Piece] = []
    open_: dict[Any, Piece] = {}
    starts: dict[int, int] = {}
    for event in events:
        if isinstance(event, Break):
            for i, (frame, line) in enumerate(zip(event.frames, event.lines)):
                starts[id(frame)] = line
                piece = open_.pop(id(frame), None)
                if piece is not None:
                    piece.reason = event.reason
                    piece.stack = tuple(_summary(*at) for at in zip(event.frames[i:], event.lines[i:]))
            continue
        owner = _owner(event.frames, broken, skipped)
        if owner is None and event.frames:
            continue
        piece = open_.get(id(owner))
        if piece is None:
            code = None if owner is None else owner.f_code
            piece = open_[id(owner)] = Piece((code, starts.get(id(owner))))
            pieces.append(piece)
        piece.calls.append(event)
    found = {}
    for piece in pieces:
        found.setdefault((piece.start, tuple(c.target for c in piece.calls)), piece)
    return list(found.values())


def _owner(frames, broken, skipped):
    """The frame whose program a call is part of; None if it is part of none."""
    at = max((i for i, f in enumerate(frames) if id(f) in broken), default=0)
    while at < len(frames) and id(frames[at]) in skipped:
        at += 1
    return frames[at] if at < len(frames) else None


def _summary(frame, line):
    return traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name)


def _is_skipped(code, line):
    """Whether a line of a function stands in a ``for`` loop or a ``try`` block of it."""
    function = _functions(code.co_filename).get((code.co_name, code.co_firstlineno))
    return function is not None and any(
        isinstance(node, (ast.For, ast.Try)) and node.lineno <= line <= (node.end_lineno or line)
        for node in _inside(function)
    )


@functools.lru_cache(64)
def _functions(filename):
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return {}
    return {
        (node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])): node
        for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def _inside(function):
    """The nodes of a function without those of functions within it."""
    stack = list(function.body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))


def graph_of(piece: Piece, grad: bool, wanted, stores=()):
    """A piece as a ``fx.GraphModule``, and the tensors that it takes.

    Args:
        grad: whether operations record where the function begins.
        wanted: ids of tensors that the function returns or other pieces take.
        stores: what the user calls results, see `CallSites`.
    """

    def name(t):
        for frame in reversed(piece.calls[0].frames):
            for key, value in frame.f_locals.items():
                if value is t:
                    return input_name(f"L['{key}']")
        return "L_stack0_"

    builder = Builder(piece.calls, name_input=name, grad=grad, lenient=True, stores=stores)
    return builder.module(builder.last(wanted)), list(builder.inputs)


def graphs_of(events, result, grad: bool, stores=()):
    """(the pieces of a recorded call, [(graph, the tensors that it takes) of each])."""
    pieces = cut(events)
    taken = pytree.tree_leaves((result, [(c.args, c.kwargs) for p in pieces for c in p.calls]))
    wanted = set(map(id, taken))
    return pieces, [graph_of(piece, grad, wanted, stores) for piece in pieces]
