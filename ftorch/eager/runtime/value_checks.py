"""Checks of values before an op runs: indices out of range, singular matrices."""

from __future__ import annotations

import inspect
import sys
import threading
import weakref

import numpy as np

from ..core import device as _device
from ..core import errors
from ..core.jax_internals import on_host
from ..core.jax_scope import scoped
from ..core.registry import Shape, static_value
from ..core.user_warnings import warn_user
from ..memory.storage import strided
from . import capture_trace, executor, trace_slice
from .executor import IMMEDIATE

_NUMBERS = (bool, int, float, complex)


class Checks:
    """The value checks of a plan, as `check_values` makes them.

    Attributes:
        bound: for each what it is given, the function, and whether it waits for pending values.
        reads: positions of the tensors whose values alone decide, or None.
        notices: texts of warnings that each call gives, or functions that make them or raise.
        passed: the array (weakly) and the offset of each, when they passed last: arrays never change, and
            loops come with the same index again and again.
        bounds: (place of a tensor, or of a number as ``-1 - place``, lowest, bound) of the integers that pass, if that is
            all there is to check; C looks at these first. A bound is a number, or `Extent.key`. None: it is not.

    But for what passed last nothing depends on sizes.
    """

    __slots__ = ("bound", "reads", "passed", "notices", "bounds")

    def __init__(self, bound, notices=(), bounds=None):
        self.bound, self.notices, self.bounds = bound, notices, bounds
        tags = [slot for slots, _, _ in bound for slot in slots]
        reads = {slot[1] for slot in tags if slot[0] == "t"}
        reads.update(j for slot in tags if slot[0] == "l" for j in slot[1] if j is not None)
        self.reads = None if any(slot[0] == "s" for slot in tags) else tuple(reads)
        self.passed = None

    def fresh(self):
        """The same checks of another plan."""
        made = object.__new__(Checks)
        made.bound, made.notices, made.bounds, made.reads = self.bound, self.notices, self.bounds, self.reads
        made.passed = None
        return made

    def hold(self, tensors):
        """Whether the values are those that passed last."""
        if self.passed is None:
            return False
        for t, (array, offset) in zip(map(tensors.__getitem__, self.reads), self.passed):
            own = t._ftorch_storage.array
            if own is None or own is not array() or t._ftorch_offset != offset:
                return False
        return True

    def note(self, tensors):
        """Remembers values that have passed."""
        if self.reads is not None:
            given = [(tensors[j]._ftorch_storage.array, tensors[j]._ftorch_offset) for j in self.reads]
            if all(array is not None for array, _ in given):
                self.passed = tuple((weakref.ref(array), offset) for array, offset in given)


class Extent:
    """The size of an operand's dimension, or its negative: all that bounds of integers may say of sizes.

    Attributes:
        key: (which tensor, dimension, 1 or -1).
    """

    __slots__ = ("key",)
    __eq__ = __bool__ = __hash__ = None  # type: ignore[assignment]  (a bound that compares sizes is none of all sizes)

    def __init__(self, operand, dim, sign=1):
        self.key = operand, dim, sign

    def __neg__(self):
        operand, dim, sign = self.key
        return Extent(operand, dim, -sign)


class _Sizes:
    """An operand's geometry whose sizes are not known."""

    def __init__(self, operand, g):
        self.shape, self.ndim, self.dtype = tuple([Extent(operand, d) for d in range(g.ndim)]), g.ndim, g.dtype


def bounds_at(plan):
    """`Checks.bounds` of a plan as numbers."""
    for at, *limits in plan.checks.bounds:
        sizes = [m if m.__class__ is int else m[2] * plan.inputs[m[0]].shape[m[1]] for m in limits]
        yield at, *sizes


def notices_of(definition, slots, tensors):
    """The texts of the warnings that a call gives, which follow from shapes, dtypes and static arguments."""
    said = []
    position = {name: i for i, name in enumerate(definition.argument_names)}
    for names, function in definition.notices:
        given = []
        for tag, *at in (slots[position[name]] for name in names):
            given.append(None if tag == "n" else tensors[at[0]]._ftorch_geometry if tag == "t" else static_value(at[0]))
        text = function(*given)
        if text is not None:
            said.append(text)
    return tuple(said)


def give(notices):
    """Warns of each text, as of the line that called the op's public function; what makes a text is asked anew."""
    for text in notices:
        if callable(text):
            text = text()
        if text is not None:
            warn_user(text)


