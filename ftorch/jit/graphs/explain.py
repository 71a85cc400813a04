"""``torch._dynamo.explain``: what compiling a call comes to."""

from __future__ import annotations

import dataclasses
import sys

from ..._dynamo.utils import compile_times
from ...eager.core import device as _device
from ...eager.core.refcount import PausedCollector
from ...eager.runtime import capture_trace
from ...eager.runtime.trace import Trace
from ...eager.tensor import modes
from ..capture import break_reasons as reasons
from ..capture.guards import of_watch
from ..capture.state_watch import Watch
from .call_recorder import Recorder
from .call_sites import CallSites
from .subgraphs import graphs_of


@dataclasses.dataclass
class BreakReason:
    """Why a program ends: ``reason``, and where in the user's code (``traceback.FrameSummary``)."""

    reason: str
    user_stack: list
    graph_break: bool = True

    def __repr__(self):
        return f"GraphCompileReason(reason={self.reason!r}, user_stack={self.user_stack!r})"


@dataclasses.dataclass
class ExplainOutput:
    """What `explain` found; printing it shows it.

    Attributes:
        graphs: the programs as ``fx.GraphModule``, of the calls as they are written in the function;
            ``ops_per_graph`` their functions, without the methods of tensors, as in PyTorch.
        graph_break_count: one less than there are graphs.
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
        ]
        for i, reason in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {i}:", f"    Reason: {reason.reason}"]
            if reason.user_stack:
                lines += ["    User Stack:", *(f"      {x}" for x in reason.user_stack)]
        lines.append("Ops per Graph:")
        for i, ops in enumerate(self.ops_per_graph or [], 1):
            lines += [f"  Ops {i}:", *(f"    {op}" for op in ops)]
        lines.append("Out Guards:")
        lines += [f"  Guard {i}: {g}" for i, g in enumerate(self.out_guards or [], 1)]
        if self.compile_times is not None:
            lines.append(f"Compile Times: {self.compile_times}")
        return "\n".join(lines) + "\n"


def explain(f, *extra_args, **extra_kwargs):
    """What compiling ``f`` comes to: ``explain(f)(*args)``.

    >>> import ftorch as torch
    >>> found = torch._dynamo.explain(lambda x: x.sin() + 1)(torch.zeros(2))  # a method is no function
    >>> found.graph_count, found.graph_break_count, found.op_count
    (1, 0, 1)
    """

    def inner(*args, **kwargs):
        from ...nn import Module

        # Of a compiled function what it was made of; disabled ones have that attribute, too, but no programs.
        function = f._torchdynamo_orig_callable if hasattr(type(f), "programs") else f
        function = getattr(function, "_orig_mod", function)
        function = function.__call__ if isinstance(function, Module) else function
        grad, (events, result, guards, stores) = modes.grad, record(function, args, kwargs)
        pieces, made = graphs_of(events, result, grad, stores)
        graphs = [graph for graph, _ in made]
        ops = [[n.target for n in g.graph.nodes if n.op == "call_function"] for g in graphs]
        breaks = [BreakReason(p.reason, list(p.stack)) for p in pieces if p.reason is not None]
        return ExplainOutput(
            graphs, len(graphs), len(graphs) - 1, breaks, sum(map(len, ops)), ops, guards,
            compile_times(),
        )

    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


class _Steps(capture_trace.CaptureTrace):
    """A trace that goes on when a capture would end, and notes why."""

    def __init__(self, recorder):
        super().__init__(_device.CPU)
        self.recorder, self.on_truth = recorder, recorder.note_assertion

    def flush(self, again=False):
        self.recorder.ended(reasons.of_look())
        with capture_trace.unwatched():
            Trace.flush(self, again)

    def end(self, reason):
        self.recorder.ended(reasons.describe(reason))


def record(function, args, kwargs):
    """(what a call did, as a `Recorder` notes it; its result; the guards in words; what the user calls results)."""
    from ..compiling import compiling

    frame = sys._getframe()
    recorder = Recorder(frame, sites=CallSites(frame))
    trace = _Steps(recorder)
    watch = trace.watch = Watch(trace)
    collector = PausedCollector()  # finalizers of what others left are no part of it
    try:
        with capture_trace.swapped(trace):
            watch.arguments(args, kwargs)
            watch.function(function)
            with compiling(), recorder, watch:
                result = function(*args, **kwargs)
    finally:
        collector.resume()
        Trace.flush(trace)
    return recorder.events, result, of_watch(watch, set())._texts, recorder.sites.stores
