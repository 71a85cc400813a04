"""``Compiled``: a function whose calls are captured programs, and when they are not.

The first call with a kind of arguments is captured: the function runs, its operations are recorded
and not run, and the trace that they leave becomes a program, which then makes that call and later ones
that pass its guards. A function that looks at a value, or does something that a program cannot repeat,
runs in Python, where the deferred executor fuses its operations between the looks.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import types
import weakref

from ..eager import autocast, executor, tape, value_checks
from ..eager import device as _device
from ..eager.executor import CaptureTrace
from ..eager.generator import default_generator
from ..eager.references import PausedCollector
from ..eager.tensor import Tensor, TensorBase, modes
from ..fx import GraphModule
from ..utils import _pytree as pytree
from . import config, exc, logs, opened, structure
from .capture import NUMBERS, Captured, Unsupported
from .graph_program import GraphProgram, InputNames, argument_names, users_code
from .kinds import (
    aliases,
    argument_key,
    difference,
    has_overrides,
    is_array,
    modes_key,
    other_device,
    returned,
    share_parts,
    stand_in,
    stand_ins,
    without_sizes,
)
from .looks import LookingTrace, note_assertion
from .reasons import VALUE, describe
from .recording import Recorder
from .sharing import Family
from .state import SCALARS
from .utils import counters
from .watch import Watch, users_line

_local = threading.local()
_MOST_KINDS = 256  # of arguments, for one function


class Stance:
    """How compiled functions behave now (``torch.compiler.set_stance``)."""

    name = "default"
    backend = None  # what is captured meanwhile is compiled with


stance = Stance()


def is_compiling() -> bool:
    """Whether a function is being captured now."""
    return getattr(_local, "depth", 0) > 0


@contextlib.contextmanager
def compiling():
    """Within, `is_compiling` says so, and compiled functions are part of what is captured."""
    _local.depth = getattr(_local, "depth", 0) + 1
    try:
        yield
    finally:
        _local.depth -= 1


@contextlib.contextmanager
def not_compiling():
    """Within, code runs in Python, whatever is being captured around it."""
    outer, _local.depth = getattr(_local, "depth", 0), 0
    try:
        yield
    finally:
        _local.depth = outer


class Event:
    """What happened in a capture, for `explain`: a program, or why there is none."""

    __slots__ = ("captured", "reason", "where")

    def __init__(self, captured, reason, where=""):
        self.captured, self.reason, self.where = captured, reason, where


class Compiled:
    """A compiled function: see `ftorch.compile`.

    Attributes:
        function: what it was made of.
        entries: {kind of call: programs, or why such calls run in Python}.
        events: what the captures came to.
    """

    instances: weakref.WeakSet[Compiled] = weakref.WeakSet()

    def __init__(self, function, *, fullgraph=False, dynamic=None, backend=None, mode=None,
                 options=None, name=None):  # fmt: skip
        self.function = function
        self.fullgraph, self.dynamic, self.backend = fullgraph, dynamic, backend
        options = dict(options or {})
        self._filter = options.pop("guard_filter_fn", None)
        self.settings = {k: v for k, v in (("mode", mode), ("options", options)) if v}  # for backends
        self.entries: dict = {}
        self._families: dict = {}  # {kind of call but for sizes: programs that may be for many}
        self.events: list[Event] = []
        self._numbers_vary = False  # hyperparameters of optimizers besides the rate
        self._only_reads = False  # none of its arguments is written to
        self._held: list = []  # arguments that keys name by id
        self._classes: set[type] | frozenset = set()  # of arguments that are opened, see `opened`
        self._opened: Compiled | None = None  # what makes such calls
        self._functions: dict = {}  # {a graph's code and its inputs' dtypes: what the backend made of it}
        Compiled.instances.add(self)
        functools.update_wrapper(self, function, updated=())
        self._torchdynamo_orig_callable = function

    def __repr__(self):
        return f"<compiled {getattr(self.function, '__qualname__', self.function)}>"

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    @property
    def programs(self) -> list[Captured]:
        """The programs so far."""
        return [p for found in self.entries.values() if isinstance(found, list) for p in found]

    @property
    def graph(self):
        """The last program's graph, as a ``fx.GraphModule``.

        Raises:
            RuntimeError: nothing was captured yet.
        """
        from .graphs import graph_module

        if not self.programs:
            raise RuntimeError("no program was captured yet; call the function first")
        return graph_module(self.programs[-1])

    def reset(self):
        """Forgets the programs."""
        self.entries.clear()
        self._families.clear()
        self._functions.clear()
        self.events.clear()
        self._held.clear()
        self._classes, self._opened = set(), None

    # --- calls

    def __call__(self, *args, **kwargs):
        if (
            is_compiling() or modes.levels or modes.function_modes or modes.saved_hooks
            or modes.anomaly or config.disable or stance.name == "force_eager"
        ):  # fmt: skip
            return self.function(*args, **kwargs)
        if not kwargs and all(a.__class__ is Tensor for a in args):
            leaves, spec = args, len(args)
        else:
            leaves, spec = structure.flatten(args, kwargs)
            if self._classes and not self._classes.isdisjoint(map(type, leaves)):
                return self._call_opened(args, kwargs)
        originals = leaves
        for t in originals:
            if isinstance(t, TensorBase) and t._geometry is not t._storage.root:
                leaves = stand_ins(originals)
                break
        key = (spec, tuple(map(argument_key, leaves)), aliases(leaves), modes_key())
        try:
            programs = self.entries.get(key)
        except TypeError:
            return self.function(*args, **kwargs)
        if programs.__class__ is str:
            return self.function(*args, **kwargs)
        reasons = []
        for program in programs or ():
            reason = program.mismatch(leaves)
            if reason is None:
                return program.run(leaves, originals)
            reasons.append(reason)
            self._numbers_vary = self._numbers_vary or reason is NUMBERS
        return self._miss(key, programs, reasons, leaves, originals, args, kwargs)

    def _miss(self, key, programs, reasons, leaves, originals, args, kwargs):
        """A call that no program stands for."""
        if programs is None and self._only_reads and share_parts(leaves):
            # Where in one tensor they lie makes no difference to a function that only reads.
            leaves = [stand_in(t) for t in originals]
            key = (key[0], tuple(map(argument_key, leaves)), aliases(leaves), key[3])
            programs = self.entries.get(key)
            if programs.__class__ is str:
                return self.function(*args, **kwargs)
            for program in programs or ():
                if program.mismatch(leaves) is None:
                    return program.run(leaves, originals)
        if any(map(is_array, leaves)) or other_device(leaves) or has_overrides(leaves):
            return self.function(*args, **kwargs)
        if not self.entries and stance.name in ("fail_on_recompile", "eager_on_recompile"):
            return self._refuse("nothing was compiled yet", args, kwargs)
        if self._held and programs is None and self._opens(leaves):
            return self._call_opened(args, kwargs)
        if self.entries and (programs or not self._is_shared(key)):
            if not reasons:
                names = argument_names(self.function, args, kwargs)
                reasons = [difference(key, self.entries, names)]
            if stance.name in ("fail_on_recompile", "eager_on_recompile"):
                return self._refuse(reasons[-1], args, kwargs)
            logs.recompile(self._name(), reasons)
            if config.error_on_recompile:
                raise exc.RecompileError(
                    f"Recompiling function {self._name()}: {'; '.join(reasons)}"
                )
            if self._count(key) >= config.recompile_limit:
                self._limit_hit(reasons)
                if len(self.entries) < _MOST_KINDS:
                    self.entries.setdefault(key, "the recompilation limit was reached")
                if programs:
                    self.entries[key] = "the recompilation limit was reached"
                return self.function(*args, **kwargs)
        if len(self.entries) >= _MOST_KINDS:
            self.entries.clear()
            self._held.clear()
        if leaves is not originals:
            args, kwargs = pytree.tree_unflatten(leaves, pytree.tree_structure((args, kwargs)))
        return self._capture(key, leaves, originals, args, kwargs)

    def _opens(self, leaves):
        """Whether arguments are objects like others that were given before, and are to be opened."""
        if self._classes is opened.NONE or not self.programs:  # what runs in Python may keep the objects
            return False
        found = opened.classes_of(leaves, self._held, getattr(self.function, "__name__", ""))
        self._classes |= found
        return bool(found)

    def _call_opened(self, args, kwargs):
        if self._opened is None:
            self._opened = Compiled(
                functools.partial(opened.run, self.function), fullgraph=self.fullgraph, dynamic=self.dynamic,
                backend=self.backend, **self.settings,
            )  # fmt: skip
            self._opened._name, self._opened._filter = self._name, self._filter
        results = opened.call(self._opened, self._classes, args, kwargs)
        if any(v.__class__ is str for v in self._opened.entries.values()):
            self._classes = opened.NONE
        return results

    def _refuse(self, reason, args, kwargs):
        """A call that nothing may be compiled for.

        Raises:
            RuntimeError: in the stance "fail_on_recompile".
        """
        if stance.name == "eager_on_recompile":
            return self.function(*args, **kwargs)
        raise RuntimeError(
            "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
            f"function: {self._name()}, reason: {reason}"
        )

    def _count(self, key):
        """How many programs count for the limit: sizes that vary do not."""
        own = self.entries.get(key)
        if self.dynamic is not False and config.automatic_dynamic_shapes:
            kinds = {
                without_sizes(k, numbers=not self._is_shared(k))
                for k, v in self.entries.items() if isinstance(v, list)
            }  # fmt: skip
            return max(len(kinds), len(own) if isinstance(own, list) else 0)
        return len(self.programs)

    def _limit_hit(self, reasons):
        message = (
            f"torch._dynamo hit config.recompile_limit ({config.recompile_limit})\n"
            f"   function: {self._name()}\n"
            f"   last reason: {reasons[-1]}\n"
            'To log all recompilation reasons, use TORCH_LOGS="recompiles".\n'
            "To diagnose recompilation issues, see "
            "https://pytorch.org/docs/main/compile/programming_model.recompilation.html"
        )
        if self.fullgraph or config.fail_on_recompile_limit_hit:
            raise exc.FailOnRecompileLimitHit(
                f"Hard failure due to {'fullgraph=True' if self.fullgraph else 'fail_on_recompile_limit_hit'}"
                f"\n{message}"
            )
        logs.warn_limit(self._name(), message)

    def _name(self):
        """The function and where it is, as PyTorch's messages say it."""
        code = users_code(self.function)[0]
        if code is None:
            return f"'{getattr(self.function, '__qualname__', type(self.function).__name__)}'"
        return f"'{code.co_name}' ({code.co_filename}:{code.co_firstlineno})"

    # --- capturing

    def _capture(self, key, leaves, originals, args, kwargs):
        where = []

        def on_break(reason):
            collector.resume()  # what follows may take long
            where.append(users_line())
            if self.fullgraph or trace.breaks_raise:
                raise exc.Unsupported(f"{describe(reason)}{where[0]}")

        value_checks.run_postponed()  # of what came before
        recorder = self._recorder()
        looks = recorder is not None or self.fullgraph
        trace = LookingTrace(on_break, self.fullgraph, recorder) if looks else CaptureTrace(_device.CPU, on_break)
        drawn = None if recorder is None else default_generator.get_state()
        old = executor.swap_trace(trace)
        _local.depth = getattr(_local, "depth", 0) + 1
        cache, autocast.state.cache = autocast.state.cache, {}
        grad_before = modes.grad
        started = next(tape._sequence)
        captured = reason = None
        collector = PausedCollector()
        trace.on_truth = recorder.note_assertion if recorder else functools.partial(note_assertion, trace)
        watch = trace.watch = Watch(trace)
        try:
            try:
                watch.arguments(args, kwargs)
                watch.function(self.function)
                with watch, recorder or contextlib.nullcontext():
                    outputs = self.function(*args, **kwargs)
            except BaseException:
                trace.on_break = None
                trace.end("an exception was raised")
                self._flush_quietly(trace)
                raise
            if trace.captures and recorder is not None:
                captured = self._recorded(recorder, trace, watch, leaves, outputs, started, grad_before, (args, kwargs))
            if captured is not None:
                trace.on_break, trace.captures = None, False
            elif trace.captures and getattr(trace, "looked", False):
                trace.on_break, trace.captures, reason = None, False, VALUE
            elif trace.captures:
                captured, reason = self._finish(
                    key, trace, watch, leaves, outputs, started, grad_before
                )
                if captured is not None and leaves is not originals:
                    outputs = captured.give_back(leaves, originals, outputs)
            else:
                reason = trace.broken
        finally:
            collector.resume()
            autocast.state.cache = cache
            _local.depth -= 1
            executor.restore_trace(old)
        if isinstance(captured, GraphProgram):
            captured.take_back()
            default_generator.set_state(drawn)
            self._attach(captured, originals)
            self._keep(key, leaves, captured, None, "")
            return captured.run(leaves, originals)
        trace.flush() if trace.steps else None
        if trace.only_once is None or captured is None:
            self._keep(key, leaves, captured, reason, where[0] if where else "")
        if captured is None and leaves is not originals:
            outputs = returned(leaves, originals, outputs)
        return outputs

    def _backend(self):
        from .backends import find

        return self.backend if stance.backend is None else find(stance.backend)

    def _recorder(self):
        """What notes the public calls of a capture, for backends that want a graph of them."""
        backend = self._backend()
        if backend is None or getattr(backend, "takes_aten", False):
            return None
        return Recorder(keeps_numbers=True, strict=self.fullgraph)

    def _recorded(self, recorder, trace, watch, leaves, outputs, started, grad, arguments):
        """A captured call as a graph of public calls, or None if there is no such graph."""
        try:
            if modes.grad is not grad:
                raise Unsupported("the function changed the grad mode")
            names = InputNames(self.function, *arguments, watch)
            return GraphProgram(recorder, trace, watch, leaves, outputs, started, names, grad)
        except Unsupported:
            trace.forget()
            return None

    def _attach(self, program, leaves):
        """Lets the backend make a function of a graph; one that is known to take any sizes is used again."""
        if not program.calls:
            program.function = program.module.forward
            return
        code = program.module.code
        dtypes = tuple(t.dtype for t in (s.get(leaves) for s in program.takes))
        known = self._functions.setdefault((code, dtypes), [])
        soon = bool(self.dynamic) or any(getattr(t, "_dynamo_dynamic_indices", None) for t in leaves)
        if self.dynamic is not False and len(known) > (not soon) and (
            isinstance(getattr(known[-1], "__self__", known[-1]), GraphModule)
        ):  # fmt: skip
            program.function = known[-1]
            return
        program.attach(self._backend(), self.settings, leaves)
        known.append(program.function)

    @staticmethod
    def _flush_quietly(trace):
        try:
            trace.flush()
        except Exception:  # the user's own error is the one to raise
            pass

    def _finish(self, key, trace, watch, leaves, outputs, started, grad_before):
        """(the program, None) of a captured call, which is made; or (None, why there is none)."""
        lengths = _lengths(trace)

        def on_break(reason):
            raise Unsupported(f"{reason} in the backward pass")

        trace.on_break = on_break
        if not trace.steps:
            trace.on_break = None
            if not trace.actions and not trace.grads:
                return self._of_nothing(trace, watch, leaves, outputs, started)
        try:
            if modes.grad is not grad_before:
                raise Unsupported("the function changed the grad mode")
            captured = Captured(trace, watch, leaves, outputs, started, self._numbers_vary)
        except Unsupported as error:
            _truncate(trace, lengths)
            trace.on_break = None
            trace.captures = False
            trace.flush()
            return None, str(error)
        trace.on_break = None
        backend = self._backend()
        if backend is not None:
            from .backends import attach

            with executor.outside_capture():
                attach(captured, backend, self.settings)
        else:
            self._share(captured, key, leaves)
        reason = captured.finish(leaves)
        return (captured, None) if reason is None else (None, reason)

    def _share(self, captured, key, leaves):
        """Lets a program be one for many sizes, see `ftorch._dynamo.sharing`."""
        if self.dynamic is False or not (self.dynamic or config.automatic_dynamic_shapes):
            return
        soon = bool(self.dynamic) or not config.assume_static_by_default or any(
            getattr(t, "_dynamo_dynamic_indices", None) for t in leaves
        )
        kind = without_sizes(key, numbers=False)
        forward, backward = self._families.setdefault(kind, (Family(soon), Family(soon)))
        captured.forward.family = forward
        if captured.backward is not None:
            captured.backward.family = backward

    def _is_shared(self, key):
        """Whether there is a program for calls like this one but for sizes and numbers."""
        families = self._families.get(without_sizes(key, numbers=False))
        return families is not None and bool(families[0].templates)

    def _of_nothing(self, trace, watch, leaves, outputs, started):
        try:
            captured = Captured(trace, watch, leaves, outputs, started, self._numbers_vary)
            if captured.results.differentiable:
                return None, "nothing was computed"
            reason = captured.finish(leaves)
        except Unsupported as error:
            trace.captures = False
            return None, str(error)
        return (captured, None) if reason is None else (None, reason)

    def _keep(self, key, leaves, captured, reason, where):
        self.events.append(Event(captured, reason, where))
        counters["frames"]["total"] += 1
        if captured is None:
            counters["graph_break"][describe(reason or "").splitlines()[0]] += 1
        else:
            counters["frames"]["ok"] += 1
            counters["stats"]["unique_graphs"] += 1
            counters["stats"]["calls_captured"] += captured.calls
        if any(not isinstance(leaf, (TensorBase, *SCALARS)) for leaf in leaves):
            self._held.append(leaves)
        if captured is None:
            logs.graph_break(self._name(), reason, where)
            if self.fullgraph and reason is not None and reason != VALUE and not _is_python_only(reason):
                raise exc.Unsupported(f"{describe(reason)}{where}")
            if not isinstance(self.entries.get(key), list):
                self.entries[key] = reason
            return
        logs.graph(captured)
        if self._filter is not None:
            captured.guards.keep(self._filter)
        self._only_reads = not any(s and s.kind == "argument" for _, s, _ in captured.written)
        programs = self.entries.get(key)
        if isinstance(programs, list):
            programs.insert(0, captured)
        else:
            self.entries[key] = [captured]


def _is_python_only(reason):
    """Whether it is only the effect on Python objects that keeps a call from being a program."""
    return "changed by each call" in reason or "kept outside" in reason or "iterator" in reason


def _lengths(trace):
    return (len(trace.code), len(trace.owners), len(trace.inputs), len(trace.cells),
            len(trace.ints), len(trace.floats), trace.steps)  # fmt: skip


def _truncate(trace, lengths):
    code, owners, inputs, cells, ints, floats, steps = lengths
    del trace.code[code:], trace.owners[owners:], trace.inputs[inputs:], trace.cells[cells:]
    del trace.ints[ints:], trace.floats[floats:]
    trace.steps = steps
    trace.input_of = {k: v for k, v in trace.input_of.items() if -1 - v < inputs}