def bind_checks(definition, slots, more=(), notices=(), inputs=()):
    """The `Checks` of a plan, or None where the op has none; ``more`` are bound already."""
    if not definition.checks:
        return Checks(tuple(more), notices) if more or notices else None
    position = {name: i for i, name in enumerate(definition.argument_names)}
    bound = list(more)
    for names, function, waits in definition.checks:
        annotations = getattr(function, "__annotations__", {})
        wanted = [slots[position[name]] for name in names]
        for i, name in enumerate(names):
            if annotations.get(name) in (Shape, "Shape") and wanted[i][0] == "t":
                wanted[i] = ("shape", wanted[i][1])
        bound.append((tuple(wanted), function, _waits(waits, slots, position)))
    return Checks(tuple(bound), notices, None if more or notices else _bounds(definition, slots, position, inputs))


def _bounds(definition, slots, position, inputs):
    """See `Checks`."""
    found = []
    for names, function, waits in definition.checks:
        passes = definition.passing.get(function)
        if passes is None or waits:
            return None
        given = []
        for name in names:
            tag, *at = slots[position[name]]
            if tag == "t":
                given.append(_Sizes(at[0], inputs[at[0]]))
            elif tag == "l":
                given.append([None if j is None else _Sizes(j, inputs[j]) for j in at[0]])
            else:
                given.append(static_value(at[0]) if tag == "v" else None)
        bounds = passes(*given)
        if bounds is None:
            return None
        for name, lowest, bound in bounds:
            name, place = name if name.__class__ is tuple else (name, None)
            tag, at = slots[position[name]]
            if tag == "s":
                at = -1 - at
            elif place is not None:
                at = at[place]
            found.append((at, *(limit.key if limit.__class__ is Extent else limit for limit in (lowest, bound))))
    return tuple(found)


def _waits(rule, slots, position):
    """Whether a check waits for pending values, given the static arguments."""
    if not callable(rule):
        return rule
    names = inspect.signature(rule).parameters
    return rule(**{name: static_value(slots[position[name]][1]) for name in names})


def check_values(plan, operands, tensors, read):
    """Runs an op's value checks.

    ``read`` gives the storage whose root a tensor is (`ftorch.eager.call.op.read`).

    Values that are still pending are not waited for, unless the check says so: it is made when
    somebody next looks at a value (`run_postponed`), as with PyTorch on a GPU. Until then the kernel
    clamps.
    """
    checks = plan.checks
    if checks.notices:
        give(checks.notices)
    if checks.hold(tensors):
        return
    known, scalars = True, [o for o in operands if type(o) in _NUMBERS]
    if checks.bounds is not None and all([_is_within(*bounds, tensors, scalars) for bounds in bounds_at(plan)]):
        return
    for slots, function, waits in checks.bound:
        values, pending = _given(slots, tensors, scalars, waits, read)
        known = known and not pending
        if values is None:
            continue
        if pending:
            _postpone(plan.name, function, values)
        else:
            _make(function, values)
    if known:
        checks.note(tensors)


def _is_within(at, lowest, bound, tensors, scalars):
    """Whether the integers of a pending operand pass whatever they are; see `Checks`."""
    if at < 0:
        return scalars[-1 - at].__class__ is int and lowest <= scalars[-1 - at] < bound
    storage = tensors[at]._ftorch_storage
    if storage.trace is None or storage.trace is IMMEDIATE or tensors[at]._ftorch_geometry.dtype is not storage.root.dtype:
        return False
    found = trace_slice.bounds_of(storage)
    return found is not None and lowest <= found[0] and found[1] <= bound


def _given(slots, tensors, scalars, waits, read):
    """(what a check is given, whether it has to wait); None where there will be no values."""
    values, pending = [], False
    for slot in slots:
        tag = slot[0]
        if tag == "t":
            array = peek(tensors[slot[1]], waits)
            if array is None:
                array = _cheap(tensors[slot[1]])
            if array is None:
                array, pending = _Later.of(tensors[slot[1]], read), True
                if array is None:
                    return None, True
            values.append(array)
        elif tag == "shape":
            values.append(tensors[slot[1]]._ftorch_geometry)
        elif tag == "v":
            values.append(static_value(slot[1]))
        elif tag == "s":
            values.append(scalars[slot[1]])
        elif tag == "l":
            arrays = [None if j is None else peek(tensors[j], waits) for j in slot[1]]
            arrays = [
                _cheap(tensors[j]) if a is None and j is not None else a
                for a, j in zip(arrays, slot[1])
            ]
            for i, j in enumerate(slot[1]):
                if arrays[i] is None and j is not None:
                    arrays[i], pending = _Later.of(tensors[j], read), True
            if any(a is None and j is not None for a, j in zip(arrays, slot[1])):
                return None, True
            values.append(arrays)
        else:
            values.append(None)
    return values, pending


