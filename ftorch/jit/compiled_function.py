"""``Compiled``: a function whose calls are captured programs, and when they are not.

The first call with a kind of arguments is captured: the function runs, its operations are recorded
and not run, and the trace that they leave becomes a program, which then makes that call and later ones
that pass its guards. A function that looks at a value, or does something that a program cannot repeat,
runs in Python, where the deferred executor fuses its operations between the looks.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
import weakref

from .._dynamo import config, exc
from .._dynamo.utils import counters
from ..eager.autograd import nodes
from ..eager.core import device as _device
from ..eager.dynamic_shapes.families import Family
from ..eager.runtime import capture_trace, value_checks
from ..eager.runtime.capture_trace import CaptureTrace
from ..eager.sampling.generator import default_generator
from ..eager.tensor import Tensor, TensorBase, modes
from ..fx import Proxy
from ..fx._sources import argument_names, users_code
from .capture import argument_structure, data_objects
from .capture.break_reasons import VALUE, describe, failed_call
from .capture.call_signature import (
    aliases,
    argument_key,
    difference,
    is_eager,
    modes_key,
    placed,
    requirements,
    without_sizes,
)
from .capture.captured_call import NUMBERS, CapturedCall, Unsupported
from .capture.program import Captured
from .capture.python_state import SCALARS
from .capture.signal_handlers import HandlersOutside
from .capture.state_watch import Watch
from .capture.static_attributes import attribute
from .capture.user_code import users_line
from .capture.value_reads import LookingTrace, note_assertion
from .compiling import (
    Capturing,
    Event,
    local,
    stance,
)
from .graphs import logs
from .graphs.call_recorder import Break, Recorder
from .graphs.call_sites import CallSites
from .graphs.graph_program import GraphProgram, InputNames, call_backend, places_in_graph
from .graphs.subgraphs import graphs_of
from .graphs.varying_numbers import Sample, Varying, varied

_MOST_KINDS = 256  # of arguments, for one function
_MOST_SHOWN_GRAPHS = 16  # graphs between breaks, after which calls are not looked at any more
_BACKENDS = f"{__name__.partition('.')[0]}._dynamo.backends"
_MOST_BROKEN = 3  # sizes of one kind of call that gave no program; those after them are not captured


class Compiled:
    """A compiled function: see `ftorch.compile`.

    Attributes:
        function: what it was made of.
        entries: {kind of call: programs, or why such calls run in Python}.
        events: what the captures came to.
    """

    instances: weakref.WeakSet[Compiled] = weakref.WeakSet()

    def __init__(self, function, *, fullgraph=False, dynamic=None, backend=None, mode=None,
                 options=None, name=None):
        self.function = function
        self.fullgraph, self.dynamic, self.backend = fullgraph, dynamic, backend
        options = dict(options or {})
        self._filter = options.pop("guard_filter_fn", None)
        self.settings = {k: v for k, v in (("mode", mode), ("options", options)) if v}  # for backends
        self.entries: dict = {}
        self._families: dict = {}  # {kind of call but for sizes: programs that may be for many}
        self._broken: dict = {}  # {kind of call but for sizes: how often a capture of it gave no program}
        self.events: list[Event] = []
        self._numbers_vary = False  # hyperparameters of optimizers besides the rate
        self._are_placed = False  # some programs are for arguments at certain places
        self._held: list = []  # arguments that keys name by id
        self._classes: set[type] | frozenset = set()  # of arguments that are opened, see `data_objects`
        self._of_contents: Compiled | None = None  # what makes such calls
        self._shown_graphs: set = set()  # graphs between breaks that the backend was given
        self._functions: dict = {}  # {a graph but for its numbers: [(function, `Varying`, `Sample`, its inputs)]}
        self._seen_numbers: dict = {}  # {place of a number: the values it has had}
        self._numbers_count = True  # whether other numbers are another kind of call: none is a graph's input
        Compiled.instances.add(self)
        functools.update_wrapper(self, function, updated=())
        self._torchdynamo_orig_callable = function

    def __repr__(self):
        return f"<compiled {getattr(self.function, '__qualname__', self.function)}>"

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    @property
    def programs(self) -> list[CapturedCall]:
        """The programs so far."""
        return [p for found in self.entries.values() if isinstance(found, list) for p in found]

    @property
    def graph(self):
        """The last program's graph, as a ``fx.GraphModule``.

        Raises:
            RuntimeError: nothing was captured yet.
        """
        from .graphs.graph_modules import graph_module

        if not self.programs:
            raise RuntimeError("no program was captured yet; call the function first")
        return graph_module(self.programs[-1])

    def reset(self):
        """Forgets the programs."""
        self.entries.clear()
        self._families.clear()
        self._broken.clear()
        self._functions.clear()
        self._shown_graphs.clear()
        self.events.clear()
        self._held.clear()
        self._classes, self._of_contents = set(), None

    # --- calls

    def __call__(self, *args, **kwargs):
        if (
            local.depth or modes.levels or modes.function_modes or modes.saved_hooks
            or modes.anomaly or config.disable or stance.name == "force_eager"
        ):
            if any(hasattr(mode, "_ftorch_traces") for mode in modes.function_modes):
                raise RuntimeError(
                    "Detected that you are using FX to torch.jit.trace a dynamo-optimized function. This is not supported at "
                    "the moment."
                )
            return self.function(*args, **kwargs)
        if not kwargs and all(type(a) is Tensor for a in args):
            leaves, spec = args, len(args)
        else:
            leaves, spec = argument_structure.flatten(args, kwargs)
            if self._classes and not self._classes.isdisjoint(map(type, leaves)):
                return self._call_on_contents(args, kwargs)
        key = (spec, tuple(map(argument_key, leaves)), aliases(leaves), modes_key())
        try:
            programs = self.entries.get(key)
        except TypeError:
            return self.function(*args, **kwargs)
        if programs.__class__ is str:
            return self._in_python(args, kwargs)
        reasons = []
        if self._are_placed:
            programs = [*(programs or ()), *self.entries.get(placed(key, leaves), ())] or programs
        for program in programs or ():
            reason = program.mismatch(leaves)
            if reason is None:
                return program.run(leaves)
            reasons.append(reason)
            self._numbers_vary = self._numbers_vary or reason is NUMBERS
        return self._miss(key, programs, reasons, leaves, args, kwargs)

    def _miss(self, key, programs, reasons, leaves, args, kwargs):
        """A call that no program stands for."""
        if any(issubclass(type(leaf), Proxy) for leaf in leaves):
            if config.error_on_nested_fx_trace:
                raise RuntimeError(
                    "Detected that you are using FX to symbolically trace a dynamo-optimized function. "
                    "This is not supported at the moment."
                )
            return self.function(*args, **kwargs)
        if is_eager(leaves):
            return self.function(*args, **kwargs)
        if not self.entries and stance.name in ("fail_on_recompile", "eager_on_recompile"):
            return self._refuse("nothing was compiled yet", args, kwargs)
        if self._held and programs is None and self._opens(leaves):
            return self._call_on_contents(args, kwargs)
        if not programs and not self.fullgraph and not config.error_on_recompile and (
            self._broken and self._broken.get(without_sizes(key), 0) >= _MOST_BROKEN and stance.name == "default"
        ):  # nothing is compiled: why the sizes are others is not looked for
            if len(self.entries) < _MOST_KINDS:
                self.entries[key] = "calls of other sizes are not captured either"
            return self.function(*args, **kwargs)
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
        return self._capture(key, leaves, args, kwargs)

    def _opens(self, leaves):
        """Whether arguments are objects like others that were given before, and are to be opened."""
        if self._classes is data_objects.NONE or not self.programs:  # what runs in Python may keep the objects
            return False
        found = data_objects.classes_of(leaves, self._held, getattr(self.function, "__name__", ""))
        self._classes |= found
        return bool(found)

    def _call_on_contents(self, args, kwargs):
        if self._of_contents is None:
            self._of_contents = Compiled(
                functools.partial(data_objects.run, self.function), fullgraph=self.fullgraph, dynamic=self.dynamic,
                backend=self.backend, **self.settings,
            )
            self._of_contents._name, self._of_contents._filter = self._name, self._filter
        results = data_objects.call(self._of_contents, self._classes, args, kwargs)
        if any(v.__class__ is str for v in self._of_contents.entries.values()):
            self._classes = data_objects.NONE
        return results

    def _refuse(self, reason, args, kwargs):
        """A call that nothing may be compiled for.

        Raises:
            RuntimeError: in the stance "fail_on_recompile".
        """
        if stance.name == "eager_on_recompile":
            return self.function(*args, **kwargs)
        code = users_code(self.function)[0]
        where = f"function: {self._name()}" if code is None else (
            f"filename: '{code.co_filename}', function name: '{code.co_name}', line number: {code.co_firstlineno}"
        )
        raise RuntimeError(
            "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
            f"{where}\n    triggered by the following guard failure(s):\n    - 0/0: {reason}"
        )

    def _count(self, key):
        """How many programs count for the limit: sizes that vary do not."""
        own = self.entries.get(key)
        if self.dynamic is not False and config.automatic_dynamic_shapes:
            kinds = {
                without_sizes(k, numbers=self._numbers_count and not self._is_shared(k))
                for k, v in self.entries.items() if isinstance(v, list)
            }
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

    def _capture(self, key, leaves, args, kwargs):
        where = []

        def on_break(reason):
            capturing.resume()  # what follows may take long
            where.append(users_line())
            if (self.fullgraph or trace.breaks_raise) and reason is not trace.only_once:
                raise exc.Unsupported(f"{describe(reason)}{where[0]}")

        value_checks.run_postponed()  # of what came before
        recorder = self._recorder(sys._getframe())
        looks = recorder is not None or self.fullgraph
        trace = LookingTrace(on_break, self.fullgraph, recorder) if looks else CaptureTrace(_device.CPU, on_break)
        drawn = None if recorder is None else default_generator.get_state()
        places = None if recorder is None else places_in_graph(leaves)
        grad_before = modes.grad
        started, flags = next(nodes._sequence), requirements(leaves)
        captured = reason = None
        trace.on_truth = recorder.note_assertion if recorder else functools.partial(note_assertion, trace)
        watch = trace.watch = Watch(trace)
        capturing = Capturing(trace)
        handlers = HandlersOutside(trace, recorder is not None, capturing.resume)
        with handlers, capture_trace.swapped(trace), capturing:
            try:
                watch.arguments(args, kwargs)
                watch.function(self.function)
                with watch, recorder or contextlib.nullcontext():
                    outputs = self.function(*args, **kwargs)
            except BaseException as error:
                trace.on_break = None
                trace.end("an exception was raised")
                self._flush_quietly(trace)
                if recorder is not None and recorder.raised is not None and recorder.raised[0] is error and (
                    isinstance(error, RuntimeError) and not isinstance(error, exc.TorchDynamoException)
                ):
                    where_ = users_line(error.__traceback__)
                    raise exc.TorchRuntimeError(f"{failed_call(*recorder.raised)}{where_}") from None
                raise
            handlers.wait()
            if trace.captures and recorder is not None:
                captured = self._recorded(recorder, trace, watch, leaves, outputs, started, grad_before, (args, kwargs))
            if captured is not None:
                trace.on_break, trace.captures = None, False
            elif trace.captures and getattr(trace, "looked", False):
                trace.on_break, trace.captures, reason = None, False, VALUE
            elif trace.captures and requirements(leaves) != flags:
                trace.on_break, trace.captures, reason = None, False, "it changed whether an argument requires grad"
            elif trace.captures:
                captured, reason = self._finish(
                    key, trace, watch, leaves, outputs, started, grad_before
                )
            else:
                reason = trace.broken
        if isinstance(captured, GraphProgram):
            captured.take_back(places)
            places.clear()  # frames of the capture refer to them in circles
            trace.let_go()
            default_generator.set_state(drawn)
            self._attach(captured, leaves)
            self._keep(key, leaves, captured, None, "")
            return captured.run(leaves)
        trace.flush() if trace.steps else None
        if trace.only_once is None or (captured is None and trace.broken is not trace.only_once):
            self._keep(key, leaves, captured, reason, where[0] if where else "")
        if captured is None and recorder is not None and not self.fullgraph:
            counters["frames"]["total"] -= 1  # its pieces count
            self._show_graphs(recorder.events, outputs, grad_before, recorder.sites.stores if recorder.sites else ())
        return outputs

    def _backend(self):
        from .._dynamo.backends import find

        return self.backend if stance.backend is None else find(stance.backend)

    def _recorder(self, root):
        """What notes the public calls of a capture, for backends that want a graph of them."""
        backend = self._backend()
        if backend is None:
            return None
        return Recorder(root, keeps_numbers=True, strict=self.fullgraph, sites=CallSites(sys._getframe(1)))

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

    def _in_python(self, args, kwargs):
        """A call with breaks: another way through the function may have other graphs for the user's backend."""
        own = getattr(self.backend, "__module__", None) or type(self.backend).__module__
        if not self._shown_graphs or len(self._shown_graphs) >= _MOST_SHOWN_GRAPHS or own == _BACKENDS:
            return self.function(*args, **kwargs)
        from .graphs.explain import record

        grad = modes.grad
        events, outputs, _, stores = record(self.function, args, kwargs)
        self._show_graphs(events, outputs, grad, stores)
        return outputs

    def _show_graphs(self, events, outputs, grad, stores=()):
        """Lets the backend compile the graphs between breaks; such a call itself runs in Python."""
        events = [e for e in events if not isinstance(e, Break) or e.frames]
        pieces, graphs = graphs_of(events, outputs, grad, stores)
        for piece, (module, inputs) in zip(pieces, graphs):
            kind = piece.start, module.code, tuple((t.dtype, t.shape) for t in inputs if isinstance(t, TensorBase))
            if kind not in self._shown_graphs:
                self._shown_graphs.add(kind)
                call_backend(self._backend(), module, inputs, self.settings)
                counters["frames"].update(total=1, ok=1)
                counters["stats"]["calls_captured"] += sum("call" in n.op for n in module.graph.nodes)
                counters["stats"]["unique_graphs"] += 1

    def _attach(self, program, leaves):
        """Lets the backend make a function of a graph; one that is known to take any sizes is used again."""
        if not program.calls:
            program.function = program.module.forward
            return
        sample = Sample(program.module, program.takes, leaves)
        known = self._functions.setdefault(sample.key, [])
        varying = None
        if self.dynamic is not False and (self.dynamic or config.automatic_dynamic_shapes):
            for function, other, _, order in known:
                if other is not None and other.fits(sample):
                    program.function, program.order = function, order
                    return
            places = varied(sample, self._seen_numbers, leaves, program.takes, everything=bool(self.dynamic))
            if places:
                varying = Varying(sample, places, [k[2] for k in known])
                self._numbers_count = self._numbers_count and not any(p[0] == "leaf" for p in places)
        try:
            program.attach(self._backend(), self.settings, leaves, varying)
        except exc.BackendCompilerFailed as error:
            if not config.suppress_errors:
                raise
            logs.logger.warning("%s runs as it is: %s", self._name(), error)
            program.function = program.module.forward
            return
        known.append((program.function, varying, sample, program.order))

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
            from .._dynamo.backends import attach

            with capture_trace.outside_capture():
                attach(captured, backend, self.settings)
        else:
            self._share(captured, key, leaves)
        reason = captured.finish(leaves)
        return (captured, None) if reason is None else (None, reason)

    def _share(self, captured, key, leaves):
        """Lets a program be one for many sizes, see `ftorch.eager.dynamic_shapes.families`."""
        if self.dynamic is False or not (self.dynamic or config.automatic_dynamic_shapes):
            return
        soon = bool(self.dynamic) or not config.assume_static_by_default or any(
            attribute(t, "_dynamo_dynamic_indices") for t in leaves
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
            counters["stats"]["calls_captured"] += captured.calls
            counters["stats"]["unique_graphs"] += 1
        if any(not issubclass(type(leaf), (TensorBase, *SCALARS)) for leaf in leaves):
            self._held.append([leaf for leaf in leaves if not issubclass(type(leaf), (TensorBase, *SCALARS))])
        if captured is None:
            logs.graph_break(self._name(), reason, where)
            if self.fullgraph and reason is not None and reason != VALUE and not _is_python_only(reason):
                raise exc.Unsupported(f"{describe(reason)}{where}")
            if not isinstance(self.entries.get(key), list):
                self.entries[key] = reason
            kind = without_sizes(key)
            self._broken[kind] = self._broken.get(kind, 0) + 1
            return
        captured.let_go()
        self._broken.pop(without_sizes(key), None)
        logs.graph(captured)
        if self._filter is not None:
            captured.guards.keep(self._filter)
        if captured.placed:
            self._are_placed, key = True, placed(key, leaves)
        programs = self.entries.get(key)
        if isinstance(programs, list):
            programs.insert(0, captured)
        else:
            self.entries[key] = [captured]


def _is_python_only(reason):
    """Whether it is only the effect on Python objects that keeps a call from being a program."""
    return any(said in reason for said in ("changed by each call", "made by each call", "kept outside", "iterator"))


def _lengths(trace):
    return (len(trace.code), len(trace.owners), len(trace.inputs), len(trace.cells),
            len(trace.ints), len(trace.floats), trace.steps)


def _truncate(trace, lengths):
    code, owners, inputs, cells, ints, floats, steps = lengths
    del trace.code[code:], trace.owners[owners:], trace.inputs[inputs:], trace.cells[cells:]
    del trace.ints[ints:], trace.floats[floats:]
    trace.steps = steps
    trace.input_of = {k: v for k, v in trace.input_of.items() if -1 - v < inputs}
