"""Size-generic programs: what the jaxprs of one kernel at several sizes have in common.

A kernel is traced at a few sample sizes. Where its jaxprs differ in nothing but numbers, and each number is a
formula of the sizes (`size_fit`), one flat list of steps stands for all sizes; it runs on NumPy arrays through the
rules of the host tier (`ftorch.eager.host`). A jaxpr at a single size is the special case without symbols.
"""

from __future__ import annotations

import functools
import random
from typing import Any, NamedTuple

import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr

from ..core import jaxprs
from ..host.interpret import meant
from ..host.rules import IN_PLACE, RULES, jaxprs_of
from .size_fit import Ambiguous, Constant, Formula, Merge, NotGeneral, function_of_sizes, places_of

EXACT_BELOW = 4  # sizes that kernels treat in their own ways: none, one (broadcast), two, three (a cross product)
_MOST_DRAWS = 32  # for each sample wanted, where not all sizes may be sampled
_SPANS = ((5, 40), (41, 150), (60, 400), (130, 700))  # of the sizes at the sample points, small ones first


class Kind(NamedTuple):
    """What a rule may know of an operand or result."""

    dtype: Any
    ndim: int


class Bodies(NamedTuple):
    """Programs of the jaxprs that a primitive holds, as the functions that its rule calls."""

    programs: tuple

    def at(self, sizes):
        return tuple([self._function(p.run, p.evaluate(sizes)) for p in self.programs])

    @staticmethod
    def _function(run, numbers):
        return lambda *arrays: run(arrays, numbers)


class Step(NamedTuple):
    """One primitive: operands are numbers of values, a `Constant` or a `Number`; ``sizes`` are templates.

    Attributes:
        outputs: the numbers of its results.
        given: templates of the operands' shapes; ``shapes`` those of the results.
        is_many: whether the rule gives a tuple.
    """

    primitive: str
    params: dict
    sizes: tuple
    inputs: tuple
    outputs: tuple[int, ...]
    kinds: tuple
    made: tuple
    shapes: tuple
    given: tuple
    is_many: bool


# --- one jaxpr, flat --------------------------------------------------------------------------


class _Flat(jaxprs.Walk):
    """The equations of a closed jaxpr with inner calls in their place and values numbered; what nobody reads is left out."""

    def __init__(self, closed: ClosedJaxpr):
        self.equations: list[tuple] = []  # (primitive name, params, operands, number of first output, outvars)
        self.count = len(closed.jaxpr.invars)
        self.inputs = [v.aval for v in closed.jaxpr.invars]
        self.outputs = self.run(closed.jaxpr, closed.consts, list(range(self.count)))
        self.output_avals = [v.aval for v in closed.jaxpr.outvars]
        self._drop_unread()

    def constant(self, value):
        return Constant(value)

    def literal(self, atom):
        return Constant(jaxprs.literal(atom)[()])

    def call(self, eqn, closed, given):
        found = self._extremum(eqn, given) if eqn.params.get("name") == "extremum" else None
        return found or super().call(eqn, closed, given)

    def equation(self, eqn, given):
        if eqn.effects:
            raise NotGeneral(f"{eqn.primitive.name} has effects")
        name = eqn.primitive.name
        if name == "optimization_barrier":
            return given
        if name == "convert_element_type" and given[0].__class__ is Constant:
            if (number := jaxprs.converted(given[0].value, eqn.params["new_dtype"])) is not None:
                return [Constant(number)]
        if (closed := meant(eqn)) is not None:
            return self.call(eqn, closed, given)
        found = list(range(self.count, self.count + len(eqn.outvars)))
        self.count += len(eqn.outvars)
        avals, made = [a.aval for a in eqn.invars], [v.aval for v in eqn.outvars]
        many = eqn.primitive.multiple_results
        self.equations.append((name, eqn.params, given, found, avals, made, many))
        return found

    def _extremum(self, eqn, given):
        """The results of `ftorch.eager.kernels.reduction.reductions.extremum`, which NumPy finds in one pass each; or None."""
        aval = eqn.invars[0].aval
        reduction = _reduction_of(eqn.params["jaxpr"].jaxpr, tuple(aval.shape))
        if reduction is None or len(given) != 1 or given[0].__class__ is not int or len(eqn.outvars) != 2:
            return None
        largest, (axis,) = reduction
        found = []
        for out, primitive, params in (
            (eqn.outvars[0], "reduce_max" if largest else "reduce_min", {"axes": (axis,)}),
            (
                eqn.outvars[1],
                "argmax" if largest else "argmin",
                {"axes": (axis,), "index_dtype": eqn.outvars[1].aval.dtype},
            ),
        ):
            kept = out.aval
            made = ShapedArray(tuple([n for d, n in enumerate(kept.shape) if d != axis]), kept.dtype)
            self.equations.append((primitive, params, given, [self.count], [aval], [made], False))
            self.equations.append(
                ("expand_dims", {"dimensions": (axis,)}, [self.count], [self.count + 1], [made], [kept], False)
            )
            found.append(self.count + 1)
            self.count += 2
        return found

    def _drop_unread(self):
        def values(operands):
            return [o for o in operands if o.__class__ is int]

        parts = [(equation[3], values(equation[2]), False) for equation in self.equations]
        self.equations, _ = jaxprs.read_steps(self.equations, values(self.outputs), parts)


