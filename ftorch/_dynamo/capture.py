"""A captured call as a program: where its inputs come from, what it gives, and how it runs.

See `ftorch._dynamo.compiled` for when that happens. A program's inputs are the storages that the
captured function read: of the arguments, of tensors found by name (parameters, buffers, optimizer
state, globals), of gradients. Its outputs are the results, every storage that was written, new
gradients, tensors put into Python objects, and what the backward pass needs of the forward one.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np

from ..eager import executor
from ..eager.executor import CaptureTrace
from ..eager.op import write
from ..eager.references import LISTED, LOCAL
from ..eager.tensor import TensorBase
from ..utils import _pytree as pytree
from . import guards as _guards
from .gradients import CompiledNode, differentiate, is_freed, make_whole_backward
from .lower import Lowered, Table
from .results import Making, Results
from .sources import Source, Sources
from .watch import MISSING, Watch

_DONATION_BYTES = 1 << 14


NUMBERS = "a hyperparameter of an optimizer changed"


class Unsupported(Exception):
    """Why a call cannot be captured; it runs in Python."""


class Captured:
    """One program. ``matches(leaves)`` says whether it stands for a call, ``run(leaves)`` makes it.

    Attributes:
        forward: the program; ``backward`` that of the gradients, or None.
        guards: what has to hold in Python.
    """

    Unsupported = Unsupported

    def __init__(self, trace: CaptureTrace, watch: Watch, leaves, outputs, started: int,
                 all_vary=False):  # fmt: skip
        self.all_vary = all_vary
        self.trace, self.device, self.started = trace, trace.device, started
        self.backward: Lowered | None = None
        self.input_grads: list = []
        self.drawn: list = []
        self.known = watch.known
        draws = [a for a in trace.actions if a[0] == "draw"]
        self.draws = {a[1]: n for n, a in enumerate(draws)}
        sources = self.sources = Sources(leaves, watch, trace)
        self._adopt(watch, sources)
        for t, _ in sources.held:
            if t._grad_fn is not None and t._grad_fn.sequence >= started:
                raise Unsupported("a tensor with a graph was changed in place")
        self._effects(watch, sources)
        slots: dict[int, int] = {}
        self.results = Results(self, outputs, leaves, slots)
        self._written(slots)
        self._gradients(slots)
        self._rebound(slots)
        self.checks = [(self._ref(flag._storage, slots), said) for flag, said in trace.assertions]
        self._joint(slots)
        self.guards = _guards.of_watch(watch, self.skipped)
        self._lower(slots, sources)
        self._guard_inputs()

    @property
    def calls(self) -> int:
        """How many operations it has."""
        return len(self.forward.steps)

    # --- what the function changed in Python

    def _adopt(self, watch, sources):
        """Tensors that were made for good, outside of the program, as if they had been there before."""
        trace = self.trace
        for place in watch.places.values():
            now = place.get()
            if isinstance(now, TensorBase) and now is not place.value and (
                id(now) not in sources.of_tensor and not self.is_born(now._storage)
                and id(now._storage) not in trace.made
            ):  # fmt: skip
                sources._add(now, Source("attribute" if place.attribute else "item", place.holder,
                                         place.key))  # fmt: skip
                place.value = now
        for state in watch.modules.values():
            if any(tuple(table.values()) != before for table, before in state.hooks):
                trace.only_once = "hooks were registered or removed"

    def _effects(self, watch, sources):
        """Rebindings to repeat: [(place, new value)]."""
        self.skipped: set[int] = set()
        self.rebound: list = []
        places, containers = watch.changes()
        for place, now in places:
            if isinstance(now, TensorBase) or isinstance(place.value, TensorBase):
                self.rebound.append((place, now))
                if isinstance(now, TensorBase) and isinstance(place.value, TensorBase):
                    continue
            elif isinstance(now, (bool, str, type(None))):
                self.rebound.append((place, now))
            else:
                raise Unsupported(f"{place.name} is changed by each call")
        for container, before, name in containers:
            before_ = dict(before) if isinstance(container, dict) else None
            if before_ is None or any(k not in container for k in before_):
                raise Unsupported(f"{name or 'a container'} is changed by each call")
            for key, now in container.items():
                old = before_.get(key, MISSING)
                if now is old:
                    continue
                if not isinstance(now, (TensorBase, bool, str, type(None))):
                    raise Unsupported(f"{name or 'a container'}[{key!r}] is changed by each call")
                self.rebound.append((_Item(container, key, old), now))
        for state in watch.modules.values():
            for table, before in state.tables:
                for key, now in table.items():
                    old = before.get(key, MISSING)
                    if now is not old:
                        self.rebound.append((_Item(table, key, old), now))
                if any(key not in table for key in before):
                    raise Unsupported("a parameter or buffer was removed")

    # --- outputs

    def _ref(self, storage, slots):
        """The position among the outputs of a storage made or written in the trace."""
        return slots.setdefault(storage.slot, len(slots))

    def is_made(self, storage) -> bool:
        """Whether a storage's value is made by the program."""
        return storage.trace is self.trace

    def is_born(self, storage) -> bool:
        trace = self.trace
        return storage.trace is trace and (id(storage) in trace.born or id(storage) in trace.made)

    def _written(self, slots):
        self.written = []
        for slot, storage in enumerate(self.trace.owners):
            if storage.trace is self.trace and storage.slot == slot and not self.is_born(storage):
                source = self.sources.storage(storage)
                self.written.append((self._ref(storage, slots), source, storage))

    def _gradients(self, slots):
        """What becomes of gradients: [(source of the leaf, how)]."""
        self.grads, self.grad_checks = [], []
        for variable, before, reads in self.trace.grads.values():
            source = self.sources.tensor(variable)
            if reads:
                g = None if before is None else before._geometry
                self.grad_checks.append((source, g))
            now = variable._grad
            if now is None:
                self.grads.append((source, None))
            elif now is not before:
                self.grads.append((source, self.results.describe(now, slots)))

    def _rebound(self, slots):
        self.puts = [
            (place, self.results.describe(now, slots) if isinstance(now, TensorBase) else ("constant", now))
            for place, now in self.rebound
        ]  # fmt: skip

    # --- gradients of the results

    def _joint(self, slots):
        self.edges: list[Source] = []
        self.forward_slots = len(self.trace.owners)
        self.saved: list[int] = []
        self.tangents: list = []
        wanting = self.results.differentiable
        if not wanting:
            return
        for t in wanting:
            if is_freed(t):
                self.results.freed.add(id(t))
        wanting = [t for t in wanting if id(t) not in self.results.freed]
        if not wanting:
            return
        found = differentiate(self, wanting)
        self.edges, self.tangents, self.input_grads = found.sources, found.tangents, found.grads

    def _lower(self, slots, sources):
        trace = self.trace
        table = self.table = Table(trace)
        outputs = [0] * len(slots)
        for slot, position in slots.items():
            outputs[position] = slot
        self.count = len(outputs)
        varying = []
        self.actions = trace.actions
        self.fixed = []  # numbers that are constants: (function giving the current ones, {which: value})
        self._current: dict = {}  # what those functions gave when they were last asked whether that holds
        certain = not self.all_vary
        for action in trace.actions:
            certain = certain and action[0] != "do"  # a schedule may come before the step
            if action[0] == "numbers":
                _, start, count, source, fixed = action
                fixed = fixed if certain else ()
                varying += [start + i for i in range(count) if i not in fixed]
                if fixed:
                    self.fixed.append((source, [(i, trace.floats[start + i]) for i in fixed]))
        grads = [o for o, _ in self.input_grads if o is not None] if self.edges else []
        if grads:
            tangents = {t.operand for t in self.tangents}
            self.saved = table.residuals(grads, self.forward_slots)
            self.backward = Lowered(
                table, grads, given=self.saved, varying=varying, device=self.device
            )
            extra = [o for o in self.backward.starts if o < 0 and o not in tangents]
        else:
            extra = []
        outputs = outputs + self.saved
        self.extra = extra
        overwritten = {id(s): place for place, _, s in self.written}
        arguments = set()
        given = []
        for i, cell in enumerate(trace.cells):
            source = sources.storage(cell)
            if self.edges or (source is not None and source.kind == "argument"):
                arguments.add(i)
            root = cell.root
            if id(cell) in overwritten and i not in arguments and -1 - i not in extra and (
                root.numel * root.dtype.itemsize > _DONATION_BYTES
            ):  # fmt: skip
                given.append(-1 - i)
        self.varying = varying
        self.forward = Lowered(
            table, outputs, donated=given, varying=varying, device=self.device,
            replaced={o: overwritten[id(trace.cells[-1 - o])] for o in given},
        )  # fmt: skip
        draws = self.draws
        self.inputs = []  # for each start of the forward program, or needed later: how to get it
        for operand in dict.fromkeys([*self.forward.starts, *extra]):
            cell = trace.cells[-1 - operand]
            if id(cell) in draws:
                self.inputs.append((operand, "draw", draws[id(cell)], None))
                continue
            if id(cell) in trace.made:
                self.inputs.append((operand, "constant", trace.made[id(cell)][1], None))
                continue
            source = sources.storage(cell)
            self.inputs.append((operand, "cell", cell, None) if source is None else
                               (operand, source.kind, source, cell.root))  # fmt: skip
        by_operand = {i[0]: i[:3] for i in self.inputs}
        self.given = [by_operand[self.forward.starts[p]] for p in self.forward.donated]
        self.floats = np.array(trace.floats, np.float64)
        self.trace_roots = {i[0]: trace.cells[-1 - i[0]].root for i in self.inputs}
        self._whole: Any = None

    def _guard_inputs(self):
        """Tensors that are found by name have to be of the same kind as the captured ones."""
        seen = set()
        for source in (*(i[2] for i in self.inputs if isinstance(i[2], Source)), *self.edges):
            if source.kind not in ("item", "attribute") or id(source) in seen:
                continue
            seen.add(id(source))
            holder = self.guards.name(source.holder)
            expression = (
                f"{holder}[{self.guards.name(source.key)}]" if source.kind == "item"
                else f"{holder}.{source.key}"
            )  # fmt: skip
            t = source.get(())
            self.guards.value(expression, t, f"the tensor {source.name}")

    def geometry_of(self, operand):
        """What a start of a program looks like: an input, a gradient, or what the forward part keeps."""
        if operand < 0:
            return self.trace.cells[-1 - operand].root
        step = self.table.steps[self.table.maker[operand]]
        return step.plan.geometries[operand - step.slot]

    def operands_of(self, source):
        """The inputs that are read from a source."""
        return [o for o, kind, s, _ in self.inputs if s is source]

    def whole_backward(self):
        """See `ftorch._dynamo.gradients.make_whole_backward`."""
        if self._whole is None:
            self._whole = make_whole_backward(self)
        return self._whole

    # --- matching

    def mismatch(self, leaves) -> str | None:
        """Why the program does not stand for a call, or None."""
        if not self.guards.check():
            return self.guards.reason() or "the state of a module"
        for source, known in self.fixed:
            now = self._current[source] = source()
            for i, value in known:
                if now[i] != value:
                    return NUMBERS
        for source, g in self.grad_checks:
            held = source.get(leaves)._grad
            if (held is None) != (g is None) or (g is not None and held._geometry is not g):
                return "a gradient is there, or not"
        return None

    # --- running

    def gather(self, leaves):
        """{operand: array} of the inputs, the donated ones' storages emptied; None if one changed."""
        arrays: dict[int, Any] = {}
        drawn = self.drawn = self._act()
        for operand, kind, source, root in self.inputs:
            if kind == "item":  # most of them
                storage = source.holder[source.key]._storage
                array = storage.array
                arrays[operand] = (
                    storage.value() if array is None or storage.trace is not None else array
                )
            elif kind == "cell":
                arrays[operand] = source.value()
            elif kind == "draw":
                arrays[operand] = drawn[source]
            elif kind == "constant":
                arrays[operand] = source
            else:
                storage = source.get(leaves)._storage
                array = storage.array
                arrays[operand] = (
                    storage.value() if array is None or storage.trace is not None else array
                )
        return arrays

    def _act(self):
        """What the function does in Python besides: draws, schedulers, numbers that change."""
        drawn = []
        for action in self.actions:
            kind = action[0]
            if kind == "draw":
                drawn.append(action[2]())
            elif kind == "numbers":
                now = self._current.pop(action[3], None)
                self.floats[action[1] : action[1] + action[2]] = action[3]() if now is None else now
            else:
                action[1]()
        return drawn

    def storage_of(self, source, fixed, leaves):
        return fixed if source is None else source.get(leaves)._storage

    def run(self, leaves, originals):
        """Makes a call by the program.

        Args:
            leaves: the arguments; ``originals`` the same where they are not parts of other tensors.
        """
        executor.flush()
        arrays = self.gather(leaves)
        forward = self.forward
        given = self._give(arrays, leaves)
        kept = [arrays[forward.starts[p]] for p in forward.kept]
        residual_inputs = [arrays[o] for o in self.extra]
        inputs = None
        if self.edges:
            inputs = arrays
        executor.stats.hits += 1
        executor.stats.programs += 1
        values = forward.jitted()(kept, given, forward.numbers(self.floats))
        # From here on the program runs beside Python, if it is long enough.
        results = self.apply(leaves, originals, values, residual_inputs, inputs)
        if leaves is not originals:
            self._write_back(leaves, originals)
        if self.checks:
            self._check(values)
        return results

    def _check(self, values):
        """Raises RuntimeError for an ``assert`` that does not hold: after the values are in their places."""
        for position, message in self.checks:
            if not values[position]:
                raise RuntimeError(message)

    def _write_back(self, leaves, originals):
        for _, source, _ in self.written:
            if source is not None and source.kind == "argument":
                new, old = leaves[source.key], originals[source.key]
                if new is not old:
                    write(old, new._storage)

    def give_back(self, leaves, originals, outputs):
        """For the captured call: the results with the arguments in place of their stand-ins."""
        self._write_back(leaves, originals)
        back = {id(new): old for new, old in zip(leaves, originals) if new is not old}
        return pytree.tree_map(lambda t: back.get(id(t), t), outputs)

    def _give(self, arrays, leaves):
        """The arrays whose memory the program may use: nobody else has them."""
        given = []
        for operand, kind, source in self.given:
            storage = source if kind == "cell" else source.get(leaves)._storage
            array = arrays.pop(operand)
            storage.array = None
            # More references than this variable's, and somebody else reads it.
            given.append(array if sys.getrefcount(array) == LOCAL else array.copy())
            del array
        return given

    def apply(self, leaves, originals, values, residual_inputs, inputs):
        """Puts a program's values where they belong; gives the results."""
        targets = [self.storage_of(s, fixed, leaves) for _, s, fixed in self.written]
        for (position, _, _), storage in zip(self.written, targets):
            if storage.host is not None:
                storage.set(values[position])
            else:
                storage.array, storage.trace = values[position], None
                storage.version += 1
        node = None
        if self.edges:
            tensors = [s.get(leaves) for s in self.edges]
            node = CompiledNode(self, tensors, values[self.count :], residual_inputs, inputs)
        made = Making(self, values, leaves, originals, node)
        for source, how in self.grads:
            source.get(leaves)._grad = None if how is None else made(how)
        for place, how in self.puts:
            place.set(made(how))
        return self.results.build(made)

    # --- the first call, which was captured

    def finish(self, leaves):
        """Makes the captured call itself: what was recorded gets its values.

        Returns:
            Why the program must not be used again: a tensor went where it cannot be followed.
        """
        trace, forward = self.trace, self.forward
        node = None
        if self.edges:
            tensors = [s.get(leaves) for s in self.edges]
            node = CompiledNode(self, tensors, None, None, None)
        self.results.rewire(node)
        trace.cells, trace.made = [], {}
        expected = {slot for slot in forward.outputs if slot >= 0}
        escaped = self._alive(expected)
        if escaped:
            gc.collect()
            escaped = self._alive(expected)
        if escaped:
            lowered = Lowered(
                self.table, [*forward.outputs, *escaped], varying=self.varying, device=self.device
            )
        else:
            lowered = forward
        inputs = {-1 - i: a for i, a in enumerate(trace.inputs)}
        trace.inputs = []
        if node is not None:
            node.residual_inputs = [inputs[o] for o in self.extra]
            node.inputs = {i[0]: inputs[i[0]] for i in self.inputs}
        given = []
        for p in lowered.donated:
            array = inputs.pop(lowered.starts[p])
            given.append(array if sys.getrefcount(array) == LOCAL else array.copy())
            del array
        kept = [inputs[lowered.starts[p]] for p in lowered.kept]
        del inputs
        with executor.outside_capture():
            values = lowered.jitted()(kept, given, lowered.numbers(self.floats))
        executor.stats.programs += 1
        if node is not None:
            node.saved = list(values[self.count : len(forward.outputs)])
        for slot, value in zip(lowered.outputs, values):
            if slot >= 0:
                storage = trace.owners[slot]
                if storage.trace is trace and storage.slot == slot:
                    if storage.host is not None:
                        storage.set(value)
                    else:
                        storage.array, storage.trace = value, None
        trace.captures = False
        trace._clear()
        if self.checks:
            self._check(values)
        if escaped:
            return "a tensor was kept outside of the function's results"
        return None

    def _alive(self, expected):
        """Slots of storages that somebody holds, besides those expected."""
        owners, found = self.trace.owners, []
        for slot in range(len(owners)):
            storage = owners[slot]
            if (
                slot not in expected and storage.trace is self.trace and storage.slot == slot
                and sys.getrefcount(storage) > LISTED
            ):  # fmt: skip
                found.append(slot)
        return found


class _Item:
    """An item of a dictionary, to set; ``value`` is what it was."""

    def __init__(self, table, key, value):
        self.table, self.key, self.value, self.name = table, key, value, str(key)

    def set(self, value):
        if value is MISSING:
            self.table.pop(self.key, None)
        else:
            self.table[self.key] = value
