"""``Compiled``: a function whose calls are captured programs, and when they are not.

The first call with a kind of arguments is captured: the function runs, its operations are recorded
and not run, and the trace that they leave becomes a program, which then makes that call and later ones
that pass its guards. A function that looks at a value, or does something that a program cannot repeat,
runs in Python, where the deferred executor fuses its operations between the looks.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import threading
import types
import weakref

from ..autograd.grad_mode import no_grad
from ..eager import autocast, executor, tape, value_checks
from ..eager import device as _device
from ..eager import dtype as _dtype
from ..eager.executor import CaptureTrace
from ..eager.op import read
from ..eager.references import PausedCollector
from ..eager.tensor import Tensor, TensorBase, modes, wrap
from ..utils import _pytree as pytree
from . import config, exc, logs, structure
from .capture import NUMBERS, Captured, Unsupported
from .sharing import Family
from .state import SCALARS
from .watch import Watch, users_line

_local = threading.local()
_MOST_KINDS = 256  # of arguments, for one function


class Stance:
    """How compiled functions behave now (``torch.compiler.set_stance``)."""

    name = "default"


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


def _argument_key(leaf):
    if isinstance(leaf, TensorBase):
        g = leaf._geometry
        root = None if g is leaf._storage.root else (leaf._offset, leaf._storage.root)
        return g, root, leaf._requires_grad, type(leaf), leaf._grad_fn is None
    if isinstance(leaf, SCALARS):
        return (type(leaf), leaf) if leaf == leaf else (type(leaf), "nan")
    if isinstance(leaf, _VALUES):
        return leaf
    return id(leaf)


_VALUES = (_dtype.dtype, _device.device)


def _stand_in(t):
    """A tensor of its own memory for a part of another's: programs do not depend on where it lies."""
    if not isinstance(t, TensorBase) or t._geometry is t._storage.root or type(t) is not Tensor or (
        t._geometry.device is not _device.CPU
    ):
        return t
    edge = None
    if t._requires_grad:
        if t._grad_fn is None:
            return t
        edge = tape.edge_of(t)
    new = wrap(read(t))
    if edge is not None:
        new._requires_grad, (new._grad_fn, new._output_nr) = True, edge
    return new


def _stand_ins(leaves):
    """Arguments with stand-ins for parts of tensors, unless two are parts of one."""
    count = collections.Counter(id(t._storage) for t in leaves if isinstance(t, TensorBase))
    return [
        _stand_in(t) if isinstance(t, TensorBase) and count[id(t._storage)] == 1 else t
        for t in leaves
    ]


def _share_parts(leaves):
    return any(
        isinstance(t, TensorBase) and t._geometry is not t._storage.root
        and any(s is not t and isinstance(s, TensorBase) and s._storage is t._storage for s in leaves)
        for t in leaves
    )  # fmt: skip


def _is_array(leaf):
    return type(leaf).__module__ == "numpy"


def _aliases(leaves):
    """Which tensor arguments share storage with which."""
    if len(leaves) < 2:
        return ()
    first: dict[int, int] = {}
    return tuple(
        first.setdefault(id(t._storage), i) for i, t in enumerate(leaves) if isinstance(t, TensorBase)
    )