def _reduction_of(jaxpr, shape):
    """(whether it is a maximum, axes) of the first reduction of an array of a shape to an extremum, or None."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in ("reduce_max", "reduce_min") and tuple(eqn.invars[0].aval.shape) == shape:
            return (name == "reduce_max", tuple(eqn.params["axes"])) if len(eqn.params["axes"]) == 1 else None
        inner = jaxprs.called(eqn)
        found = None if inner is None else _reduction_of(inner.jaxpr, shape)
        if found is not None:
            return found
    return None


# --- what several have in common --------------------------------------------------------------


class Call(NamedTuple):
    """A step, ready to run: ``run(*arguments)``.

    Attributes:
        arguments: values by their numbers, ("c", constant) or ("z", place among the varying numbers).
    """

    step: Step
    run: Any
    arguments: tuple


class ClassProgram:
    """The steps of a kernel for all sizes of a class.

    Attributes:
        inputs: how many operands it has: the first values.
        calls: its steps as `Call`.
        results: as arguments of calls are.
        shapes: templates of the results' shapes; ``result_shapes`` (sizes) -> the shapes.
        places: the shapes where each size is one of the symbols, ``-1 - n`` for the ``n``-th, or stays; else None.
        evaluate: (sizes) -> the varying numbers of all steps, as `run` wants them.
        run: (operands, numbers) -> tuple of results.
    """

    __slots__ = ("inputs", "calls", "results", "shapes", "dtypes", "places", "evaluate", "result_shapes", "symbols", "_run",
                 "_in_place", "__weakref__")

    def __init__(self, steps, inputs, results, shapes, dtypes, symbols):
        self.inputs, self.shapes, self.dtypes, self.symbols = inputs, shapes, dtypes, symbols
        self.result_shapes = function_of_sizes(symbols, _source(shapes)) if _varies(shapes) else lambda sizes: shapes
        self.places = places_of(shapes)
        varying = _Varying()
        self.calls = [
            Call(
                step,
                _rule(step.primitive).make(step.params, step.kinds, step.made),
                (*map(varying.operand, step.inputs), *map(varying.size, step.sizes)),
            )
            for step in steps
        ]
        self.results = tuple(map(varying.operand, results))
        self.evaluate = varying.function(symbols)
        self._run = self._in_place = None

    @property
    def run(self):
        if self._run is None:
            self._run = _compiled(self)
        return self._run

    @property
    def in_place(self):
        """`run` for a program that changes a part of its first operand, which it writes to; None if it is another."""
        if self._in_place is None:
            last = _in_place(self)
            self._in_place = False if last is None else _compiled(self, last)
        return self._in_place or None

    def is_at(self, closed, sizes) -> bool:
        """Whether a closed jaxpr, with concrete shapes, is this program at some sizes.

        Raises:
            NotGeneral: it has a step without a rule.
        """
        return _agree(self, sizes, merged([closed], [()]))


def _agree(program, sizes, other):
    """Whether a program at some sizes is another, which is for those alone."""
    numbers, others = program.evaluate(sizes), other.evaluate(())

    def same(a, b):
        if a.__class__ is int or b.__class__ is int:
            return a.__class__ is b.__class__ and a == b
        return _same(numbers[a[1]] if a[0] == "z" else a[1], others[b[1]] if b[0] == "z" else b[1])

    if (program.inputs, len(program.calls), program.dtypes) != (other.inputs, len(other.calls), other.dtypes):
        return False
    if len(program.results) != len(other.results) or program.result_shapes(sizes) != other.result_shapes(()):
        return False
    for call, (step, _, arguments) in zip(program.calls, other.calls):
        own = call.step
        if (own.primitive, own.outputs, own.kinds, own.made, own.is_many) != (
            step.primitive, step.outputs, step.kinds, step.made, step.is_many
        ) or len(arguments) != len(call.arguments):
            return False
        if own.params.keys() != step.params.keys() or not all(
            key in _UNREAD or _same(value, step.params[key]) for key, value in own.params.items()
        ):
            return False
        bodies = (own.sizes and own.sizes[-1], step.sizes and step.sizes[-1])
        count = len(arguments)
        if bodies[0].__class__ is Bodies:
            count -= 1
            if not all(_agree(p, sizes, q) for p, q in zip(bodies[0].programs, bodies[1].programs, strict=True)):
                return False
        if not all(map(same, call.arguments[:count], arguments[:count])):
            return False
    return all(map(same, program.results, other.results))


def _same(a, b):
    """Whether two parameters or constants are equal, -0.0 and 0.0 not being so."""
    if isinstance(a, (np.ndarray, np.generic)) or isinstance(b, (np.ndarray, np.generic)):
        a, b = np.asarray(a), np.asarray(b)
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    return a is b or (repr(a) == repr(b) if isinstance(a, float) else bool(a == b)) or jaxprs.is_same(a, b)


def _in_place(program):
    """The last step of a program with one result, its first operand with a part changed, as a call that changes the operand."""
    if not program.calls or program.results != (program.calls[-1].step.outputs[0],):
        return None
    step, _, arguments = program.calls[-1]
    place, make = IN_PLACE.get(step.primitive, (0, None))
    if make is None or sum(call.arguments.count(0) for call in program.calls) != 1 or arguments[place] != 0:
        return None
    if step.given[place] != step.shapes[0] or program.shapes[0] != step.shapes[0]:
        return None
    run = make(step.params, step.kinds, step.made)
    return None if run is None else Call(step, run, arguments[: len(step.inputs)])


class _Varying:
    """Collects the numbers that a program's sizes decide."""

    def __init__(self):
        self.sources: list[str] = []
        self.scope: dict[str, Any] = {}

    def _bound(self, value):
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def _add(self, source):
        self.sources.append(source)
        return ("z", len(self.sources) - 1)

    def size(self, template):
        return self._add(_source(template, self._bound)) if _varies(template) else ("c", template)

    def operand(self, o):
        if o.__class__ is int:
            return o
        if o.__class__ is Constant:
            return ("c", o.value)
        return self._add(f"{self._bound(o.dtype.type)}({_source(o.formula, self._bound)})")

    def function(self, symbols):
        source = "(" + "".join(f"{source}," for source in self.sources) + ")"
        return function_of_sizes(symbols, source, self.scope) if self.sources else lambda sizes: ()