@scoped
def _make(function, values):
    try:
        function(*values)
    except Exception:
        postponed.checks.clear()  # one error at a time
        raise


# --- checks of values that are not there yet ------------------------------------------

_MOST_POSTPONED = 256


class _Postponed(threading.local):
    """The calling thread's checks that wait for a value: (op, the user's line, check, values)."""

    def __init__(self):
        self.checks = []


postponed = _Postponed()


class _Later:
    """The value that a tensor has now, though nobody knows it yet."""

    __slots__ = ("storage",)

    def __init__(self, storage):
        self.storage = storage

    @classmethod
    def of(cls, t, read):
        """None where there will be no value: meta tensors, tracing, capturing."""
        storage = t._ftorch_storage
        if t._ftorch_geometry.device is _device.META or storage.trace is IMMEDIATE or capture_trace.capturing():
            return None
        return cls(executor.duplicate(read(t)))


class _Array:
    """An array that is being computed, in the place of a storage."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    def ready(self):
        return self.array


def later(array) -> _Later:
    """The value of an array that is still being computed, for `check_arrays`."""
    return _Later(_Array(array))


def check_arrays(name, function, values, pending) -> None:
    """Makes a check of an operation in a program; later if one of the values is pending (`later`)."""
    if pending:
        _postpone(name, function, values)
    else:
        _make(function, values)


def _known(value):
    if value.__class__ is _Later:
        return np.asarray(value.storage.ready())
    return [_known(v) for v in value] if value.__class__ is list else value


def _postpone(name, function, values):
    checks = postponed.checks
    if len(checks) >= _MOST_POSTPONED:
        run_postponed()
    checks.append((name, errors.user_line(sys._getframe(1)), function, values))


def is_pending(t) -> bool:
    """Whether a tensor's value has not been computed."""
    while not hasattr(t, "_ftorch_storage"):
        t = t._inner
    return t._ftorch_storage.trace is not None


def postpone(name, function, t) -> bool:
    """Makes ``function(a tensor's value)`` once it is known; gives False where nobody has to wait.

    Args:
        name: of the call that the error names.
    """
    storage = t._ftorch_storage
    if storage.trace is None or storage.trace is IMMEDIATE or capture_trace.capturing():
        return False
    _postpone(name, function, [_Later(storage)])
    return True


def run_postponed():
    """Makes the checks that waited for values.

    Raises:
        Exception: PyTorch's, of the first op whose check fails.
    """
    checks = postponed.checks[:]
    postponed.checks.clear()
    for name, line, function, values in checks:
        try:
            function(*map(_known, values))
        except Exception as error:
            error.add_note(f"The value was still being computed when {name} was called ({line}).")
            raise


def peek(t, waits=False):
    """A tensor's value as NumPy if it is at hand: on the CPU and not pending in a trace.

    With ``waits``, what is pending is run first.
    """
    storage, g = t._ftorch_storage, t._ftorch_geometry
    if waits and storage.trace is not None and storage.trace is not IMMEDIATE:
        storage.trace.flush()
    if storage.trace is not None or g.device is not _device.CPU:
        return None
    if storage.host is not None:
        return strided(storage.host, g, t._ftorch_offset) if g.dtype is storage.root.dtype else None
    return None if storage.array is None else part_of(storage.array, t)


def _cheap(t):
    """The value of a pending tensor that is cheap to have, so that errors come at once."""
    storage, g = t._ftorch_storage, t._ftorch_geometry
    if storage.trace is None or storage.trace is IMMEDIATE or g.device is not _device.CPU:
        return None
    root = trace_slice.cheap_value_of(storage) if g.dtype.category < 2 else trace_slice.cheap_value_of(storage, 3)
    return None if root is None else part_of(root, t)


def part_of(root, t):
    """A tensor's value as NumPy, given its storage's; None where that takes more than a view."""
    storage, g = t._ftorch_storage, t._ftorch_geometry
    if g is storage.root:
        return on_host(root)
    if not storage.root.is_contiguous or g.dtype is not storage.root.dtype:
        return None
    return strided(np.ascontiguousarray(on_host(root)).reshape(-1), g, t._ftorch_offset)  # it may be one number, repeated