def _modes_key():
    on = modes.autocast
    return (
        modes.grad, modes.inference, _device.get_default_device(), _dtype.get_default_dtype(),
        on and (on, tuple(autocast.state.dtypes.items()), autocast.state.cache_enabled),
    )  # fmt: skip


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
        self.mode, self.options = mode, options or None
        self.entries: dict = {}
        self._families: dict = {}  # {kind of call but for sizes: programs that may be for many}
        self.events: list[Event] = []
        self._numbers_vary = False  # hyperparameters of optimizers besides the rate
        self._only_reads = False  # none of its arguments is written to
        self._held: list = []  # arguments that keys name by id
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
        self.events.clear()
        self._held.clear()

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
        originals = leaves
        for t in originals:
            if isinstance(t, TensorBase) and t._geometry is not t._storage.root:
                leaves = _stand_ins(originals)
                break
        key = (spec, tuple(map(_argument_key, leaves)), _aliases(leaves), _modes_key())
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
        if programs is None and self._only_reads and _share_parts(leaves):
            # Where in one tensor they lie makes no difference to a function that only reads.
            leaves = [_stand_in(t) for t in originals]
            key = (key[0], tuple(map(_argument_key, leaves)), _aliases(leaves), key[3])
            programs = self.entries.get(key)
            if programs.__class__ is str:
                return self.function(*args, **kwargs)
            for program in programs or ():
                if program.mismatch(leaves) is None:
                    return program.run(leaves, originals)
        if any(map(_is_array, leaves)) or _other_device(leaves) or _has_overrides(leaves):
            return self.function(*args, **kwargs)
        if self.entries and (programs or not self._is_shared(key)):
            if not reasons:
                reasons = [_difference(key, self.entries)]
            if stance.name == "fail_on_recompile":
                raise RuntimeError(
                    "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
                    f"function: {self._name()}, reason: {reasons[-1]}"
                )
            if stance.name == "eager_on_recompile":
                return self.function(*args, **kwargs)
            logs.recompile(self._name(), reasons)
            if config.error_on_recompile:
                raise exc.RecompileError(
                    f"Recompiling function {self._name()}: {'; '.join(reasons)}"
                )
            if self._count(key) >= config.limit():
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

    def _count(self, key):
        """How many programs count for the limit: sizes that vary do not."""
        own = self.entries.get(key)
        if self.dynamic is not False and config.automatic_dynamic_shapes:
            kinds = {
                _without_sizes(k, numbers=not self._is_shared(k))
                for k, v in self.entries.items() if isinstance(v, list)
            }  # fmt: skip
            return max(len(kinds), len(own) if isinstance(own, list) else 0)
        return len(self.programs)

    def _limit_hit(self, reasons):
        message = (
            f"torch._dynamo hit config.recompile_limit ({config.limit()})\n"
            f"   function: {self._name()}\n"
            f"   last reason: {reasons[-1]}\n"
            'To log all recompilation reasons, use TORCH_LOGS="recompiles".\n'
            "To diagnose recompilation issues, see "
            "https://pytorch.org/docs/main/compile/programming_model.recompilation.html"
        )
        if self.fullgraph or config.fail_on_recompile_limit_hit:
            raise exc.FailOnRecompileLimitHit(
                f"{message}\nrecompile_limit reached with fullgraph=True. Excessive recompilations can "
                "degrade performance due to the compilation overhead of each recompilation."
            )
        logs.warn_limit(self._name(), message)

    def _name(self):
        code = getattr(self.function, "__code__", None) or getattr(
            getattr(self.function, "__func__", None), "__code__", None
        )
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        if code is None:
            return f"'{name}'"
        return f"'{name}' ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"

    # --- capturing

    def _capture(self, key, leaves, originals, args, kwargs):
        where = []

        def on_break(reason):
            collector.resume()  # what follows may take long
            where.append(users_line())
            if self.fullgraph:
                raise exc.Unsupported(f"{_explained(reason)}{where[0]}")

        value_checks.run_postponed()  # of what came before
        trace = CaptureTrace(_device.CPU, on_break)
        old = executor.swap_trace(trace)
        _local.depth = getattr(_local, "depth", 0) + 1
        cache, autocast.state.cache = autocast.state.cache, {}
        grad_before = modes.grad
        started = next(tape._sequence)
        captured = reason = None
        collector = PausedCollector()
        watch = trace.watch = Watch(trace)
        try:
            try:
                watch.arguments(args, kwargs)
                watch.function(self.function)
                with watch:
                    outputs = self.function(*args, **kwargs)
            except BaseException:
                trace.on_break = None
                trace.end("an exception was raised")
                self._flush_quietly(trace)
                raise
            if trace.captures:
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
        trace.flush() if trace.steps else None
        if trace.only_once is None or captured is None:
            self._keep(key, leaves, captured, reason, where[0] if where else "")
        if captured is None and leaves is not originals:
            outputs = _returned(leaves, originals, outputs)
        return outputs

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
        if self.backend is not None:
            from .backends import attach

            with executor.outside_capture():
                attach(captured, self.backend, self.options)
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
        kind = _without_sizes(key, numbers=False)
        forward, backward = self._families.setdefault(kind, (Family(soon), Family(soon)))
        captured.forward.family = forward
        if captured.backward is not None:
            captured.backward.family = backward

    def _is_shared(self, key):
        """Whether there is a program for calls like this one but for sizes and numbers."""
        families = self._families.get(_without_sizes(key, numbers=False))
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
        if any(not isinstance(leaf, (TensorBase, *SCALARS)) for leaf in leaves):
            self._held.append(leaves)
        if captured is None:
            logs.graph_break(self._name(), reason, where)
            if self.fullgraph and reason is not None and not _is_python_only(reason):
                raise exc.Unsupported(f"{_explained(reason)}{where}")
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