def merged(jaxprs, points, same=()) -> ClassProgram:
    """The program that closed jaxprs, traced at sample points, have in common.

    Args:
        points: the sizes of each, in the order of the symbols; a single jaxpr has none.
        same: see `Merge`.

    Raises:
        NotGeneral: they differ by more than sizes, or have a step without a rule.
        Ambiguous: more points are wanted.
    """
    flats = [_Flat(closed) for closed in jaxprs]
    merge, first = Merge(points, same), flats[0]
    if any(len(f.equations) != len(first.equations) or len(f.outputs) != len(first.outputs) for f in flats):
        raise NotGeneral("other steps")
    steps = [_step(merge, equations) for equations in zip(*(f.equations for f in flats))]
    results = tuple(merge.operand(list(outputs)) for outputs in zip(*(f.outputs for f in flats)))
    shapes = tuple(merge.params([tuple(a.shape) for a in avals]) for avals in zip(*(f.output_avals for f in flats)))
    dtypes = tuple(a.dtype for a in first.output_avals)
    return ClassProgram(steps, len(first.inputs), results, shapes, dtypes, len(points[0]) if points else 0)


def _rule(name):
    """A primitive's rule; of one that holds jaxprs that which is given functions of any size."""
    found = RULES.get(name)
    return found and (found.general or found)


