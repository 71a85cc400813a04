"""``torch._dynamo.explain``: what compiling a call comes to."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass
class BreakReason:
    """Why a program ends: ``reason``, and where in the user's code."""

    reason: str
    user_stack: Any
    graph_break: bool = True

    def __repr__(self):
        return f"GraphCompileReason(reason={self.reason!r}, user_stack={self.user_stack!r})"


@dataclasses.dataclass
class ExplainOutput:
    """What `explain` found; printing it shows it.

    Attributes:
        graphs: the programs as ``fx.GraphModule``; ``ops_per_graph`` their functions.
        break_reasons: why the call is not one program.
        out_guards: the guards, in words.
    """

    graphs: list
    graph_count: int
    graph_break_count: int
    break_reasons: list
    op_count: int
    ops_per_graph: list | None = None
    out_guards: list | None = None
    compile_times: str | None = None

    def __str__(self):
        lines = [
            f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}", "Break Reasons:",
        ]  # fmt: skip
        for i, reason in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {i}:", f"    Reason: {reason.reason}"]
            if reason.user_stack:
                lines += ["    User Stack:", *(f"      {x}" for x in reason.user_stack.splitlines())]
        lines.append("Ops per Graph:")
        for i, ops in enumerate(self.ops_per_graph or [], 1):
            lines += [f"  Ops {i}:", *(f"    {op}" for op in ops)]
        lines.append("Out Guards:")
        lines += [f"  Guard {i}: {g}" for i, g in enumerate(self.out_guards or [], 1)]
        return "\n".join(lines) + "\n"


def explain(f, *extra_args, **extra_kwargs):
    """What compiling ``f`` comes to: ``explain(f)(*args)``.

    >>> import ftorch as torch
    >>> found = torch._dynamo.explain(lambda x: x.sin() + 1)(torch.zeros(2))
    >>> found.graph_count, found.graph_break_count, found.op_count
    (1, 0, 2)
    """

    def inner(*args, **kwargs):
        from ..jit.compiler import compile
        from ..nn import Module
        from .compiled import Compiled
        from .graphs import graph_module

        function = f.function if isinstance(f, Compiled) else f
        compiled = compile(function)
        compiled(*args, **kwargs)
        events = (compiled.__dict__["_compiled"] if isinstance(compiled, Module) else compiled).events
        programs = [e.captured for e in events if e.captured is not None]
        graphs = [graph_module(p) for p in programs]
        ops = [[n.target for n in g.graph.nodes if n.op == "call_function"] for g in graphs]
        breaks = [BreakReason(e.reason, e.where.strip()) for e in events if e.captured is None]
        return ExplainOutput(
            graphs, len(graphs), len(breaks), breaks, sum(map(len, ops)), ops,
            [text for p in programs for text in p.guards._texts],
        )

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner
