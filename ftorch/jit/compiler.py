"""``compile``: a function's operations, captured once and run as one XLA program.

The first call with a kind of arguments runs eagerly (optimizers make their state, lazy modules their
parameters). The second is captured: the function runs in deferred execution, and the trace it
records becomes the program. Its inputs are the arguments' storages and everything else that was read
(parameters, buffers, optimizer state); its outputs are the results and everything that was written.
Later calls check the guards and run the program, donating the memory of what it overwrites.

Where the function looks at a value, or gives results that the caller will differentiate, calls stay
eager: the deferred executor runs them correctly, as fused programs between the looks.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from typing import Any

import numpy as np

from ..eager import device as _device
from ..eager import executor, op
from ..eager.executor import CaptureTrace
from ..eager.tensor import TensorBase, modes, wrap, wrap_view
from ..utils import _pytree as pytree

_STATIC = (int, float, bool, str, bytes, complex, type(None))
_local = {"compiling": 0}


def is_compiling() -> bool:
    """Whether a function is being captured now."""
    return _local["compiling"] > 0


class Unsupported(Exception):
    """Why a call cannot be captured."""


# --- guards --------------------------------------------------------------------------


def _modules_and_optimizers(function, args):
    """Objects with state that the function can reach: bound, closed over, global, arguments."""
    from ..nn import Module
    from ..optim import Optimizer

    found, seen = [], set()
    code_owner = function
    if isinstance(function, types.MethodType):
        seeds = [function.__self__]
        code_owner = function.__func__
    else:
        seeds = [function]
    closure = getattr(code_owner, "__closure__", None) or ()
    for cell in closure:
        try:
            seeds.append(cell.cell_contents)
        except ValueError:
            continue
    names = getattr(getattr(code_owner, "__code__", None), "co_names", ())
    scope = getattr(code_owner, "__globals__", {})
    seeds += [scope[n] for n in names if n in scope]
    seeds += args
    for s in seeds:
        if isinstance(s, (Module, Optimizer)) and id(s) not in seen:
            seen.add(id(s))
            found.append(s)
    scalars = [s for s in seeds if isinstance(s, (int, float, bool, str)) and not any(s is a for a in args)]
    return found, scalars


def _state_of(owner):
    """The Python state of a module or optimizer that its code may depend on."""
    from ..nn import Module

    if isinstance(owner, Module):
        return tuple(
            (id(m), m.training,
             tuple((k, v) for k, v in m.__dict__.items() if isinstance(v, (int, float, bool, str))))
            for m in owner.modules()
        )  # fmt: skip
    return tuple(
        (len(group["params"]), tuple((k, v) for k, v in group.items()
                                     if isinstance(v, (bool, str, type(None)))))
        for group in owner.param_groups
    )  # fmt: skip


def _argument_key(leaf):
    if isinstance(leaf, TensorBase):
        return leaf._geometry, leaf._offset, leaf._storage.root, leaf._requires_grad, type(leaf)
    if isinstance(leaf, _STATIC):
        return type(leaf), leaf
    if isinstance(leaf, np.ndarray):
        return "array", leaf.shape, leaf.dtype.str
    return id(leaf)


# --- a captured program --------------------------------------------------------------


class Captured:
    """One program: where its inputs come from, what its outputs are.

    Attributes:
        arguments: {input number: argument number}; ``cells``: {input number: storage}.
        written: [(live position, storage)] to write back.
        grads: [(leaf, live position or None)] to set ``.grad`` of.
    """

    def __init__(self, trace: CaptureTrace, leaves, outputs):
        self.trace = trace
        self.owners = list(trace.owners)
        by_storage = {}
        for number, leaf in enumerate(leaves):
            if isinstance(leaf, TensorBase):
                by_storage.setdefault(id(leaf._storage), number)
        self.arguments: dict[int, int] = {}
        self.cells: dict[int, Any] = {}
        self.draws: dict[int, Any] = {}
        for i, cell in enumerate(trace.cells):
            if id(cell) in trace.draws:
                self.draws[i] = trace.draws[id(cell)]
            elif id(cell) in by_storage:
                self.arguments[i] = by_storage[id(cell)]
            else:
                self.cells[i] = cell
        self._outputs(outputs, leaves)
        self._compile(by_storage)

    def _outputs(self, outputs, leaves):
        flat, self.spec = pytree.tree_flatten(outputs)
        self.results: list = []
        slots: dict[int, int] = {}
        self.live: list[int] = []
        trace = self.trace

        def live_position(storage):
            slot = storage.slot
            if slot not in slots:
                slots[slot] = len(self.live)
                self.live.append(slot)
            return slots[slot]

        given = {id(leaf): i for i, leaf in enumerate(leaves)}
        for t in flat:
            if not isinstance(t, TensorBase):
                self.results.append(("constant", t))
            elif id(t) in given:
                self.results.append(("argument", given[id(t)]))
            elif t._requires_grad and t._grad_fn is not None:
                raise Unsupported("a result requires grad")
            elif t._storage.trace is trace and id(t._storage) in trace.born:
                self.results.append(
                    ("new", live_position(t._storage), t._geometry, t._offset,
                     t._geometry is t._storage.root, t._storage.root)
                )  # fmt: skip
            else:
                self.results.append(("constant", t))
        self.grads = []
        for variable, was_none in trace.grads:
            self.grads.append((variable, was_none))
        held = {id(v._grad._storage): v for v, _ in trace.grads if v._grad is not None}
        self.new_grads = []
        self.written = []
        for slot, storage in enumerate(self.owners):
            if storage.trace is not trace or storage.slot != slot:
                continue
            if id(storage) in trace.born:
                if id(storage) in held:
                    variable = held[id(storage)]
                    self.new_grads.append((variable, live_position(storage), storage.root))
            else:
                self.written.append((live_position(storage), storage))

    def _compile(self, by_storage):
        trace = self.trace
        overwritten = {id(s) for _, s in self.written}
        self.given = tuple(
            i for i, cell in enumerate(trace.cells)
            if id(cell) in overwritten and cell.root.numel * cell.root.dtype.itemsize > 1 << 14
            and i not in self.arguments
        )  # fmt: skip
        self.count = len(trace.inputs)
        self.ints = np.array(trace.ints, np.int64) if trace.ints else None
        self.floats = np.array(trace.floats, np.float64) if trace.floats else None
        self.sources = [s for s in trace.sources if s[2] is not None]
        self.program = executor.compile_trace(trace, self.live, self.given)
        self.argument_cells = by_storage
        self.was_grad = {id(v): none for v, none in reversed(self.grads)}
        self.first_grads = [(v, self.was_grad[id(v)]) for v, _ in {id(v): (v, n) for v, n in
                                                                   self.grads}.values()]  # fmt: skip

    def fits(self):
        """Whether the leaves' gradients are there, or not, as they were."""
        return all((v._grad is None) == none for v, none in self.first_grads)

    def run(self, leaves):
        """Runs the program and applies everything it changes."""
        arrays: list = [None] * self.count
        for i, number in self.arguments.items():
            arrays[i] = leaves[number]._storage.value()
        for i, cell in self.cells.items():
            arrays[i] = cell.value()
        for i, draw in self.draws.items():
            arrays[i] = draw()
        floats = self.floats
        if self.sources:
            floats = floats.copy()
            for start, length, source, _ in self.sources:
                floats[start : start + length] = source()
        given = []
        for i in self.given:
            cell = self.cells[i]
            array = arrays[i]
            arrays[i] = None
            cell.array = None
            # References: this variable and the call's argument; more, and somebody else reads it.
            given.append(array if sys.getrefcount(array) == 2 else array.copy())
            del array
        taken = set(self.given)
        kept = [a for i, a in enumerate(arrays) if i not in taken]
        del arrays
        executor.stats.hits += 1
        executor.stats.programs += 1
        values = self.program(kept, given, self.ints, floats)
        for position, storage in self.written:
            if storage.host is not None:
                storage.set(values[position])
            else:
                storage.array, storage.trace = values[position], None
                storage.version += 1
        for variable, position, root in self.new_grads:
            if variable._grad is None:
                variable._grad = _tensor(root, values[position])
            else:
                cell = variable._grad._storage
                cell.array, cell.trace = values[position], None
        return pytree.tree_unflatten([self._result(r, leaves, values) for r in self.results],
                                     self.spec)  # fmt: skip

    @staticmethod
    def _result(result, leaves, values):
        kind = result[0]
        if kind == "constant":
            return result[1]
        if kind == "argument":
            return leaves[result[1]]
        _, position, g, offset, whole, root = result
        t = _tensor(root, values[position])
        return t if whole else wrap_view(t._storage, g, offset, None)


