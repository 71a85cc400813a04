"""Size classes: calls that differ in nothing but sizes share the shapes of their results and a program for all sizes.

A call's *signature* says what a kernel's code can depend on besides sizes: dtypes, ranks, static arguments, which
sizes are equal, which way a kernel goes that compares them (`OpDef.by_regime`), and sizes below `EXACT_BELOW` as they
are. Distinct larger sizes are symbols. When a second set of sizes comes, the kernel is traced at sample sizes far
apart; where the traces agree but for numbers that are formulas of the symbols, the class is *general*: a new set of
sizes runs no kernel and no tracer. Where they do not agree, those sizes stay in the samples that two calls have in
common (a layer's weights), then their order (a kernel may compare them); a kernel that still does not fit has a plan
for each size. A kernel that refuses some sizes is asked before its class is taken.

Sizes that are equal by chance (a batch as long as its texts), or small, give a signature of their own. Such a call is
traced once; where that is a general class's program at those sizes, the class serves the signature, too (`Adopted`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core import forking, jax_internals
from ..core.geometry import Size
from ..core.suppressed_warnings import quiet
from ..kernels._primitives import for_all_sizes
from .jaxpr_classes import EXACT_BELOW, ClassProgram, least, merged_at, order, sampled
from .size_fit import NotGeneral

_MOST = 1024  # classes of one op
_MOST_SYMBOLS = 8
_REPEATS = 4  # plans of the same sizes, whose operands differ in strides, after which a class is made of them
_MOST_SEEN = 4  # calls of a signature that are compared with a new one
_MOST_REFUSED = 6  # sets of sizes that might stay, after which others are not tried
_MOST_WAITING = 256  # signatures of one op whose first plans are known
_lock = forking.rlock()

# How the sizes of a signature are sampled: each is tried where the one before found no common program.
FREE, ORDERED, CHANGED, EXACT = range(4)


class SizeSymbol:
    """Stands in a signature for the ``n``-th distinct size."""

    __slots__ = ("n",)

    def __init__(self, n):
        self.n = n

    def __repr__(self):
        return f"<s{self.n}>"


SYMBOLS = tuple([SizeSymbol(n) for n in range(_MOST_SYMBOLS)])


class Signature:
    """What a call's code depends on, and its sizes.

    Attributes:
        key: hashable; the same for calls of one class.
        sizes: the value of each symbol.
        has_static: whether a static argument is among the symbols.
        regime: see `signature`.
    """

    __slots__ = ("key", "sizes", "has_static", "regime")

    def __init__(self, key, sizes, has_static, regime=None):
        self.key, self.sizes, self.has_static, self.regime = key, sizes, has_static, regime


def signature(slots, tensors, types, regime=None) -> Signature | None:
    """The signature of a call; None if it has too many sizes to be worth a class.

    Args:
        slots: of the arguments, as `planning.Structure` has them.
        tensors: the flat tensor operands.
        types: of the Python numbers among the operands.
        regime: what else calls of a class have in common (`OpDef.by_regime`).
    """
    known: dict[int, SizeSymbol] = {}
    shapes = []
    for t in tensors:
        g = t._ftorch_geometry
        if g.dtype.stored:
            return None
        try:
            shapes.append((g.dtype, *[n if n < EXACT_BELOW else known.get(n) or symbol(n, known) for n in g.shape]))
        except OverflowError:
            return None
    fixed: list = []
    uses_static = False
    for slot in slots:
        if slot[0] == "v" and isinstance(slot[1], (int, tuple)) and slot[1].__class__ is not bool:
            try:
                value = abstract(slot[1], known)
            except OverflowError:
                return None
            uses_static = uses_static or _has_symbols(value)
            fixed.append(("v", value))
        elif slot[0] == "v":
            fixed.append(("v", Typed(slot[1].__class__, slot[1])))
        else:
            fixed.append(slot)
    return Signature((tuple(shapes), tuple(fixed), (regime, *types)), tuple(known), uses_static, regime)


class Typed(NamedTuple):
    """A static argument in a key, where ``1``, ``1.0`` and ``True`` differ."""

    kind: type
    value: Any


def symbol(n, known):
    """The symbol of a size that is new.

    Raises:
        OverflowError: there are too many.
    """
    if len(known) == _MOST_SYMBOLS:
        raise OverflowError
    known[n] = SYMBOLS[len(known)]
    return known[n]


def abstract(value, known):
    """A static argument with symbols for large integers; OverflowError as of `symbol`."""
    if value.__class__ is int:
        if value < EXACT_BELOW:
            return value
        return known.get(value) or symbol(value, known)
    if value.__class__ is tuple or value.__class__ is Size:
        return tuple([abstract(item, known) for item in value])
    return Typed(value.__class__, value)


def _has_symbols(template):
    return template.__class__ is SizeSymbol or (template.__class__ is tuple and any(map(_has_symbols, template)))


def concrete(template, sizes):
    """A part of a signature with sizes in the places of symbols."""
    if template.__class__ is SizeSymbol:
        return sizes[template.n]
    if template.__class__ is tuple:
        return tuple([concrete(item, sizes) for item in template])
    return template.value if template.__class__ is Typed else template


def at_sizes(key, sizes):
    """([(dtype, shape)] of the tensors, slots of the arguments) of a signature at given sizes."""
    shapes, fixed, _ = key
    return (
        [(shape[0], concrete(shape[1:], sizes)) for shape in shapes],
        [("v", concrete(slot[1], sizes)) if slot[0] == "v" else slot for slot in fixed],
    )


class SizeClass:
    """The calls of one signature (and, where that matters, one order of sizes and some fixed ones).

    Attributes:
        key: the signature's.
        first: the sizes of the first call.
        program: the `ClassProgram`; None before it is general, and where there is none.
        points: the sample sizes; ``samples``: {some of them: the plan there} (made when a derivative wants them).
        backwards: {mask: the class of a derivative}, see `ftorch.eager.autograd.derivatives`.
        level, fixed: how its sizes are sampled.
        fits: see `ClassTable.find`.
        is_guarded: whether the kernel's checks refuse some sizes at which the program would give something.
        inline: whether its kernel gives the same program if it is traced without inner calls (`merged_at`).
        repeats: how often its first sizes came again, to be planned for other strides, while it had no program.
    """

    __slots__ = (
        "key", "first", "program", "is_single", "points", "samples", "backwards", "is_exact", "level", "fixed", "repeats",
        "inline", "fits", "is_guarded",
    )

    def __init__(self, key, first, level=FREE, fixed=()):
        self.key, self.first, self.level, self.fixed = key, first, level, fixed
        self.program: ClassProgram | None = None
        self.is_single = True
        self.points: list[tuple] = []
        self.samples: dict = {}
        self.fits: Any = None
        self.backwards: dict = {}
        self.is_exact = self.inline = self.is_guarded = False
        self.repeats = 0


class Adopted:
    """A class that serves another signature, in which some of its symbols are equal or small sizes.

    Attributes:
        of: the `SizeClass`.
        places: of each of its symbols, the index of a size of the signature, or ``-n`` for the size ``n``.
        derivatives: {what a derivative is found by: whether the class's program is right for it}.
    """

    __slots__ = ("of", "places", "derivatives")
    is_exact = False

    def __init__(self, of, places):
        self.of, self.places, self.derivatives = of, places, {}

    @property
    def program(self):
        return self.of.program

    def sizes(self, given):
        """The sizes of the class's symbols."""
        return tuple([given[place] if place >= 0 else -place for place in self.places])


class Result(NamedTuple):
    """Shape and dtype of a result."""

    shape: tuple
    dtype: Any


class Instance:
    """A class at given sizes.

    Attributes:
        of: a `SizeClass`, or what else has a ``program`` and ``is_single``.
        shapes: of the results.
        numbers: what `ClassProgram.run` wants.
        dtype: what the result is cast to, or None.
        adopted: the `Adopted` by which the class was found, or None.
    """

    __slots__ = ("of", "sizes", "shapes", "numbers", "dtype", "adopted")

    def __init__(self, of, sizes, shapes, numbers, dtype=None, adopted=None):
        self.of, self.sizes, self.shapes, self.numbers, self.dtype = of, sizes, shapes, numbers, dtype
        self.adopted = adopted

    def results(self):
        """(shape and dtype of each result of the kernel, whether there is just one)."""
        return tuple(map(Result, self.shapes, self.of.program.dtypes)), self.of.is_single

    def cast(self, dtype):
        """The same with the result in another dtype; None if NumPy has it not."""
        if dtype.stored:
            return None
        return Instance(self.of, self.sizes, self.shapes, self.numbers, dtype.numpy, self.adopted)

    def code(self):
        """The step on NumPy arrays: (arrays, numbers) -> tuple of results."""
        run, sizes, dtype = self.of.program.run, self.numbers, self.dtype
        if dtype is not None:
            return lambda arrays, numbers: (run((*arrays, *numbers), sizes)[0].astype(dtype),)
        return lambda arrays, numbers: run((*arrays, *numbers), sizes)


class Traced:
    """A kernel's traces, each made once.

    Attributes:
        fits, refuses: see `ClassTable.find`.
    """

    __slots__ = ("fits", "refuses", "_trace", "_made")

    def __init__(self, trace, fits, refuses):
        self.fits, self.refuses, self._trace, self._made = fits, refuses, trace, {}

    def accepted(self):
        """What ``fits`` is for a kernel that refuses some sizes; it does not keep the traces."""
        fits, refuses = self.fits, self.refuses
        return lambda sizes: not refuses(sizes) and (fits is None or fits(sizes))

    def __call__(self, sizes, inline):
        key = tuple(sizes), inline
        if key not in self._made:
            self._made[key] = self._trace(sizes, inline)
        return self._made[key]


class ClassTable:
    """The classes of one op.

    Attributes:
        waiting: {signature: plans that were made for their sizes alone, before its class got a program}.
        stale: such plans whose class has one now.
    """

    __slots__ = ("levels", "classes", "general", "waiting", "stale", "refused", "seen")

    def __init__(self):
        self.waiting: dict = {}
        self.stale: list = []
        self.refused: dict = {}  # {signature: sets of indices: there is no class in which these alone stay}
        self.seen: dict = {}  # {signature: sizes of calls, where it is not known which of them stay}
        self.levels: dict = {}  # {signature: (how its sizes are sampled, indices of the fixed ones, None: not known)}
        self.classes: dict = {}
        self.general: dict = {}  # {`_outline` of signatures: the general classes}

    def known(self, found: Signature) -> Instance | None:
        """The instance of a call, if its class has a program already."""
        one = self.general_at(found.key, found.sizes, *self.level_of(found))
        return None if one is None else instance(one, found.sizes)

    def level_of(self, found: Signature) -> tuple:
        """How the sizes of a signature are sampled, and the indices of those that stay."""
        return self.levels.get(found.key, (ORDERED if found.has_static else FREE, ()))

    def general_at(self, key, sizes, level, fixed) -> SizeClass | Adopted | None:
        """The class of a signature's key at some sizes, if it has a program and the sizes are sampled so still."""
        if level == EXACT or fixed is None or self.levels.get(key, (level, fixed)) != (level, fixed):
            return None
        one = self.classes.get(_class_key(key, sizes, level, fixed))
        return None if one is None or one.program is None else one

    def find(self, found: Signature, trace, fits=None, refuses=None) -> Instance | None:
        """The instance of a call, or None: it is to be planned for its exact sizes.

        Args:
            trace: (sizes, whether inner calls are written out) -> (closed jaxpr of the kernel, whether there is one result).
            fits: (sizes) -> whether the kernel goes the way that it goes in this call; None: there is but one.
            refuses: (sizes) -> whether its checks raise an error.
        """
        trace = Traced(trace, fits, refuses)
        while True:
            level, fixed = self.level_of(found)
            if level == EXACT:
                return None
            sizes = found.sizes
            key = None if fixed is None else _class_key(found.key, sizes, level, fixed)
            one = self.classes.get(key)
            if one is None:
                if len(self.classes) >= _MOST:
                    self.classes.clear()
                    self.general.clear()
                one = self._adopt(found, trace)
                if one is None and fixed is None:
                    if (one := self._of_what_stays(found, trace)) is None and self.level_of(found) != (level, fixed):
                        continue
                elif one is None and level == CHANGED:
                    one = self._loosened(found, trace, fixed)
                if one is None:
                    if key is not None:
                        self.classes[key] = SizeClass(found.key, sizes, level, fixed)
                    return None
            if one.program is None:
                if one.is_exact:
                    return None
                if one.first == sizes:
                    one.repeats += 1
                    if one.repeats != _REPEATS:
                        return None
                if (adopted := self._adopt(found, trace)) is not None:
                    return instance(adopted, sizes)
                with _lock:
                    if one.program is None and not self._generalize(one, found, trace, level, fixed):
                        continue
            return instance(one, sizes)

    def wait(self, found: Signature, plan) -> None:
        """Notes a plan that was made for its sizes alone."""
        if self.levels.get(found.key, (FREE,))[0] == EXACT:
            return
        if len(self.waiting) >= _MOST_WAITING:
            self.waiting.clear()
        plans = self.waiting.setdefault(found.key, [])
        if len(plans) < 4:  # sizes at which a class may be tried and fail
            plans.append(plan)

    def _generalize(self, one, found, trace, level, fixed):
        """Whether a class got its program; else the next way of sampling is tried for its signature."""
        if self._merge(one, found, trace, level == ORDERED, fixed):
            return True
        if one.first == found.sizes:  # which of them may change is not known yet
            return False
        one.is_exact = True
        # Weights' sizes, which do not change, before orders of sizes: of these there are many.
        if level == (ORDERED if found.has_static else FREE):
            self.levels[found.key] = CHANGED, None
            self.seen[found.key] = [one.first]
        else:
            self._give_up(found, level)
        return False

    def _give_up(self, found, level):
        self.levels[found.key] = (ORDERED, ()) if level == CHANGED and not found.has_static else (EXACT, ())

    def _of_what_stays(self, found, trace):
        """A class in which those sizes stay that an earlier call of the signature has, too; or None.

        Two calls may be of two layers of one network, which have nothing but their batch in common: others are tried then.
        """
        seen, sizes, shared = self.seen.setdefault(found.key, []), found.sizes, False
        for earlier in reversed(seen):
            same = tuple([i for i, (a, b) in enumerate(zip(earlier, sizes)) if a == b])
            shared = shared or bool(same)
            if not same or len(same) == len(sizes) or same in self.refused.get(found.key, ()):
                continue
            one = SizeClass(found.key, earlier, CHANGED, same)
            with _lock:
                if self._merge(one, found, trace, False, same):
                    self.levels[found.key] = CHANGED, same
                    self.classes[_class_key(found.key, sizes, CHANGED, same)] = one
                    self.seen.pop(found.key, None)
                    return one
            self._refuse(found.key, same)
        if (seen and not shared) or len(self.refused.get(found.key, ())) >= _MOST_REFUSED:
            self.seen.pop(found.key, None)
            self._give_up(found, CHANGED)
        elif sizes not in seen:
            seen.append(sizes)
            del seen[:-_MOST_SEEN]
        return None

    def _refuse(self, key, fixed):
        if len(self.refused) >= _MOST:
            self.refused.clear()
        self.refused.setdefault(key, set()).add(fixed)

    def _merge(self, one, found, trace, ordered, fixed):
        """Whether a class got its program, by these sizes and its first ones."""
        try:
            try:
                self._sample(one, found, trace, ordered, fixed, trace.fits)
            except Exception as error:  # noqa: BLE001  (a kernel may raise anything at sizes that are not a call's)
                # Those that it takes may have a program.
                if isinstance(error, NotGeneral) or trace.refuses is None or not fixed:
                    raise
                self._sample(one, found, trace, ordered, fixed, trace.accepted(), is_guarded=True)
        except Exception:  # noqa: BLE001
            return False
        self.general.setdefault(_outline(found.key), []).append(one)
        self.stale += self.waiting.pop(found.key, ())
        return True

    @staticmethod
    def _sample(one, found, trace, ordered, fixed, fits, is_guarded=False):
        # What is counted from behind, as negative padding, may lie before all that there is.
        if not is_guarded and trace.refuses is not None and _counts_from_behind(found.key[1]):
            is_guarded = any(map(trace.refuses, least(found.sizes, ordered, fixed)))
            fits = trace.accepted() if is_guarded else fits
        points = sampled(one.first, found.sizes, ordered, fixed, fits)
        program, one.is_single, one.inline = merged_at(points, trace, fits)
        one.points, one.fits, one.is_guarded = points, fits, is_guarded
        one.program = program  # last: other threads use the class from here on

    def _loosened(self, found, trace, fixed):
        """A class in which fewer sizes stay, if one that stays in a general class is another in this call; or None."""
        for one in self.general.get(_outline(found.key), ()):
            if (one.key, one.level, one.fixed) != (found.key, CHANGED, fixed):
                continue
            fewer = tuple([i for i in fixed if one.first[i] == found.sizes[i]])
            if not fewer or fewer in self.refused.get(found.key, ()):
                continue
            made = SizeClass(found.key, one.first, CHANGED, fewer)
            with _lock:
                if not self._merge(made, found, trace, False, fewer):
                    self._refuse(found.key, fewer)
                    continue
                self.levels[found.key] = CHANGED, fewer
                self.classes[_class_key(found.key, found.sizes, CHANGED, fewer)] = made
                outline = _outline(found.key)  # other threads go through the list
                self.general[outline] = [other for other in self.general.get(outline, ()) if other is not one]
                return made
        return None

    def _adopt(self, found, trace):
        """A general class that serves a new signature, known by it from here on; or None."""
        known, general = trace, self.general.get(_outline(found.key), ())
        has_own = any(one.key == found.key for one in general)  # how its sizes are sampled is known then
        for one in general[:_MOST_TRIED]:
            places = _matched(one.key, found)
            if places is None:
                continue
            adopted = Adopted(one, places)
            sizes, own, points = adopted.sizes(found.sizes), (one.level, ()), [found.sizes]
            if one.level == CHANGED:
                if any(sizes[i] != one.first[i] for i in one.fixed):
                    continue
                own = CHANGED, tuple(sorted({places[i] for i in one.fixed if places[i] >= 0}))
            elif one.level == ORDERED:
                ascending = order(one.points[0])
                if any(sizes[i] > sizes[j] for i, j in zip(ascending, ascending[1:])):
                    points.append(
                        sampled(found.sizes, found.sizes, True)[-1]
                    )  # what compares sizes shows at two points
            if has_own and self.levels.get(found.key, own) != own:
                continue
            try:
                if not all(
                    one.is_single is known(p, one.inline)[1]
                    and one.program.is_at(known(p, one.inline)[0], adopted.sizes(p)) for p in points
                ):
                    continue
            except Exception:  # noqa: BLE001  (what the kernel raises at its own sizes is raised when it is planned)
                return None
            self.levels[found.key] = own
            self.classes[_class_key(found.key, found.sizes, *own)] = adopted
            return adopted
        return None


_MOST_TRIED = 4  # general classes for one new signature


def _counts_from_behind(slots):
    """Whether static arguments have lists with integers that are no symbols though they are as large as sizes: negative ones.
    A single one is mostly no length (`ignore_index`)."""
    lists = [slot[1] for slot in slots if slot[0] == "v" and slot[1].__class__ is tuple]
    return any(n.__class__ is int and n <= -EXACT_BELOW for items in lists for n in items)


def _outline(key):
    """What is equal in signatures of which one class may serve all: no sizes, no integers."""
    shapes, fixed, types = key
    return (
        tuple([(shape[0], len(shape)) for shape in shapes]),
        tuple([("v", _without_sizes(slot[1])) if slot[0] == "v" else slot for slot in fixed]), types,
    )


def _without_sizes(template):
    if template.__class__ is tuple:
        return tuple([_without_sizes(item) for item in template])
    return template if template.__class__ is Typed else None


def _matched(key, found):
    """`Adopted.places` by which a class of a signature serves another of the same outline, or None."""
    places: dict[int, int] = {}

    def match(template, other):
        if template.__class__ is SizeSymbol:
            if other.__class__ is SizeSymbol:
                place = other.n
            elif other.__class__ is int and other > 1:  # sizes of 0 and 1 are broadcast
                place = -other
            else:
                return False
            return places.setdefault(template.n, place) == place
        if template.__class__ is tuple:
            return len(template) == len(other) and all(map(match, template, other))
        return template == other

    shapes, fixed, _ = key
    for own, other in zip(shapes, found.key[0]):
        if not match(own[1:], other[1:]):
            return None
    for own, other in zip(fixed, found.key[1]):
        if own[0] == "v" and not match(own[1], other[1]):
            return None
    return tuple([places[n] for n in range(len(places))])


def _class_key(key, sizes, level, fixed):
    key = key, level
    if level == ORDERED:
        return (*key, tuple(sorted(range(len(sizes)), key=sizes.__getitem__)))
    return (*key, tuple([sizes[i] for i in fixed])) if level == CHANGED else key


def instance(one: SizeClass | Adopted, sizes) -> Instance | None:
    """A general class at given sizes; None where a result would have a size below 1: that is the kernel's to say."""
    adopted = None
    if one.__class__ is Adopted:
        adopted, one, sizes = one, one.of, one.sizes(sizes)
    program = one.program
    assert program is not None
    shapes = program.result_shapes(sizes)
    for shape in shapes:
        for n in shape:
            if n < 1:
                return None
    return Instance(one, sizes, shapes, program.evaluate(sizes), adopted=adopted)


def traced(fn, structs, kinds, weak, scalars):
    """(closed jaxpr, whether there is one result) of a kernel.

    Args:
        structs: shapes and dtypes of its arrays.
        kinds: of its numbers; ``scalars`` their abstract values by kind, ``weak`` what makes a traced one weak.
    """
    count = len(structs)

    def weakened(*operands):
        return fn(*operands[:count], *(weak(v, k) for v, k in zip(operands[count:], kinds)))

    with quiet(), for_all_sizes():
        return jax_internals.traced(weakened, [*structs, *(scalars[k] for k in kinds)])
