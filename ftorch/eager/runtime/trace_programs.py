"""Programs of whole traces for the host tier: one Python function for all traces that differ in sizes only.

The steps of all plans stand in one list, elementwise ones fused across plans (`elementwise_fusion`), and values are
let go of after their last use. A program is found by the trace's code with size classes in the places of plans;
what the sizes decide (the numbers of each plan's class, reads through strides) is given to it. For short traces that
come again with the same plans there is an exact form, which is given nothing but inputs and numbers (`short_traces`).
"""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

from ..core import forking
from ..core.jax_internals import on_host
from ..host.rules import MissingRule
from .elementwise_fusion import Group, Value, is_elementwise, program_of
from .host_tier import step_of
from .trace_code import steps_of

_MOST = 512  # programs kept
known: collections.OrderedDict[tuple, Any] = collections.OrderedDict()
_lock = forking.rlock()

_UNFIT: Any = object()  # of traces whose steps have no common function
OPAQUE = "opaque"  # stands in keys for steps that are found anew for each size


def find(code, live):
    """(the program of a trace, its plans), or None where a step has no code for the host or the key came for the first time.

    Args:
        code, live: see `program.execute`.
    """
    key: list = []
    plans: list = []
    add, add_plan = key.append, plans.append
    for item in code:
        if item.__class__ is int:
            add(item)
            continue
        add_plan(item)
        instance = item.instance
        if instance is not None and instance.dtype is None and hasattr(instance.of, "program"):
            add(instance.of.program)
        elif item.program is not None and item.is_fixed():
            add(item)
        else:
            add((OPAQUE, len(item.geometries), item.scalars))
    add(tuple(live))
    found = known.get(frozen := tuple(key), False)
    if found is False:
        with _lock:
            known[frozen] = None  # made when it comes again
            if len(known) > _MOST:
                known.popitem(last=False)
        return None
    if found is None:
        try:
            found = TraceProgram(code, live)
        except ValueError:  # elementwise steps of mixed dtypes
            found = _UNFIT
        known[frozen] = found
    return None if found is _UNFIT else (found, plans)


def _run_by_itself(plan, arrays, numbers):
    """The results of a step that has no place in the trace's own list."""
    if plan.compiled is None and (step := plan.host or step_of(plan)):
        return step(arrays, numbers)
    return [on_host(r) for r in plan.run(list(arrays), [number.item() for number in numbers])]


class TraceProgram:
    """A trace for all sizes, or (``exact``) for those of its plans.

    Attributes:
        function: (inputs, plans, scalars as NumPy's) -> the live values.
        kinds: of the scalars, in order.
    """

    __slots__ = ("function", "kinds")

    def __init__(self, code, live, exact=False):
        builder = _Builder(code, live, exact)
        self.function = builder.function()
        self.kinds = builder.kinds

    def run(self, inputs, plans, ints, floats):
        """The live values, as NumPy arrays."""
        i, f, numbers = iter(ints), iter(floats), []
        for kind in self.kinds:
            if kind == "i":
                numbers.append(np.int64(next(i)))
            elif kind == "f":
                numbers.append(np.float64(next(f)))
            else:
                numbers.append(np.complex128(complex(next(f), next(f))))
        with np.errstate(all="ignore"):
            return self.function(inputs, plans, numbers)


