"""Compiled programs of captured calls: where their inputs come from, what they give, and how they run.

See `ftorch.jit.compiled_function` for when that happens. A program's inputs are the storages that the
captured function read: of the arguments, of tensors found by name (parameters, buffers, optimizer
state, globals), of gradients. Its outputs are the results, every storage that was written, new
gradients, tensors put into Python objects, and what the backward pass needs of the forward one.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from typing import Any

import numpy as np

from ...eager.call.op import write
from ...eager.core.refcount import LISTED
from ...eager.memory.storage import Storage
from ...eager.native import waiting
from ...eager.runtime import capture_trace, executor
from ...eager.runtime.capture_trace import CaptureTrace
from ...eager.tensor import count_for_all, count_write
from . import guards as _guards
from . import index_checks
from .argument_parts import Placed, parts_of, with_copies
from .captured_call import CapturedCall, Unsupported, hooks_of
from .gradients import CompiledNode, differentiate, is_freed, make_whole_backward
from .lowering import Lowered, Table
from .result_recipes import Making, Results
from .signal_handlers import Looked
from .state_watch import Watch

_DONATION_BYTES = 1 << 14


class Captured(CapturedCall):
    """A captured call that an XLA program makes: ``run(leaves)``.

    Attributes:
        forward: the program; ``backward`` that of the gradients, or None.
    """

    def __init__(self, trace: CaptureTrace, watch: Watch, leaves, outputs, started: int,
                 all_vary=False):
        super().__init__(trace, watch, leaves, started)
        self.all_vary, sources = all_vary, self.sources
        for t, _ in sources.held:
            if t._grad_fn is not None and t._grad_fn._ftorch_sequence >= started:
                raise Unsupported("a tensor with a graph was changed in place")
        self._effects(watch)
        slots: dict[int, int] = {}
        self.results = Results(self, outputs, leaves, slots)
        self._written(slots)
        self._gradients(slots)
        self._rebound(slots)
        self.checks = [
            (self._ref(flag._ftorch_storage, slots), said) for flag, said in trace.assertions
        ]
        if trace.order is not None:  # what it depends on is not left out
            self._ref(trace.order._ftorch_storage, slots)
        self._watched_joint(slots, watch)
        self.guards = _guards.of_watch(watch, self.skipped)
        self._lower(slots, sources, leaves)
        self._guard_inputs()
        self.shared.keep_apart([storage for _, source, storage in self.written if source is None])
        self.shared.keep_apart([i[2] for i in self.inputs if isinstance(i[2], Storage)])

    @property
    def calls(self) -> int:
        """How many operations it has."""
        return len(self.forward.steps)

    # --- outputs

    def _ref(self, storage, slots):
        """The position among the outputs of a storage made or written in the trace."""
        return slots.setdefault(storage.slot, len(slots))

    def _written(self, slots):
        for slot, storage in enumerate(self.trace.owners):
            if storage.trace is self.trace and storage.slot == slot and not self.is_born(storage):
                source = self.sources.storage(storage)
                self.written.append((self._ref(storage, slots), source, storage))

    def _gradients(self, slots):
        """What becomes of gradients: [(source of the leaf, how)]."""
        for variable, before, reads in self.trace.grads.values():
            source = self.sources.tensor(variable)
            if reads:
                g = None if before is None else before._ftorch_geometry
                self.grad_checks.append((source, g))
            now = variable._grad
            if now is None:
                self.grads.append((source, None))
            elif now is not before:
                self.grads.append((source, self.results.describe(now, slots)))
        for leaf in self.trace.leaves.values():
            source = self.sources.of_tensor.get(id(leaf))
            if source is not None:
                self.hook_checks.append((source, hooks_of(leaf._ftorch_meta)))

    # --- gradients of the results

    def _watched_joint(self, slots, watch):
        """Finds the gradients; what the user's own backward functions read of Python is guarded, too."""
        if not self.results.differentiable:
            self._joint(slots)
            return
        before = [[id(one) for one, *_ in changed] for changed in watch.changes()]
        try:
            with watch:
                self._joint(slots)
        except Unsupported:
            raise
        except Exception as error:  # backward raises it, if it is called
            raise Unsupported(f"its gradient raises {type(error).__name__}: {error}") from None
        if [[id(one) for one, *_ in changed] for changed in watch.changes()] != before:
            raise Unsupported("a backward function changes state in Python")
        self.sources.note(watch, self.trace)
        self._share()

    def _joint(self, slots):
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

    def _lower(self, slots, sources, leaves):
        trace = self.trace
        table = self.table = Table(trace)
        try:
            self.parts = {} if self.placed else parts_of(trace, table, leaves, sources)
        except Placed:
            self.placed, self.parts = True, {}
        outputs = [0] * len(slots)
        for slot, position in slots.items():
            outputs[position] = slot
        self.count = len(outputs)
        varying = []
        self.actions = trace.actions
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
            if trace.order is not None and trace.order._ftorch_storage.slot >= self.forward_slots:
                grads.append(trace.order._ftorch_storage.slot)  # behind those that it gives
            tangents = {t.operand for t in self.tangents}
            self.saved = table.residuals(grads, self.forward_slots)
            self.backward = Lowered(
                table, grads, given=self.saved, varying=varying, device=self.device
            )
            extra = [o for o in self.backward.starts if o < 0 and o not in tangents]
        else:
            extra = []
        outputs, trace.order = outputs + self.saved, None
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
            ):
                given.append(-1 - i)
        self.varying = varying
        self.forward = Lowered(
            table, outputs, donated=given, varying=varying, device=self.device,
            replaced={o: overwritten[id(trace.cells[-1 - o])] for o in given},
        )
        self.index_checks = index_checks.of_program(self.forward, self.geometry_of)
        draws = self.draws
        for operand in dict.fromkeys([*self.forward.starts, *extra]):
            if operand in self.parts:
                part = self.parts[operand]
                self.inputs.append((operand, "argument", sources.of_tensor[id(part.argument)], part.root))
                continue
            cell = trace.cells[-1 - operand]
            if id(cell) in draws:
                self.inputs.append((operand, "draw", draws[id(cell)], None))
                continue
            if id(cell) in trace.made:
                self.inputs.append((operand, "constant", trace.made[id(cell)][1], None))
                continue
            source = sources.storage(cell)
            self.inputs.append((operand, "cell", cell, None) if source is None else
                               (operand, source.kind, source, cell.root))
        by_operand = {i[0]: i[:3] for i in self.inputs}
        self.given = [by_operand[self.forward.starts[p]] for p in self.forward.donated]
        self.floats = np.array(trace.floats, np.float64)
        self.trace_roots = {i[0]: table.roots[-1 - i[0]] for i in self.inputs}
        self._whole: Any = None

    def geometry_of(self, operand):
        """What a start of a program looks like: an input, a gradient, or what the forward part keeps."""
        if operand < 0:
            return self.table.roots[-1 - operand]
        step = self.table.steps[self.table.maker[operand]]
        return step.plan.geometries[operand - step.slot]

    def operands_of(self, source):
        """The inputs that are read from a source."""
        return [o for o, kind, s, _ in self.inputs if s is source]

    def whole_backward(self):
        """See `ftorch.jit.capture.gradients.make_whole_backward`."""
        if self._whole is None:
            self._whole = make_whole_backward(self)
        return self._whole

    def let_go(self) -> None:
        super().let_go()
        self.parts = dict.fromkeys(self.parts)

    # --- running

    def gather(self, leaves):
        """{operand: array} of the inputs, the donated ones' storages emptied; None if one changed."""
        arrays: dict[int, Any] = {}
        drawn = self.drawn = self._act()
        for operand, kind, source, root in self.inputs:
            if kind == "item":  # most of them
                storage = source.holder[source.key]._ftorch_storage
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
                storage = source.get(leaves)._ftorch_storage
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
        return fixed if source is None else source.get(leaves)._ftorch_storage

    def run(self, originals):
        """Makes a call by the program.

        Args:
            originals: the arguments; the program runs on dense copies of those that are parts of larger tensors.
        """
        threads = executor.threads
        if threads.cpu.steps or threads.cpu.recording or threads.others:
            executor.flush()
        leaves = originals if self.placed else with_copies(originals)
        arrays = self.gather(leaves)
        forward = self.forward
        if self.index_checks is not None:
            self.index_checks.run(arrays)
        given = self._give(arrays, leaves)
        kept = [arrays[forward.starts[p]] for p in forward.kept]
        residual_inputs = [arrays[o] for o in self.extra]
        inputs = None
        if self.edges:
            inputs = arrays
        executor.stats.hits += 1
        executor.stats.programs += 1
        finished: list[Any] = []
        try:
            values = forward.call(
                kept, given, None if forward.places is None else forward.numbers(self.floats), finished)
            # From here on the program runs beside Python, if it is long enough.
            results = self.apply(leaves, originals, values, residual_inputs, inputs)
            if leaves is not originals:
                self._write_back(leaves, originals)
        except BaseException:
            if finished:  # what was given is used up: the call is made, whatever interrupted it
                values = forward.results(finished[0])
                self.apply(leaves, originals, values, residual_inputs, inputs)
                if leaves is not originals:
                    self._write_back(leaves, originals)
            raise
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
                    write(old, new._ftorch_storage)

    def _give(self, arrays, leaves):
        """The arrays whose memory the program may use: nobody else has them."""
        given = []
        for operand, _, _ in self.given:
            array = arrays.pop(operand)
            # More references than this variable's and the storage's, and somebody else reads it.
            given.append(array if sys.getrefcount(array) == LISTED else array.copy())
            del array
        return given

    def apply(self, leaves, originals, values, residual_inputs, inputs):
        """Puts a program's values where they belong; gives the results."""
        targets = [self.storage_of(s, fixed, leaves) for _, s, fixed in self.written]
        for (position, source, _), storage in zip(self.written, targets):
            if storage.host is not None:
                storage.set(values[position])
            else:
                storage.array, storage.trace = values[position], None
                if source is None:
                    count_for_all(storage)
                else:
                    count_write(source.get(leaves))
        node = None
        if self.edges:
            tensors = [s.get(leaves) for s in self.edges]
            node = CompiledNode(self, tensors, values[self.count :], residual_inputs, inputs)
        made = Making(self, values, leaves, originals, node)
        for source, how in self.grads:
            source.get(originals)._grad = None if how is None else made(how)
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
        trace.cells, trace.made, trace.leaves, trace.flags = [], {}, {}, {}
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
        inputs.update({operand: part.array(trace.inputs) for operand, part in self.parts.items()})
        if node is not None:
            node.residual_inputs = [inputs[o] for o in self.extra]
            node.inputs = {i[0]: inputs[i[0]] for i in self.inputs}
        given = []
        for p in lowered.donated:
            array = inputs.pop(lowered.starts[p])
            given.append(array if sys.getrefcount(array) == LISTED else array.copy())
            del array
        kept = [inputs[lowered.starts[p]] for p in lowered.kept]
        del inputs
        finished: list[Any] = []
        try:
            with capture_trace.outside_capture(), waiting.between(trace.between):
                try:
                    lowered.call(kept, given, lowered.numbers(self.floats), finished)
                except Looked:
                    lowered.call(kept, [a.copy() for a in given], lowered.numbers(self.floats), finished)
            values = self._put(lowered, finished, node)
        except BaseException as error:
            if finished:
                self._put(lowered, finished, node)
            elif isinstance(error, Exception):
                self._take_apart(error)
            raise
        executor.stats.programs += 1
        if self.checks:
            self._check(values)
        if escaped:
            return "a tensor was kept outside of the function's results"
        return None

    def _take_apart(self, error):
        """Lets what was recorded run step by step: what does not depend on what fails in it gets its value."""
        self.trace.captures = False
        with contextlib.suppress(Exception):  # what failed as a whole is what the call raises
            self.trace.fail(error)

    def _put(self, lowered, finished, node):
        """Gives what was recorded its values. What was interrupted can be done again."""
        trace, values = self.trace, lowered.results(finished[0])
        if node is not None:
            node.saved = list(values[self.count : len(self.forward.outputs)])
        parts = {id(part.storage): part for part in self.parts.values()}
        for slot, value in zip(lowered.outputs, values):
            if 0 <= slot < len(trace.owners):
                storage = trace.owners[slot]
                if storage.trace is trace and storage.slot == slot:
                    part = parts.get(id(storage))
                    if part is not None:
                        self._write_part(part, storage, value)
                    elif storage.host is not None:
                        storage.set(value)
                    else:
                        storage.array, storage.trace = value, None
        trace.captures = False
        trace.clear()
        return values

    def _write_part(self, part, storage, value):
        """Gives a storage of which an argument is a part the value that the argument has now."""
        storage.array, storage.trace = self.trace.inputs[-1 - part.whole], None
        version, slot = storage.version, storage.slot
        try:
            with capture_trace.swapped(None):
                write(part.argument, Storage(part.root, value))
                executor.flush()
        except BaseException:
            storage.trace, storage.slot = self.trace, slot  # it is still to be done
            raise
        finally:
            storage.version = version

    def _alive(self, expected):
        """Slots of storages that somebody holds, besides those expected."""
        owners, found = self.trace.owners, []
        for slot in range(len(owners)):
            storage = owners[slot]
            if (
                slot not in expected and storage.trace is self.trace and storage.slot == slot
                and sys.getrefcount(storage) > LISTED
            ):
                found.append(slot)
        return found