def _returned(leaves, originals, outputs):
    """What a call that ran in Python did to stand-ins, done to the arguments."""
    written = [
        (new, old) for new, old in zip(leaves, originals)
        if new is not old and new._storage.version
    ]  # fmt: skip
    with no_grad():
        for new, old in written:
            old.copy_(new.detach())
    back = {id(new): old for new, old in zip(leaves, originals) if new is not old}
    return pytree.tree_map(lambda t: back.get(id(t), t), outputs)


def _is_python_only(reason):
    """Whether it is only the effect on Python objects that keeps a call from being a program."""
    return "changed by each call" in reason or "kept outside" in reason or "iterator" in reason


def _explained(reason):
    if reason == "a value was needed":
        return (
            "Data-dependent branching or conversion\n  Explanation: the function looks at the value of a "
            "tensor (such as by `.item()`, `if tensor:` or printing).\n  Hint: use torch.where or "
            "torch.cond, or move it out of the compiled function, or drop `fullgraph=True`."
        )
    return (
        f"Graph break: {reason}\n  Hint: move it out of the compiled function, or drop "
        "`fullgraph=True`."
    )


def _lengths(trace):
    return (len(trace.code), len(trace.owners), len(trace.inputs), len(trace.cells),
            len(trace.ints), len(trace.floats), trace.steps)  # fmt: skip


def _truncate(trace, lengths):
    code, owners, inputs, cells, ints, floats, steps = lengths
    del trace.code[code:], trace.owners[owners:], trace.inputs[inputs:], trace.cells[cells:]
    del trace.ints[ints:], trace.floats[floats:]
    trace.steps = steps
    trace.input_of = {k: v for k, v in trace.input_of.items() if -1 - v < inputs}


def _other_device(leaves):
    return any(isinstance(t, TensorBase) and t._geometry.device is not _device.CPU for t in leaves)


def _has_overrides(leaves):
    from ..nn import Buffer, Parameter

    plain = (Tensor, Parameter, Buffer)
    return any(isinstance(t, TensorBase) and type(t) not in plain for t in leaves)


def _without_sizes(key, numbers=True):
    """A kind of call with any sizes, and if not ``numbers`` with any numbers."""
    spec, leaves, aliases, mode = key
    kinds = []
    for k in leaves:
        if isinstance(k, tuple) and len(k) == 5:
            k = k[0].dtype, len(k[0].shape), k[2:]
        elif not numbers and isinstance(k, tuple) and k[0] in (int, float):
            k = k[0]
        kinds.append(k)
    return spec, tuple(kinds), aliases, mode


def _likeness(a, b):
    same = sum(x == y for x, y in zip(a[1], b[1]))
    return a[0] == b[0], same, a[3] == b[3]


def _difference(key, entries):
    """Why a call is of another kind than the most similar one before."""
    other = max(reversed(entries), key=lambda k: _likeness(k, key))
    if key[0] != other[0]:
        return "the arguments have another structure"
    for i, (a, b) in enumerate(zip(key[1], other[1])):
        if a == b:
            continue
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b) == 5:
            g, h = a[0], b[0]
            if g.dtype is not h.dtype:
                return f"tensor 'L[{i}]' dtype mismatch. expected {h.dtype}, actual {g.dtype}"
            if len(g.shape) != len(h.shape):
                return f"tensor 'L[{i}]' rank mismatch. expected {len(h.shape)}, actual {len(g.shape)}"
            for d, (m, n) in enumerate(zip(g.shape, h.shape)):
                if m != n:
                    return f"tensor 'L[{i}]' size mismatch at index {d}. expected {n}, actual {m}"
            if a[2] != b[2]:
                return f"tensor 'L[{i}]' requires_grad mismatch. expected requires_grad={int(b[2])}"
            return f"tensor 'L[{i}]' has another layout"
        a, b = (k[1] if isinstance(k, tuple) and len(k) == 2 else k for k in (a, b))
        return f"L[{i}] is {a!r}, not {b!r}"
    if key[3] != other[3]:
        return "GLOBAL_STATE changed: grad_mode, autocast, or the default dtype or device"
    return "the arguments share memory in another way"
