"""``Collector``: takes down calls, programs and compilations while it is on.

While it is off nothing is asked on a call's path: the collector puts itself in front of the engine's
hooks when it starts and takes itself away when it stops.

Calls only record (`docs/architecture.md`), so an op's own time is that of recording it; what is
computed runs later, in programs of many ops, and is an event of its own (``ftorch::program``) inside
the call that needed a value. ``synchronous`` runs each op at once, as PyTorch does, and so tells what
each costs alone.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import jax

from .._old_names import place_in
from ..eager.autograd import backward
from ..eager.autograd.views import view_call
from ..eager.call import op as _op
from ..eager.core import places
from ..eager.native.contexts import contextmanager
from ..eager.runtime import executor, program
from ..eager.runtime.plan import Plan
from ..eager.tensor import TensorBase
from ..jit.capture.program import Captured
from ..jit.graphs.graph_program import GraphProgram
from ..optim import optimizer
from ..utils import _pytree as pytree
from ..utils.data.dataloader import _BaseDataLoaderIter
from ._events import FunctionEvent
from ._names import aten_name, flops_of, is_aten

_active: list[Collector] = []
_HOOKS = ("dispatch", "dispatch_inplace", "dispatch_view")
_local = threading.local()


def active() -> Collector | None:
    """The collector that is on, if one is."""
    return _active[-1] if _active else None


def _on_duration(event, seconds, **named):
    collector = active()
    if collector is not None and event == "/jax/core/compile/backend_compile_duration":
        now = collector.now()
        collector.add("ftorch::compile", "compile", now - seconds * 1e6, now, {
            "function": str(named.get("fun_name", ""))})


jax.monitoring.register_event_duration_secs_listener(_on_duration)


class Collector:
    """Collects events between `start` and `stop`.

    Attributes:
        events: in the order in which they began.
    """

    def __init__(self, record_shapes=False, profile_memory=False, with_stack=False,
                 synchronous=False, with_flops=False):
        self.with_flops, self.is_on = with_flops, False
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.synchronous = with_stack, synchronous
        self.events: list[FunctionEvent] = []
        self.began = 0.0
        self._saved: dict[Any, Any] = {}
        self._regions: dict[int, int] = {}  # of compiled functions, in the order of their first calls
        self._handles: list[Any] = []
        self._lock = threading.Lock()

    def now(self) -> float:
        """Microseconds since the start."""
        return (time.perf_counter() - self._start) * 1e6

    # --- events

    def _stack(self) -> list[FunctionEvent]:
        found = getattr(_local, "stack", None)
        if found is None or getattr(_local, "owner", None) is not self:
            _local.stack, _local.owner = [], self
        return _local.stack

    def open(self, name, category, shapes=(), **args) -> FunctionEvent:
        """Begins an event inside those that are open in this thread."""
        stack = self._stack()
        parent = stack[-1] if stack else None
        with self._lock:
            event = FunctionEvent(
                len(self.events) + 1, name, category, threading.get_ident(), self.now(),
                input_shapes=list(shapes), args=args, cpu_parent=parent,
                is_user_annotation=category == "user",
            )
            self.events.append(event)
        if parent is not None:
            parent.cpu_children.append(event)
        if self.with_stack:
            event.stack = _frames()
        stack.append(event)
        return event

    def close(self, event) -> None:
        """Ends an event (and those that were left open inside it)."""
        stack = self._stack()
        event.end = self.now()
        while stack:
            if stack.pop() is event:
                break

    def add(self, name, category, start, end, args) -> None:
        """Adds an event that is over."""
        event = self.open(name, category, **args)
        self.close(event)
        event.start, event.end = start, end

    # --- hooks

    def start(self) -> None:
        """Begins to collect; a collector around does not until this one stops."""
        executor.flush()
        self._start, self.began = time.perf_counter(), time.time() * 1e6
        if _active:
            _active[-1].suspend()
        _active.append(self)
        self.resume()

    def stop(self) -> None:
        """Runs what is pending, and ends."""
        executor.flush()
        self.suspend()
        _active.remove(self)
        if _active:
            _active[-1].resume()
        end = self.now()
        for event in self.events:
            event.end = event.end or end

    def resume(self) -> None:
        """Puts itself in front of the engine's hooks."""
        if self.is_on:
            return
        self.is_on = True
        for name in _HOOKS:
            self._saved[name] = getattr(_op.hooks, name)
            setattr(_op.hooks, name, self._wrapped(name, self._saved[name]))
        for name, make in (("python_composite", self._composite), ("python_method", self._method)):
            self._saved[name] = getattr(_op.hooks, name)
            setattr(_op.hooks, name, make(self._saved[name]))
        self._saved["execute"], program.execute = program.execute, self._timed(program.execute)
        self._saved["apply"], backward._apply = backward._apply, self._node(backward._apply)
        for kind, name, make in self._methods():
            self._saved[kind, name] = getattr(kind, name)
            setattr(kind, name, make(self._saved[kind, name]))
        _op.special[0] += 1
        self._watch_optimizers()
        if self.synchronous:
            self._saved["deferred"], executor.DEFERRED = executor.DEFERRED, False

    def suspend(self) -> None:
        """Takes itself away from the engine's hooks."""
        if not self.is_on:
            return
        self.is_on = False
        _op.special[0] -= 1
        for name in (*_HOOKS, "python_composite", "python_method"):
            setattr(_op.hooks, name, self._saved[name])
        program.execute, backward._apply = self._saved["execute"], self._saved["apply"]
        for kind, name, _ in self._methods():
            setattr(kind, name, self._saved[kind, name])
        if self.synchronous:
            executor.DEFERRED = self._saved["deferred"]
        for handle in self._handles:
            handle.remove()

    @contextmanager
    def event(self, name, category, shapes=(), **args):
        """An event around what is done inside."""
        made = self.open(name, category, shapes, **args)
        try:
            yield made
        finally:
            self.close(made)

    def _wrapped(self, kind, hook) -> Callable:
        run = {"dispatch": _op.call, "dispatch_inplace": _op.call_inplace}.get(kind, view_call)
        suffix = "_" if kind == "dispatch_inplace" else ""

        def collect(op, operands, static):
            if getattr(_local, "inside", False):
                _local.inside = False  # what it calls is collected again
                return hook(op, operands, static)
            name = getattr(op, "name", None) or op.definition.name
            with self._around(aten_name(name) + suffix, operands) as event:
                _local.inside = True
                try:
                    result = run(op, operands, static)
                    if self.synchronous:
                        _wait(result)
                finally:
                    _local.inside = False
            if self.profile_memory and kind == "dispatch":
                event.self_cpu_memory_usage += _bytes(result)
            if self.with_flops:
                event.flops = flops_of(name, operands, result)
            return True, result

        return collect

    @contextmanager
    def _around(self, name, operands):
        """An op's event: that of the function of the same name, if it is in one."""
        stack = self._stack()
        if stack and stack[-1].name == name and stack[-1].is_composite:
            yield stack[-1]
            return
        with self.event(name, "op", self._shapes(operands)) as made:
            yield made

    def _composite(self, hook) -> Callable:
        """Functions of several ops that are ATen's are events around theirs."""

        def collect(function, relevant, args, kwargs):
            run = function if hook is None else functools.partial(hook, function, relevant)
            given = args if hook is None else (args, kwargs)
            named = kwargs if hook is None else {}
            if not is_aten(function.__name__):
                return run(*given, **named)
            with self.event(aten_name(function.__name__), "op", self._shapes(args)) as event:
                event.is_composite = True
                result = run(*given, **named)
            if self.profile_memory and not event.cpu_children and not event.self_cpu_memory_usage:
                event.self_cpu_memory_usage += _bytes(result)
            return result

        return collect

    def _method(self, hook) -> Callable:
        """Looking at a value is an event."""

        def collect(name, *args, **named):
            handled, result = hook(name, *args, **named)
            if name == "_local_scalar_dense":
                with self.event("aten::item", "op"), self.event(f"aten::{name}", "op"):
                    executor.flush()
            return handled, result

        return collect

    def _node(self, apply) -> Callable:
        """A node of a graph is an event in backward."""

        def collect(node, grads):
            name = node.name().rpartition("::")[2]
            name = name if "AccumulateGrad" not in name else "torch::autograd::AccumulateGrad"
            with self.event(f"autograd::engine::evaluate_function: {name}", "op"):
                with self.event(name, "op"):
                    return apply(node, grads)

        return collect

    def _region(self, run) -> Callable:
        """A call of a compiled function is an event, until its results are there."""
        @functools.wraps(run)
        def collect(captured, *arguments):
            number = self._regions.setdefault(id(captured), len(self._regions))
            with self.event(f"Torch-Compiled Region: {number}/0", "op"):
                results = run(captured, *arguments)
                _wait(pytree.tree_leaves(results))
            return results

        return collect

    def _methods(self):
        """[(class, method, what makes the method an event)] of what is no op."""
        zero = functools.partial(self._named, "Optimizer.zero_grad#{}.zero_grad")
        load = functools.partial(self._named, "enumerate(DataLoader)#{}.__next__")
        return [(Captured, "run", self._region), (GraphProgram, "run", self._region),
                (optimizer.Optimizer, "zero_grad", zero), (_BaseDataLoaderIter, "__next__", load)]

    def _named(self, text, method) -> Callable:
        """Calls of a method are events with the name of the object's class."""

        @functools.wraps(method)
        def collect(own, *args, **kwargs):
            with self.event(text.format(type(own).__name__), "user"):
                return method(own, *args, **kwargs)

        return collect

    def _shapes(self, operands):
        if not self.record_shapes:
            return ()
        operands = (operands,) if isinstance(operands, TensorBase) else operands
        return [
            list(o.shape) if isinstance(o, TensorBase) else
            [list(t.shape) for t in o if isinstance(t, TensorBase)] if isinstance(o, (list, tuple)) else []
            for o in operands
        ]

    def _timed(self, execute) -> Callable:
        @functools.wraps(execute)
        def timed(device, code, *args):
            names = [item.name for item in code if isinstance(item, Plan)]
            event = self.open("ftorch::program", "program", ops=names[:64], count=len(names))
            try:
                results = execute(device, code, *args)
                jax.block_until_ready(results)
                return results
            finally:
                self.close(event)

        return timed

    def _watch_optimizers(self):
        opened: list[FunctionEvent] = []

        def enter(own, *_):
            opened.append(self.open(f"Optimizer.step#{type(own).__name__}.step", "user"))

        def leave(*_):
            if opened:
                self.close(opened.pop())

        self._handles = [
            optimizer.register_optimizer_step_pre_hook(enter),
            optimizer.register_optimizer_step_post_hook(leave),
        ]