def _step(merge, equations):
    name, params, _, outputs, avals, made, is_many = equations[0]
    for other in equations:
        if other[0] != name or other[3] != outputs:
            raise NotGeneral("other steps")
        if [(a.dtype, a.ndim) for a in (*other[4], *other[5])] != [(a.dtype, a.ndim) for a in (*avals, *made)]:
            raise NotGeneral("other kinds of operands")
    rule = _rule(name)
    if rule is None:
        raise NotGeneral(f"no rule for {name}")
    bodies = None
    if rule.sizes[-1:] == ("bodies",):
        inner = zip(*(map(_closed, jaxprs_of(name, e[1])) for e in equations))
        bodies = Bodies(tuple([merged(jaxprs, merge.points, merge.same) for jaxprs in inner]))
    templates = {
        key: merge.params([e[1][key] for e in equations])
        for key in params if key not in _UNREAD and (bodies is None or key not in _HELD)
    }
    shapes = tuple(merge.params([tuple(a.shape) for a in avals]) for avals in zip(*(e[5] for e in equations)))
    given = tuple(merge.params([tuple(a.shape) for a in avals]) for avals in zip(*(e[4] for e in equations)))
    sizes = []
    for key in rule.sizes:
        if key == "out_shape":
            sizes.append(shapes[0])
        elif key == "out_shapes":
            sizes.append(shapes)
        elif key == "bodies":
            sizes.append(bodies)
        else:
            sizes.append(templates.pop(key))
    if any(map(_varies, templates.values())):
        raise NotGeneral(f"{name} depends on sizes by other parameters than {rule.sizes}")
    inputs = tuple(merge.operand(list(operands)) for operands in zip(*(e[2] for e in equations)))
    full = {**{key: params[key] for key in params if key in _UNREAD}, **templates}
    return Step(
        name, full, tuple(sizes), inputs, tuple(outputs), _aval_kinds(avals), _aval_kinds(made), shapes, given, is_many,
    )


_same_kinds = functools.lru_cache(4096)(lambda found: found)  # one object for the thousands of steps that have these


def _aval_kinds(avals):
    return _same_kinds(tuple([Kind(a.dtype, a.ndim) for a in avals]))


_UNREAD = frozenset({"sharding", "out_sharding", "name", "accuracy"})
_HELD = frozenset({"jaxpr", "cond_jaxpr", "body_jaxpr", "branches", "jaxprs"})


def _closed(jaxpr):
    return jaxpr if isinstance(jaxpr, ClosedJaxpr) else ClosedJaxpr(jaxpr, ())


def _varies(template):
    if template.__class__ is Formula or template.__class__ is Bodies:
        return True
    return isinstance(template, (tuple, list)) and any(map(_varies, template))


# --- as Python code ---------------------------------------------------------------------------


def _source(template, bound=repr) -> str:
    """Python source of a template.

    Args:
        bound: gives the name of what is no number.
    """
    if template.__class__ is Formula:
        return template.source
    if template.__class__ is Bodies:
        return f"{bound(template.at)}(s)"
    if isinstance(template, tuple) and hasattr(template, "_fields"):
        return f"{bound(template.__class__)}(" + "".join(_source(t, bound) + "," for t in template) + ")"
    if isinstance(template, (tuple, list)):
        return "(" + "".join(_source(t, bound) + "," for t in template) + ")"
    return repr(template) if isinstance(template, (int, float)) else bound(template)


def _compiled(program, last=None):
    """The function (operands, numbers) -> results of a program.

    Args:
        last: takes the place of the last step.
    """
    calls = program.calls if last is None else [*program.calls[:-1], last]
    scope: dict[str, Any] = {}

    def argument(a):
        if a.__class__ is int:
            return f"v{a}"
        if a[0] == "z":
            return f"z[{a[1]}]"
        name = f"c{len(scope)}"
        scope[name] = a[1]
        return name

    last_use: dict[int, int] = {}
    for number, call in enumerate(calls):
        last_use.update((a, number) for a in call.arguments if a.__class__ is int)
    kept = {a for a in program.results if a.__class__ is int}
    lines = ["".join(f"v{i}," for i in range(program.inputs)) + " = a"] if program.inputs else []
    for number, call in enumerate(calls):
        run = argument(("c", call.run))
        targets = ", ".join(f"v{o}" for o in call.step.outputs) + ("," if call.step.is_many else "")
        lines.append(f"{targets} = {run}({', '.join(map(argument, call.arguments))})")
        dead = [f"v{o}" for o, at in last_use.items() if at == number and o not in kept and o >= program.inputs]
        if dead:
            lines.append(f"{' = '.join(dead)} = None")
    lines.append("return (" + "".join(argument(r) + "," for r in program.results) + ")")
    exec(compile("def run(a, z):\n" + "".join(f" {line}\n" for line in lines), "<ftorch host tier>", "exec"), scope)  # noqa: S102
    return scope["run"]


# --- at sample points -------------------------------------------------------------------------


