"""Programs for many sizes: what ``torch.compile`` compiles once where arguments vary in size.

Each new size is captured like a first call: what Python does is right for every size. Its program is
then compared with those of other sizes (`size_dependence`). If it is one of them but for the sizes, it need not be
compiled: one program that is padded (`padded`) makes all their calls. Scalars that differ, such as the
number of elements that a mean divides by, are numbers that the shared program is given.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...eager.runtime import capture_trace
from ...eager.runtime import compilation as _compilation
from ...eager.runtime.counters import stats
from ..capture.lowering import Lowered
from .padded import Padded, Unknown, Value, of_expression
from .size_dependence import Expression, Form, form_of, infer

_MOST_KEPT = 4  # programs of single sizes that a new one is compared with
_MOST_FAILURES = 3


class Traced:
    """A program as JAX sees it, before it is compiled."""

    def __init__(self, lowered: Lowered):
        self.lowered = lowered
        numbers = () if lowered.places is None else (jax.ShapeDtypeStruct(lowered.places.shape, np.float64),)

        def function(arrays, *numbers):
            return lowered.function(arrays, *numbers)

        with capture_trace.outside_capture():
            self.closed = jax.make_jaxpr(function)(avals(lowered), *numbers)
        self.form: Form = form_of(self.closed)
        self.inputs_at = sum(len(v.aval.shape) for v in self.closed.jaxpr.constvars)  # in the form


def avals(lowered: Lowered):
    """The kinds of the arrays that a program takes."""
    table, found = lowered.table, []
    for operand in lowered.starts:
        if operand < 0:
            root = table.roots[-1 - operand]
        else:
            step = table.steps[table.maker[operand]]
            root = step.plan.geometries[operand - step.slot]
        found.append(jax.ShapeDtypeStruct(root.shape, root.dtype.numpy))
    return found


class Template:
    """What programs of different sizes have in common.

    Raises:
        Unknown: the two are not alike.
    """

    def __init__(self, one: Traced, other: Traced):
        self.one, self.other = one, other
        a, b = one.form, other.form
        if a.skeleton != b.skeleton or len(a.integers) != len(b.integers):
            raise Unknown("another program")
        self.origins = _origins(a, b, one)
        self.samples = tuple(tuple(f.integers[i] for i in self.origins) for f in (a, b))
        self.varying: dict[int, Expression] = {}
        known: dict[tuple[int, int], Expression | None] = {}
        for i, pair in enumerate(zip(a.integers, b.integers)):
            if pair[0] != pair[1]:
                if pair not in known:
                    known[pair] = infer(pair, self.samples)
                if known[pair] is None:
                    raise Unknown(f"a length that is {pair[0]} and {pair[1]}")
                self.varying[i] = known[pair]
        # Numbers at one place of a function that is called twice have to stay the same.
        groups: dict[Any, list[int]] = {}
        for i, holder in enumerate(a.holders):
            groups.setdefault(holder, []).append(i)
        self.groups = [g for g in groups.values() if len(g) > 1]
        lifted = {i for i, (x, y) in enumerate(zip(a.scalars, b.scalars)) if not _equal(x, y)}
        if any(isinstance(a.scalars[i], (bool, complex)) for i in lifted):
            raise Unknown("a constant that varies")
        self.lifted = sorted(lifted)
        self.programs: dict[tuple[int, ...], Shared] = {}
        self.largest = tuple(map(max, *self.samples))

    def sizes(self, form: Form) -> tuple[int, ...] | None:
        """The sizes of a program, if it is one of these."""
        a = self.one.form
        if form.skeleton != a.skeleton or len(form.integers) != len(a.integers):
            return None
        sizes = tuple(form.integers[i] for i in self.origins)
        if any(n < 2 for n in sizes):
            return None
        for i, (n, known) in enumerate(zip(form.integers, a.integers)):
            e = self.varying.get(i)
            if n != (known if e is None else e.at(sizes)):
                return None
        lifted = set(self.lifted)
        for i, (x, y) in enumerate(zip(form.scalars, a.scalars)):
            if i not in lifted and not _equal(x, y):
                return None
        if any(not _equal(form.scalars[i], form.scalars[g[0]]) for g in self.groups for i in g):
            return None
        return sizes

    def program(self, sizes) -> Shared:
        """The program that makes calls of the given sizes."""
        fit = [k for k in self.programs if all(n <= m for n, m in zip(sizes, k))]
        if fit:
            return self.programs[min(fit, key=math.prod)]
        grows = self.programs or sizes == self.largest
        lengths = tuple(
            1 << (n - 1).bit_length() if grows and n >= m else m for n, m in zip(sizes, self.largest)
        )
        program = self.programs[lengths] = Shared(self, lengths)
        self.largest = lengths
        return program


def _equal(x, y):
    return type(x) is type(y) and (x == y or (x != x and y != y)) and (
        x != 0 or math.copysign(1, x.real) == math.copysign(1, y.real)
    )


def _origins(a: Form, b: Form, traced):
    """Where among the integers the sizes are that vary by themselves: lengths of inputs."""
    first = traced.inputs_at
    count = sum(len(v.shape) for v in traced.closed.in_avals)
    pairs = {(a.integers[i], b.integers[i]): i for i in reversed(range(first, first + count))}
    found: list[int] = []
    for pair in sorted(p for p in pairs if p[0] != p[1]):
        samples = tuple(tuple(f.integers[i] for i in found) for f in (a, b))
        known = infer(pair, samples) if found else None
        if known is None or known.constant or len(known.terms) > 1:  # not a multiple
            found.append(pairs[pair])
    return found


class Shared:
    """A padded program: `bound` gives what stands for a program of a single size."""

    def __init__(self, template: Template, lengths):
        self.template, self.lengths = template, lengths
        one, base = template.one.closed, template.one.lowered
        samples, varying = template.samples, template.varying
        self.dims, at = [], template.one.inputs_at
        for aval in one.in_avals:
            self.dims.append([
                varying.get(at + i, Expression((), n)) for i, n in enumerate(aval.shape)
            ])
            at += len(aval.shape)
        self.inputs = [tuple(map(of_expression, dims)) for dims in self.dims]
        self.donated = [p for p in base.donated if not any(e.terms for e in self.dims[p])]
        self.kept = [p for p in range(len(base.starts)) if p not in self.donated]
        self.outputs: list[Any] = []
        where = [template.one.form.holders[i] for i in template.lifted]

        def program(kept, given, numbers, sizes, scalars):
            arrays: list[Any] = [None] * len(base.starts)
            for p, array in (*zip(self.kept, kept), *zip(self.donated, given)):
                arrays[p] = array
            arrays += () if numbers is None else (numbers,)
            real = [_compilation.element(sizes, i) for i in range(len(lengths))]
            padded = Padded(samples, lengths, real, dict(zip(where, scalars)))
            results = padded.run(
                one.jaxpr, template.other.closed.jaxpr, one.consts,
                [Value(a, d) for a, d in zip(arrays, self.inputs, strict=True)],
            )
            results = [padded.settled(v) for v in results]
            self.outputs = [v.dims for v in results]
            return [results[place].array for place in base.order]

        example = [
            jax.ShapeDtypeStruct([math.prod(f.at(lengths) for f in d) for d in dims], aval.dtype)
            for dims, aval in zip(self.inputs, one.in_avals)
        ]
        numbers = None if base.places is None else example.pop()
        given = (
            [example[p] for p in self.kept], [example[p] for p in self.donated], numbers,
            np.zeros(len(lengths), np.int64), self.scalars(template.one.form),
        )
        try:
            jax.eval_shape(program, *given)
        except Unknown:
            raise
        except Exception as error:  # of JAX: operands that a rule made do not fit
            raise Unknown(f"{type(error).__name__}: {error}") from error
        stats.compilations += 1
        self.run = _compilation.jitted(program, donates=bool(self.donated), on_cpu=True, steps=len(base.steps))
        self.places = _compilation.places(base.order)

    def scalars(self, form: Form):
        """The numbers that stand in a program of one size."""
        values = [form.scalars[i] for i in self.template.lifted]
        return [np.int64(v) if isinstance(v, int) else np.float64(v) for v in values]

    def bound(self, traced: Traced, sizes):
        """For one size: (the program, what makes its operands of those of `Lowered.jitted`, what makes the outputs
        of its results)."""
        lowered, scalars = traced.lowered, self.scalars(traced.form)
        own = np.array(sizes, np.int64)
        outside = set(self.donated) - set(lowered.donated)

        def prepare(kept, given, numbers):
            arrays: list[Any] = [None] * len(lowered.starts)
            for p, array in (*zip(lowered.kept, kept), *zip(lowered.donated, given)):
                arrays[p] = array
            arrays = [self._padded(a, d, sizes) for a, d in zip(arrays, self.inputs)]
            for p in outside:
                arrays[p] = arrays[p].copy()
            return [arrays[p] for p in self.kept], [arrays[p] for p in self.donated], numbers, own, scalars

        def finish(results):
            return [self._cut(results[i], d, sizes) for i, d in zip(self.places, self.outputs)]

        return self.run, prepare, finish

    def _padded(self, array, dims, sizes):
        """An array of true size, with something behind it."""
        if not any(f.terms for d in dims for f in d):
            return array
        true = [f.at(sizes) for d in dims for f in d]
        host = np.zeros([f.at(self.lengths) for d in dims for f in d], array.dtype)
        host[tuple(map(slice, true))] = np.asarray(array).reshape(true)
        return jnp.asarray(host.reshape([math.prod(f.at(self.lengths) for f in d) for d in dims]))

    def _cut(self, array, dims, sizes):
        """The true part of an array."""
        if not any(f.terms for d in dims for f in d):
            return array
        whole = np.asarray(array).reshape([f.at(self.lengths) for d in dims for f in d])
        part = whole[tuple(slice(f.at(sizes)) for d in dims for f in d)]
        return jnp.asarray(np.ascontiguousarray(part).reshape([math.prod(f.at(sizes) for f in d) for d in dims]))


class Family:
    """The programs of one function that differ in sizes, or in the numbers that stand in them.

    Attributes:
        soon: whether the second size is shared, or only the third: two sizes are mostly those of
            training and of the last batch, and run best in programs of their own.
    """

    def __init__(self, soon: bool):
        self.soon = soon
        self.single: list[Any] = []  # programs of one size: `Lowered`, or `Traced` once compared
        self.elements: list[int] = []  # of their inputs: the largest is compared first
        self.templates: list[Template] = []
        self.failures = 0
        self.reasons: list[str] = []

    def __call__(self, lowered: Lowered):
        """What makes a program's calls instead of it; None if it is to be compiled."""
        if len(self.single) + bool(self.templates) < (1 if self.soon else 2) or (
            self.failures >= _MOST_FAILURES
        ):
            self._keep(lowered)
            return None
        traced = Traced(lowered)
        for template in self.templates:
            sizes = template.sizes(traced.form)
            if sizes is not None:
                try:
                    return template.program(sizes).bound(traced, sizes)
                except Unknown as error:
                    self.reasons.append(str(error))
        for i in sorted(range(len(self.single)), key=lambda i: self.elements[i], reverse=True):
            if isinstance(self.single[i], Lowered):
                self.single[i] = Traced(self.single[i])
            try:
                template = Template(self.single[i], traced)
                sizes = template.sizes(traced.form)
                if sizes is not None:
                    shared = template.program(sizes).bound(traced, sizes)
                    self.templates.append(template)
                    return shared
            except Unknown as error:
                self.reasons.append(str(error))
        self.failures += 1
        self._keep(traced)
        return None

    def _keep(self, program):
        lowered = program.lowered if isinstance(program, Traced) else program
        self.elements = [*self.elements, sum(a.size for a in avals(lowered))][-_MOST_KEPT:]
        self.single = [*self.single, program][-_MOST_KEPT:]
