"""Programs for many sizes: what is compiled once where a compiled function's arguments, or an accelerator's traces, vary
in size.

Each new size is recorded like a first one: what Python does is right for every size. Its program is
then compared with those of other sizes (`size_dependence`). If it is one of them but for the sizes, it need not be
compiled: one program that is padded (`padded`) makes all their calls. Scalars that differ, such as the
number of elements that a mean divides by, are numbers that the shared program is given.
"""

from __future__ import annotations

import math
import weakref
from typing import Any, Protocol

import jax
import numpy as np

from ..core import device as _device
from ..core import jax_scope
from ..kernels.nn import conv_xla
from ..memory.program_inputs import for_program
from ..runtime import capture_trace
from ..runtime import compilation as _compilation
from ..runtime.counters import stats
from .padded import Padded, Unknown, Value
from .size_dependence import Factors, Form, fixed, form_of, infer, kept, product

_MOST_KEPT = 4  # programs of single sizes that a new one is compared with
_MOST_FAILURES = 3
_MOST_TEMPLATES = 8  # of a family; those that served longest ago go


class Unlowered(Protocol):
    """A program that is not compiled yet, as a family takes it.

    Attributes:
        avals: shapes and dtypes of its arrays; ``numbers_avals`` a tree of those of its numbers, which have no size.
        donated: the arrays whose memory it may take over; ``kept`` the others.
        order: of its results in the compiled program: first those that replace what is donated.
        step_count: of how many steps it is made.
        device: where it runs; None: on the CPU.
    """

    avals: Any
    numbers_avals: Any
    donated: Any
    kept: Any
    order: Any
    step_count: int
    device: Any

    def function(self, arrays, numbers=None) -> Any:
        """The results for the arrays."""


def _precision():
    """What a program's products and convolutions are traced with, besides their operands."""
    return jax_scope.precision(), conv_xla.tf32


class Traced:
    """A program as JAX sees it, before it is compiled."""

    def __init__(self, lowered: Unlowered):
        self.lowered, self.precision = lowered, _precision()
        with capture_trace.outside_capture():
            self.closed = jax.make_jaxpr(lowered.function)(lowered.avals, lowered.numbers_avals)
        self.form: Form = form_of(self.closed)
        self.inputs_at = sum(len(v.aval.shape) for v in self.closed.jaxpr.constvars)  # in the form

    def now(self) -> Traced:
        """The same program with the precision that is set now."""
        return self if self.precision == _precision() else Traced(self.lowered)


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
        self.varying: dict[int, Factors] = {}
        known: dict[tuple[int, int], Factors | None] = {}
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
            if n != (known if e is None else product(e, sizes)):
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
        fit = [k for k, program in self.programs.items() if program.has_room(sizes)]
        if fit:
            return self.programs[min(fit, key=math.prod)]
        grows = self.programs or sizes == self.largest
        lengths = tuple(_roomy(n) if grows and n >= m else m for n, m in zip(sizes, self.largest))
        program = Shared(self, lengths)
        while not program.has_room(sizes):
            lengths = tuple(
                _roomy(n + more) if n + more > m else m for n, more, m in zip(sizes, program.room, lengths)
            )
            program = Shared(self, lengths)
        self.programs[lengths] = program
        self.largest = lengths
        return program


_FINE = 512  # sizes behind which what is padded costs more than another program does