def sampled(first, second, ordered, fixed=(), fits=None) -> list[tuple]:
    """Sizes to trace at: those seen, and others; all distinct where those seen are.

    Args:
        ordered: whether the sizes at each point are in the order of ``second``.
        fixed: indices of sizes that stay.
        fits: (sizes) -> whether they may be sampled; None: all may.

    Raises:
        NotGeneral: too few fit.
    """
    count = len(second)
    points = [tuple(second)]
    if order(first) == order(second) or not ordered:
        points.append(tuple(first))
    draw = random.Random(0x5EED + count)
    ascending = order(second)
    kept = {second[i] for i in fixed}
    free = [i for i in range(count) if i not in fixed]
    draws = max(4, count + 3)
    wanted = len(points) + draws
    for k in range(draws if fits is None else draws * _MOST_DRAWS):
        low, high = _SPANS[k % len(_SPANS)]
        chosen = [n for n in draw.sample(range(low, high), count + len(kept)) if n not in kept][:count]
        point = list(second)
        if ordered and not fixed:
            for i, n in zip(ascending, sorted(chosen)):
                point[i] = n
        else:
            for i, n in zip(free, chosen):
                point[i] = n
        if len(set(point)) == count and (not ordered or fixed or order(point) == order(second)):
            if fits is None:
                points.append(tuple(point))
            elif len(points) < wanted and tuple(point) not in points and fits(point):
                points.append(tuple(point))
    if fits is not None and len(points) < wanted:
        raise NotGeneral("too few sizes fit")
    return points


def least(sizes, ordered, fixed):
    """Sizes of which one, or all, are as small as those of their class are: what a kernel refuses, if it is no sample."""
    ascending = order(sizes)
    before = dict(zip(ascending[1:], ascending)) if ordered else {}
    smallest = [sizes[before[i]] + 1 if i in before else EXACT_BELOW for i in range(len(sizes))]
    for i in range(len(sizes)):
        if i not in fixed:
            yield (*sizes[:i], smallest[i], *sizes[i + 1 :])
    if not fixed:
        yield tuple([EXACT_BELOW + ascending.index(i) for i in range(len(sizes))])


def order(sizes):
    return sorted(range(len(sizes)), key=sizes.__getitem__)


def merged_at(points, trace, fits=None) -> tuple[ClassProgram, bool, bool]:
    """(the program that traces of a kernel at sample points have in common, whether it has one result, `SizeClass.inline`).

    The first is traced as it is. JAX keeps a jaxpr, at these sizes, for each function of its own that is compiled by
    itself: the kernel's other traces are made without (`jax.disable_jit`). Here jaxprs stand in the place of
    their calls, so that nothing else differs.

    Args:
        points: a list, which gets those that are wanted beside them.
        trace: (sizes, whether inner calls are written out) -> (closed jaxpr, whether there is one result).
        fits: see `sampled`.

    Raises:
        NotGeneral: see `merged`.
    """
    first, is_single = trace(points[0], False)
    inline, others = not jaxprs.has_loops(first.jaxpr), []
    try:
        for point in points[1:]:
            others.append(trace(point, inline)[0])
            if len(others[-1].jaxpr.eqns) != len(others[0].jaxpr.eqns):
                raise NotGeneral("other steps")
        return _merged([first, *others], points, lambda point: trace(point, inline)[0], fits), is_single, inline
    except NotGeneral:
        if not inline or _is_same(first, trace(points[0], True)[0]):
            raise
    others = [trace(point, False)[0] for point in points[1:]]
    return _merged([first, *others], points, lambda point: trace(point, False)[0], fits), is_single, False


_MOST_WANTED = 32  # sample points beside those of `sampled`


def _merged(closed, points, trace, fits):
    """`merged`, with more points until no number has two formulas."""
    same: set = set()
    for _ in range(_MOST_WANTED):
        try:
            return merged(closed, points, same)
        except Ambiguous as several:
            point = _telling(several, points, fits)
            if point is None:
                same.add(several.values_at)
                continue
        closed.append(trace(point))
        points.append(point)
    raise NotGeneral("numbers that follow several formulas")


def _telling(several, points, fits):
    """A sample point at which the formulas of a number differ, in the order of sizes that the others have, if they have one;
    None: they differ at sizes only that the kernel does not take, or takes another way."""
    is_refused, i, orders = False, several.symbol, {tuple(order(point)) for point in points}
    for point in points:
        for n in several.values(point[i]):
            found = (*point[:i], n, *point[i + 1 :])
            if n >= EXACT_BELOW and len(set(found)) == len(found) and (
                len(orders) > 1 or tuple(order(found)) in orders
            ):
                if fits is None or fits(found):
                    return found
                is_refused = True
    if is_refused:
        return None
    raise NotGeneral("no point tells formulas apart") from None


def _is_same(closed, other):
    try:
        merged([closed, other], [(), ()])
    except NotGeneral:
        return False
    return True