def _wait(result):
    values = (result,) if isinstance(result, TensorBase) else tuple(result or ())
    for t in (v for v in values if isinstance(v, TensorBase)):
        if getattr(t._ftorch_storage, "array", None) is not None:
            jax.block_until_ready(t._ftorch_storage.array)


def _bytes(result) -> int:
    values = (result,) if isinstance(result, TensorBase) else result
    if not isinstance(values, (tuple, list)):
        return 0
    return sum(
        t._ftorch_geometry.numel * t._ftorch_geometry.dtype.itemsize for t in values if isinstance(t, TensorBase)
    )


def _frames() -> list[str]:
    """The frames of the user's code, innermost first."""
    return [
        f"{f.filename}({f.lineno}): {f.name}"
        for f in reversed(traceback.extract_stack(sys._getframe(2), limit=40))
        if not f.filename.startswith((*places.OWN, contextlib.__file__))
    ]


class record_function:
    """Names a part of a program in profiles and in JAX's traces; a ``with`` block or a decorator.

    >>> import ftorch as torch
    >>> from ftorch.profiler import profile, record_function
    >>> with profile() as p:
    ...     with record_function("step"):
    ...         y = torch.ones(2) + 1
    >>> [e.key for e in p.key_averages() if e.is_user_annotation]
    ['step']
    """

    def __init__(self, name: str, args: str | None = None):
        self.name, self.args = name, args
        self._annotation: Any = None
        self._event = None

    def __enter__(self):
        self._annotation = jax.profiler.TraceAnnotation(self.name, ftorch="annotation")
        self._annotation.__enter__()
        collector = active()
        if collector is not None:
            self._event = collector, collector.open(self.name, "user")
        return self

    def __exit__(self, *exception):
        if self._event is not None:
            collector, event = self._event
            collector.close(event)
            self._event = None
        self._annotation.__exit__(*exception)

    def __call__(self, function):
        @functools.wraps(function)
        def named(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return named


__all__ = ["Collector", "active", "record_function"]

place_in("autograd.profiler", record_function)