def _roomy(size):
    """A length for a size and those that come after it: the next power of two, of large ones an eighth of it more."""
    power = 1 << (size - 1).bit_length()
    unit = power if power <= _FINE else power // 8
    return -(-size // unit) * unit


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
        if known is None or any(f.constant and f.terms or len(f.terms) > 1 for f in known):  # not a multiple
            found.append(pairs[pair])
    return found


class Shared:
    """A padded program."""

    def __init__(self, template: Template, lengths):
        self.template, self.lengths = template, lengths
        one, base = template.one.closed, template.one.lowered
        samples, varying = template.samples, template.varying
        self.inputs: list[Any] = []
        at = template.one.inputs_at
        for aval in one.in_avals:
            self.inputs.append(tuple(varying.get(at + i, fixed(n)) for i, n in enumerate(aval.shape)))
            at += len(aval.shape)
        self.donated = [p for p in base.donated if not any(f.terms for d in self.inputs[p] for f in d)]
        self.count = len(base.avals)
        self.kept = [p for p in range(self.count) if p not in self.donated]
        self.outputs: list[Any] = []
        self.room = [0] * len(lengths)

        def program(kept, given, numbers, sizes, scalars):
            now, other = template.one.now(), template.other.now()
            where = [now.form.holders[i] for i in template.lifted]
            arrays: list[Any] = [None] * self.count
            for p, array in (*zip(self.kept, kept), *zip(self.donated, given)):
                arrays[p] = array
            arrays += jax.tree.leaves(numbers)
            real = [_compilation.element(sizes, i) for i in range(len(lengths))]
            padded = Padded(samples, lengths, real, dict(zip(where, scalars)))
            results = padded.run(
                now.closed.jaxpr, other.closed.jaxpr, now.closed.consts,
                [Value(a, d) for a, d in zip(arrays, self.inputs, strict=True)],
            )
            results = [padded.settled(v) for v in results]
            self.outputs, self.room = [v.dims for v in results], padded.room
            return [results[place].array for place in base.order]

        example = [
            jax.ShapeDtypeStruct([kept(d, lengths) for d in dims], aval.dtype)
            for dims, aval in zip(self.inputs, one.in_avals)
        ]
        given = (
            [example[p] for p in self.kept], [example[p] for p in self.donated], base.numbers_avals,
            np.zeros(len(lengths), np.int64), self.scalars(template.one.form),
        )
        try:
            jax.eval_shape(program, *given)
        except Unknown:
            raise
        except Exception as error:  # of JAX: operands that a rule made do not fit
            raise Unknown(f"{type(error).__name__}: {error}") from error
        stats.compilations += 1
        self.device = base.device or _device.CPU
        self.run = _compilation.jitted(
            program, donates=bool(self.donated), device=self.device, steps=base.step_count
        )
        self.places = _compilation.places(base.order)

    def has_room(self, sizes) -> bool:
        """Whether sizes, and what is a little more than they, have room in the program's arrays."""
        return all(n + more <= m for n, more, m in zip(sizes, self.room, self.lengths))

    def scalars(self, form: Form):
        """The numbers that stand in a program of one size."""
        values = [form.scalars[i] for i in self.template.lifted]
        return [np.int64(v) if isinstance(v, int) else np.float64(v) for v in values]

    def padded(self, array, dims, sizes):
        """An array of true size, with something behind it."""
        if not any(f.terms for d in dims for f in d):
            return for_program(array) if self.device is _device.CPU else array
        true, full = _lengths(dims, sizes, self.lengths)
        known = _wholes.get(id(array))
        if known is not None and known[0]() is array and known[1].shape == tuple(full):
            return known[1]
        host = np.zeros(full, array.dtype)
        host[tuple(map(slice, true))] = np.asarray(array).reshape(true)
        return _compilation.put(host.reshape([kept(d, self.lengths) for d in dims]), self.device)

    def cut(self, array, dims, sizes):
        """The true part of an array; on the CPU one that is seen where it lies, and is its whole for the next call."""
        if not any(f.terms for d in dims for f in d):
            return array
        true, full = _lengths(dims, sizes, self.lengths)
        part = np.asarray(array).reshape(full)[tuple(map(slice, true))]
        if self.device is _device.CPU and len(full) == len(dims) and _is_most(part, full):
            _note_whole(part, array)
            return part
        part = np.ascontiguousarray(part).reshape([product(d, sizes) for d in dims])
        return _compilation.put(part, self.device)


_wholes: dict[int, tuple[weakref.ref, Any]] = {}  # of parts that are seen where they lie, by their ids
_LEAST_SEEN = 1 << 14  # bytes of a part that is not rather copied


def _lengths(dims, sizes, lengths):
    """What an array of some dimensions is long in truth and in a program, by factors."""
    return [f.at(sizes) for d in dims for f in d], [f.kept(lengths) for d in dims for f in d]


def _is_most(part, full):
    """Whether a part is worth its whole's memory."""
    return part.nbytes >= _LEAST_SEEN and 2 * part.size >= math.prod(full)


def _note_whole(part, whole):
    key = id(part)

    def forget(reference):
        if (found := _wholes.get(key)) is not None and found[0] is reference:
            del _wholes[key]

    _wholes[key] = weakref.ref(part, forget), whole


class Bound:
    """A `Shared` program for one size: ``run(*operands(kept, given, numbers))`` gives what `results` takes.

    Attributes:
        run: the compiled function.
    """

    def __init__(self, shared: Shared, traced: Traced, sizes):
        self.shared, self.run, self._sizes = shared, shared.run, sizes
        self._kept, self._given = list(traced.lowered.kept), list(traced.lowered.donated)
        self._lengths, self._scalars = np.array(sizes, np.int64), shared.scalars(traced.form)
        self._outside = set(shared.donated) - set(self._given)

    def operands(self, kept, given, numbers):
        """What the function takes, of what `Unlowered` describes."""
        shared = self.shared
        arrays: list[Any] = [None] * shared.count
        for p, array in (*zip(self._kept, kept), *zip(self._given, given)):
            arrays[p] = array
        arrays = [shared.padded(a, d, self._sizes) for a, d in zip(arrays, shared.inputs)]
        for p in self._outside:
            arrays[p] = arrays[p].copy()
        return (
            [arrays[p] for p in shared.kept], [arrays[p] for p in shared.donated], numbers, self._lengths, self._scalars
        )

    def results(self, raw):
        """The results of true size, in the order of `Unlowered.function`."""
        shared = self.shared
        return [shared.cut(raw[i], d, self._sizes) for i, d in zip(shared.places, shared.outputs)]


class Family:
    """The programs of one function that differ in sizes, or in the numbers that stand in them.

    Attributes:
        soon: whether the second size is shared, or only the third: two sizes are mostly those of
            training and of the last batch, and run best in programs of their own.
    """

    def __init__(self, soon: bool):
        self.soon = soon
        self.single: list[Any] = []  # programs of one size: `Unlowered`, or `Traced` once compared
        self.elements: list[int] = []  # of their inputs: the largest is compared first
        self.templates: list[Template] = []
        self.failures = 0
        self.reason = ""  # why the last program was not shared
        self.precision = _precision()

    def __call__(self, lowered: Unlowered):
        """The `Bound` program that makes a program's calls instead of it; None if it is to be compiled."""
        if self.precision != _precision():  # programs of the other are not alike
            self.single, self.elements, self.templates, self.failures = [], [], [], 0
            self.precision = _precision()
        if len(self.single) + bool(self.templates) < (1 if self.soon else 2) or (
            self.failures >= _MOST_FAILURES
        ):
            self._keep(lowered)
            return None
        traced = Traced(lowered)
        for template in reversed(self.templates):
            sizes = template.sizes(traced.form)
            if sizes is not None:
                try:
                    found = Bound(template.program(sizes), traced, sizes)
                except Unknown as error:
                    self.reason = str(error)
                else:
                    self._served(template)
                    return found
        for i in sorted(range(len(self.single)), key=lambda i: self.elements[i], reverse=True):
            if not isinstance(self.single[i], Traced):
                self.single[i] = Traced(self.single[i])
            try:
                template = Template(self.single[i], traced)
                sizes = template.sizes(traced.form)
                if sizes is not None:
                    shared = Bound(template.program(sizes), traced, sizes)
                    self._served(template)
                    return shared
            except Unknown as error:
                self.reason = str(error)
        self.failures += 1
        self._keep(traced)
        return None

    def _served(self, template):
        others = [t for t in self.templates if t is not template]
        self.templates = [*others, template][-_MOST_TEMPLATES:]

    def _keep(self, program):
        lowered = program.lowered if isinstance(program, Traced) else program
        self.elements = [*self.elements, sum(a.size for a in lowered.avals)][-_MOST_KEPT:]
        self.single = [*self.single, program][-_MOST_KEPT:]