def _tensor(root, array):
    from ..eager.storage import Storage

    return wrap(Storage(root, array))


# --- the public function -------------------------------------------------------------


class Compiled:
    """A compiled function: see `compile`."""

    instances: weakref.WeakSet[Compiled] = weakref.WeakSet()

    def __init__(self, function, *, fullgraph=False, dynamic=None, backend=None, mode=None,
                 options=None):  # fmt: skip
        self.function = function
        self.fullgraph = fullgraph
        self.entries: dict = {}
        Compiled.instances.add(self)
        functools.update_wrapper(self, function, updated=())

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args, **kwargs):
        if is_compiling() or op.special[0]:
            return self.function(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        owners, scalars = _modules_and_optimizers(self.function, leaves)
        key = (
            spec, tuple(map(_argument_key, leaves)), _aliases(leaves), tuple(scalars),
            tuple(map(_state_of, owners)), modes.grad, modes.inference, _device.get_default_device(),
        )  # fmt: skip
        try:
            entry = self.entries.get(key)
        except TypeError:
            return self.function(*args, **kwargs)
        if entry is None:
            if len(self.entries) >= 64:
                self.entries.clear()
            self.entries[key] = "warm"
            return self.function(*args, **kwargs)
        if isinstance(entry, Captured):
            if entry.fits():
                return entry.run(leaves)
            return self.function(*args, **kwargs)
        if entry == "warm":
            return self._capture(key, leaves, args, kwargs)
        return self.function(*args, **kwargs)

    def _capture(self, key, leaves, args, kwargs):
        if any(isinstance(t, TensorBase) and t.device is not _device.CPU for t in leaves):
            self.entries[key] = "eager"
            return self.function(*args, **kwargs)
        trace = CaptureTrace(_device.CPU)
        old = executor.swap_trace(trace)
        _local["compiling"] += 1
        try:
            outputs = self.function(*args, **kwargs)
        finally:
            _local["compiling"] -= 1
            executor.restore_trace(old)
        if trace.broken:
            if self.fullgraph:
                raise RuntimeError(
                    f"compile(fullgraph=True): the function is not one graph: {trace.broken}"
                )
            self.entries[key] = "eager"
            trace.flush()
            return outputs
        try:
            self.entries[key] = Captured(trace, leaves, outputs) if trace.steps else "eager"
        except Unsupported:
            self.entries[key] = "eager"
        # What was recorded still has to happen once: for this call.
        trace.flush()
        return outputs


def _aliases(leaves):
    """Which tensor arguments share storage with which."""
    first: dict[int, int] = {}
    return tuple(
        first.setdefault(id(t._storage), i) for i, t in enumerate(leaves) if isinstance(t, TensorBase)
    )


def compile(model=None, *, fullgraph=False, dynamic=None, backend="xla", mode=None, options=None,
            disable=False):  # fmt: skip
    """Compiles a function or module: its operations run as one XLA program (``torch.compile``).

    A whole training step can be compiled: the parameters' update, the gradients and the optimizer's
    state are part of the program. New learning rates do not compile again.

    Args:
        fullgraph: raise instead of falling back where a value is looked at inside.
        backend, mode, dynamic, options: accepted; there is one backend.
        disable: give the function back as it is.

    >>> import ftorch as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if disable:
        return model
    from ..nn import Module

    if isinstance(model, Module):
        return OptimizedModule(model, fullgraph=fullgraph)
    if not callable(model):
        raise RuntimeError(f"Unsupported model type {type(model)}")
    return Compiled(model, fullgraph=fullgraph)


def OptimizedModule(module, **options):
    """A module whose call is compiled; attributes are those of the original."""
    return _optimized_class()(module, **options)


@functools.cache
def _optimized_class():
    from ..nn import Module

    class OptimizedModule(Module):
        """See `ftorch.jit.compiler.OptimizedModule`."""

        def __init__(self, module, **options):
            super().__init__()
            self._orig_mod = module
            self.__dict__["_compiled"] = Compiled(module.__call__, **options)

        def __call__(self, *args, **kwargs):
            return self.__dict__["_compiled"](*args, **kwargs)

        def __getattr__(self, name):
            if name == "_orig_mod":
                return self.__dict__["_modules"]["_orig_mod"]
            return getattr(self._orig_mod, name)

        def train(self, mode=True):
            self._orig_mod.train(mode)
            return self

    return OptimizedModule