class _Builder:
    """Makes the function of a trace.

    Values are numbered anew: ``value_of[slot]`` is the argument that a slot of the trace is.
    """

    def __init__(self, code, live, exact=False):
        self.exact = exact
        self.scope: dict[str, Any] = {"ndarray": np.ndarray, "asarray": on_host, "host": _run_by_itself}
        self.fixed: Any = None  # the numbers of the plan at hand, if it has no size class
        self.lines: list[tuple[str, list, list]] = []  # (template, arguments read, values made)
        self.values: dict[int, Value] = {}
        self.count = 0
        self.kinds = ""
        self.open: dict[Any, Group] = {}  # by shape
        self.lazy: dict[int, tuple] = {}  # broadcasts of numbers, which groups do not need
        self.group_of: dict[int, Group] = {}
        self.shapes: dict[Any, Any] = {}  # joined: a shape known by several names
        self.input_names: dict[int, str] = {}
        slots: list = []
        inputs: dict[int, int] = {}
        scalar = 0
        for plan_number, (plan, given) in enumerate(steps_of(code)):
            operands = []
            for o in given:
                if o >= 0:
                    operands.append(slots[o])
                else:
                    if o not in inputs:
                        inputs[o] = self.new(None)
                        self.input_names[inputs[o]] = f"i[{-1 - o}]"
                    operands.append(inputs[o])
            numbers = []
            for kind in plan.scalars:
                numbers.append(("n", scalar))
                scalar += 1
            self.kinds += plan.scalars
            slots += self.add_plan(plan, plan_number, operands, numbers)
        self.results = [slots[slot] for slot in live]

    # --- values

    def new(self, value):
        number = self.count
        self.count += 1
        if value is not None:
            self.values[number] = value
        return number

    def shape(self, name):
        """The representative of a shape's names."""
        while (above := self.shapes.get(name)) is not None:
            name = above
        return name

    def join(self, name, other):
        name, other = self.shape(name), self.shape(other)
        if name != other:
            self.shapes[name] = other

    # --- plans

    def add_plan(self, plan, number, operands, numbers):
        program = _exact_program(plan) if self.exact else _program(plan)
        if program is None:
            return self._opaque(plan, number, operands, numbers)
        names = dict(enumerate([*operands, *numbers]))
        if plan.instance is None:
            self.fixed = program.evaluate(())
        else:
            self.fixed = plan.instance.numbers if self.exact else None
        for call in program.calls:
            self._add_call(call, number, names)
        return [self._argument(r, number, names) for r in program.results]

    def _argument(self, a, number, names):
        if a.__class__ is int:
            return names[a]
        if a[0] != "z":
            return a
        return ("z", number, a[1]) if self.fixed is None else ("c", self.fixed[a[1]])

    def _add_call(self, call, number, names):
        step = call.step
        arguments = [self._argument(a, number, names) for a in call.arguments]
        shape = (number, repr(step.shapes[0]))
        if step.primitive == "broadcast_in_dim" and step.kinds[0].ndim == 0:
            self._broadcast_scalar(step, arguments, shape, names, call)
            return
        if is_elementwise(step) and (not step.made[0].ndim or any(
            a.__class__ is int and given == step.shapes[0] for a, given in zip(arguments, step.given)
        )):
            self._add_elementwise(step, arguments, shape, names, number)
            return
        arguments = [self._dense(a) for a in arguments]
        made = []
        for output, kind, template in zip(step.outputs, step.made, step.shapes):
            names[output] = self.new(Value(kind.dtype, kind.ndim, (number, repr(template))))
            made.append(names[output])
        self.emit(call.run, arguments, made, step.is_many)

    def _scalar_of(self, a):
        """What a value was broadcast from, if that is one number."""
        value = self.values.get(a) if a.__class__ is int else None
        return a if value is None or value.scalar is None else value.scalar

    def _broadcast_scalar(self, step, arguments, shape, names, call):
        number = self.new(Value(step.made[0].dtype, step.made[0].ndim, shape, self._scalar_of(arguments[0])))
        names[step.outputs[0]] = number
        self.lazy[number] = call.run, arguments

    def _add_elementwise(self, step, arguments, shape, names, number):
        rank, arguments, full = step.made[0].ndim, list(arguments), 0
        for place, (a, kind, given) in enumerate(zip(arguments, step.kinds, step.given)):
            if a.__class__ is not int or not kind.ndim:
                continue
            if a not in self.values:
                self.values[a] = Value(kind.dtype, kind.ndim, (number, repr(given)))
            if given != step.shapes[0]:
                self._dense(a)  # repeated along dimensions of size 1
            elif rank:
                self.join(shape, self.values[a].shape)
                full += self.values[a].scalar is None
        if full or not rank:
            arguments = [self._scalar_of(a) for a in arguments]
        for a in arguments:
            if a.__class__ is int and a in self.lazy:
                self._dense(a)
        top = self.shape(shape) if rank else ()
        group = self.open.get(top)
        if group is not None and not group.has_room(arguments):
            self.close(group)
            group = None
        for a in arguments:
            other = self.group_of.get(a) if a.__class__ is int else None
            if other is not None and other is not group:
                self.close(other)
        if group is None:
            # Two groups may have turned out to have one shape: the older one is closed by whoever reads it.
            group = self.open[top] = Group(top)
        made = names[step.outputs[0]] = self.new(Value(step.made[0].dtype, rank, shape))
        group.add((step.primitive, step.kinds, arguments, step.params, made), arguments)
        self.group_of[made] = group

    def close(self, group):
        """Emits a group."""
        self.lines.append(("group", [group], sorted(group.made)))
        for number in group.made:
            self.group_of.pop(number, None)
        for key, value in list(self.open.items()):
            if value is group:
                del self.open[key]

    def _dense(self, a):
        """An argument that a step outside of groups reads: its group runs before."""
        if a.__class__ is int:
            group = self.group_of.get(a)
            if group is not None:
                self.close(group)
            elif a in self.lazy:
                run, arguments = self.lazy.pop(a)
                self.emit(run, [self._dense(b) for b in arguments], [a], False)
        return a

    def emit(self, run, arguments, made, is_many):
        self.lines.append(("call", [run, arguments, is_many], made))

    def _opaque(self, plan, number, operands, numbers):
        operands = [self._dense(a) for a in operands]
        made = [
            self.new(Value(g.dtype.numpy, g.ndim, (number, "out", place))) for place, g in enumerate(plan.geometries)
        ]
        if not self.exact:
            self.lines.append(("plan", [number, operands, numbers], made))
            return made
        step = step_of(plan)
        if not step:
            raise MissingRule(plan.name)
        self.lines.append(("step", [step, operands, numbers], made))
        return made

    # --- code

    def function(self):
        self.results = [self._dense(r) for r in self.results]
        for group in list(dict.fromkeys(self.group_of.values())):
            self.close(group)
        wanted = {r for r in self.results if r.__class__ is int}
        read = self._read_by_others(wanted)
        kept, lines = self._drop_unread(wanted), []
        last: dict[int, int] = {}
        for at, (kind, what, made) in enumerate(kept):
            for a in self._reads(kind, what):
                last[a] = at
        dying: dict[int, list[int]] = collections.defaultdict(list)
        for a, at in last.items():
            if a not in wanted:
                dying[at].append(a)
        for a in self.input_names:
            if a in last or a in wanted:
                name = self.input_names[a]
                lines.append(f"v{a} = {name}")
                lines.append(f"if v{a}.__class__ is not ndarray: v{a} = asarray(v{a})")
        for at, (kind, what, made) in enumerate(kept):
            lines += self._code(kind, what, made, read)
            gone = [f"v{a}" for a in dying[at]]
            gone += [f"v{a}" for a in made if a not in last and a not in wanted and kind != "group"]
            if gone:
                lines.append(" = ".join(gone) + " = None")
        lines.append("return [" + ", ".join(map(self._text, self.results)) + "]")
        exec(
            compile("def run(i, p, n):\n" + "".join(f" {line}\n" for line in lines), "<ftorch host tier>", "exec"),
            self.scope,
        )  # noqa: S102
        return self.scope["run"]

    def _reads(self, kind, what):
        if kind == "group":
            return [a for a in what[0].inputs if a not in what[0].made]
        return [a for a in what[1] if a.__class__ is int]

    def _read_by_others(self, wanted):
        read = set(wanted)
        for kind, what, _ in self.lines:
            read.update(self._reads(kind, what))
        return read

    def _drop_unread(self, wanted):
        read, kept = set(wanted), []
        for kind, what, made in reversed(self.lines):
            if read.isdisjoint(made):
                continue
            kept.append((kind, what, made))
            read.update(self._reads(kind, what))
        return kept[::-1]

    def _text(self, a):
        if a.__class__ is int:
            return f"v{a}"
        if a[0] == "n":
            return f"n[{a[1]}]"
        if a[0] == "z":
            return f"p[{a[1]}].instance.numbers[{a[2]}]"
        return self._bound(a[1])

    def _bound(self, value):
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def _code(self, kind, what, made, read):
        targets = ", ".join(f"v{a}" for a in made)
        if kind == "call":
            run, arguments, is_many = what
            comma = "," if is_many else ""
            return [f"{targets}{comma} = {self._bound(run)}({', '.join(map(self._text, arguments))})"]
        if kind == "plan":
            number, operands, numbers = what
            listed = "".join(self._text(a) + ", " for a in operands)
            scalars = "".join(self._text(a) + ", " for a in numbers)
            return [f"{targets}, = host(p[{number}], ({listed}), ({scalars}))"]
        if kind == "step":
            step, operands, numbers = what
            listed = "".join(self._text(a) + ", " for a in operands)
            scalars = "".join(self._text(a) + ", " for a in numbers)
            return [f"{targets}, = {self._bound(step)}(({listed}), ({scalars}))"]
        return self._group_code(what[0], read)

    def _group_code(self, group, read):
        results = [number for *_, number in group.steps if number in read]
        program, inputs = program_of(group, results, self.values)
        targets = ", ".join(f"v{r}" for r in results)
        whole = None if group.shape == () else next(
            a for a in inputs  # numbers from outside have no entry
            if a.__class__ is int and a in self.values and self.shape(self.values[a].shape) == self.shape(group.shape)
        )
        listed = ", ".join(map(self._text, inputs))
        shape = "()" if whole is None else f"v{whole}.shape"
        return [f"{targets}, = {self._bound(program)}([{listed}], {shape})"]


def _program(plan):
    """The `ClassProgram` whose steps a plan's are, or None."""
    instance = plan.instance
    if instance is not None:
        return getattr(instance.of, "program", None) if instance.dtype is None else None
    return plan.program if plan.is_fixed() else None


def _exact_program(plan):
    """The `ClassProgram` whose steps a plan's are at its own sizes, or None."""
    instance = plan.instance
    if instance is not None:
        return getattr(instance.of, "program", None) if instance.dtype is None else None
    step_of(plan)
    return plan.program
