"""Transform levels: how calls on tensors of ``vmap`` and ``jvp`` reach the tensors below.

A transform wraps its inputs in `Wrapped` tensors of its `Level`. A call on such tensors is handed to
the deepest level among them, which expresses it as a call on the tensors below by the same path; so
levels nest in any order. A wrapped tensor has a geometry of its own (what the user sees) and its own
place in the graph: gradients taken inside a transform flow through wrapped tensors, those taken
outside through the tensors below.
"""

from __future__ import annotations

from typing import ClassVar

from ..autograd import saved_tensors, tape
from ..call import kernel_functions, planning
from ..call import op as _op
from ..call.operands import hashable, normalize
from ..core.geometry import Geometry
from ..memory.storage import Storage
from ..native.contexts import contextmanager, repeatable
from ..runtime.plan import remember
from ..tensor import Tensor, TensorBase, modes
from . import overrides

_new = object.__new__


def transforms_running() -> int:
    """How many transforms of `torch.func` run that printed tensors show."""
    return len(modes.differentiating) + sum(level.is_shown for level in modes.levels)


class Level:
    """One active transform. ``depth`` orders them: deeper ones see a call first."""

    composites = False  # whether `composite` is asked
    is_transform = False  # whether it is one of `torch.func`'s, where the outer tape has no place

    sees_aten = False  # whether it records ATen's ops, gradients as the ops that they are made of
    numbers_made: list | None = None  # where `torch.tensor` notes what it makes, for those that ask
    records_outside = False  # whether its calls are in the graph of tensors from outside that require grad, too
    numbers = ()  # classes of numbers that calls see as they are, not as Python's own
    is_graph = False  # whether it records a graph
    exports = False  # whether `torch.export` records it
    fakes = False  # whether its tensors are `FakeTensor`s to who asks
    is_shown = False  # whether a printed tensor of the level says so and is counted among the transforms

    def __init__(self):
        self.depth = 0
        self.number = 0  # among the transforms that run, from the outermost one
        self.is_active = False

    def __enter__(self):
        self.depth = len(modes.levels) + 1
        self.number = transforms_running() + 1
        modes.levels = [*modes.levels, self]  # from here on there is no call, where an interrupt could come
        modes.transforming += self.is_transform
        _op.special[0] += 1
        self.is_active = True
        return self

    @repeatable
    def __exit__(self, *_):
        levels = [level for level in modes.levels if level is not self]
        if self.is_active:
            modes.levels = levels
            self.is_active = False
            modes.transforming -= self.is_transform
            _op.special[0] -= 1

    @contextmanager
    def below(self):
        """Within, only the levels around this one are active."""
        levels = modes.levels
        modes.levels = levels[: levels.index(self)]
        try:
            yield
        finally:
            modes.levels = levels

    def call(self, op, operands, static):
        raise AssertionError("abstract")

    def call_inplace(self, op, operands, static):
        raise AssertionError("abstract")

    def view(self, definition, x, static):
        raise AssertionError("abstract")

    def composite(self, function, args, kwargs):
        """The result of a composite that the level takes as a whole, or NotImplemented."""
        return NotImplemented

    def control_flow(self, name, functions, arguments):
        """The result of a control flow operator that the level takes as a whole, or NotImplemented."""
        return NotImplemented

    def functionalize(self, function, args, kwargs, copies):
        """The result of a function whose writes the level records as new values, or NotImplemented.

        Args:
            copies: whether views become copies, too.
        """
        return NotImplemented

    def save_result(self, t):
        """What a node keeps of a result of its own call."""
        return save(self, t)

    def relaid(self, t, strides):
        """A fresh tensor of the level was given a memory layout."""

    def become(self, t, view, name, args):
        """Gives a tensor of the level the value of a view of it: ``name`` (``t_``) was called with ``args``."""
        for slot in ("_inner", "_bdim", "_tangent"):
            if hasattr(view, slot):
                setattr(t, slot, getattr(view, slot))

    def resized(self, t, shape, memory_format):
        """A tensor of the level after ``resize_``: fewer of its elements, as far as that is a view of it."""
        if shape.numel() > t.numel() or memory_format is not None:
            raise RuntimeError("resize_ to more elements, or to another memory format, is not possible inside a transform")
        part = t.view(-1)[: shape.numel()].view(shape)
        self.become(t, part, "resize_", (shape,))
        t._ftorch_geometry = part._ftorch_geometry
        return t

    def set(self, t, source, storage_offset, size, stride):
        """A tensor of the level after ``set_`` to another of its tensors."""
        if t._ftorch_requires_grad or getattr(source, "_ftorch_level", None) is not self or size is not None:
            raise RuntimeError("derivative for set_ is not implemented")
        self.become(t, source, "set_", (source,))
        t._ftorch_geometry = source._ftorch_geometry
        return t

    def known(self, t, how):
        """A tensor with the value of ``t``, for whoever looks at it ("item", "bool", "numpy")."""
        raise AssertionError("abstract")

    def random(self, kind, function, args, kwargs):
        """Calls a function that draws random numbers (`ftorch.eager.dispatch.randomness`)."""
        raise AssertionError("abstract")

    def rewrapped(self, t, function):
        """``t`` outside the level's graph, with a function applied to the tensors below."""
        raise AssertionError("abstract")

    def identity(self, t):
        """A tensor of the level as a view of itself, with a place of its own in the graph."""
        return t.view_as(t)

    def custom(self, function, args):
        """The results of an ``autograd.Function``, without a graph of this level's own."""
        raise AssertionError("abstract")


_UNKNOWN = RuntimeError(
    "the value of a tensor inside a transform is not known; rewrite the code without .item(), "
    ".numpy() or Python control flow on values"
)


class Wrapped(Tensor):
    """A tensor of a transform level."""

    __torch_function__ = classmethod(overrides.disabled)
    __slots__ = ("_ftorch_level", "_inner")
    _ftorch_level: Level
    _inner: Tensor
    kinds: ClassVar[set[type]] = set()  # the classes of such tensors
    __torch_function__ = classmethod(overrides.disabled)  # type: ignore[assignment]

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Wrapped.kinds.add(cls)

    @classmethod
    def make(cls, level: Level, inner, g: Geometry):
        """A wrapper around ``inner`` that looks like ``g``."""
        t = _new(cls)
        storage = Storage(g)
        storage.error = _UNKNOWN
        t._ftorch_storage, t._ftorch_geometry, t._ftorch_offset = storage, g, 0
        t._ftorch_requires_grad = False
        t._grad_fn = t._grad = t._base = t._ftorch_meta = None
        t._ftorch_output_nr = t._ftorch_attr_version = 0
        t._ftorch_level, t._inner = level, inner
        return t

    def detach(self):
        """The same elements outside the graphs."""
        return self._ftorch_level.detach(self)

    @property
    def data(self):
        """The same elements outside the graphs."""
        return self._ftorch_level.detach(self)

    @data.setter
    def data(self, value):
        Tensor.data.fset(self, value)  # type: ignore[attr-defined]

    def backward(self, *args, **kwargs):
        """Not possible inside a transform: the graph's end is outside of it."""
        if self._ftorch_level.records_outside:
            return Tensor.backward(self, *args, **kwargs)
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )

    def item(self):
        """The value as a number, where the level knows it."""
        return self._ftorch_level.known(self, "item").item()

    def tolist(self):
        """The values as nested lists, where the level knows them."""
        return self._ftorch_level.known(self, "tolist").tolist()

    def numpy(self, *, force=False):
        """The values as an array, where the level knows them."""
        return self._ftorch_level.known(self, "numpy").numpy(force=force)

    def data_ptr(self):
        """The address of the elements, where there is one."""
        return self._ftorch_level.known(self, "numpy").data_ptr()

    def untyped_storage(self):
        """The memory of the elements, where there is one."""
        return self._ftorch_level.known(self, "numpy").untyped_storage()

    def storage(self):
        """The same with its dtype."""
        return self._ftorch_level.known(self, "numpy").storage()

    def __format__(self, spec):
        if not self._ftorch_geometry.shape and not self.is_meta:
            return format(self.item(), spec)
        return object.__format__(self, spec) if spec else repr(self)

    def __array__(self, dtype=None, copy=None):
        return self._ftorch_level.known(self, "numpy").__array__(dtype, copy)

    def __bool__(self):
        return bool(self._ftorch_level.known(self, "bool"))

    def __int__(self):
        return int(self.item())

    def __float__(self):
        return float(self.item())

    def __complex__(self):
        return complex(self.item())

    def __index__(self):
        return self._ftorch_level.known(self, "item").__index__()

    def __hash__(self):
        return id(self)


# Tensors from outside that were written to by tensors of a level which takes them in: {id: the level's tensor of it}.
adopted: dict[int, Wrapped] = {}


def _with_adopted(operands):
    """Operands with the levels' tensors of those that were taken in."""
    return tuple([type(o)(_with_adopted(o)) if o.__class__ in (list, tuple) else taken_in(o) for o in operands])


def taken_in(o):
    """The level's tensor of one that was taken in, also by way of its base; anything else comes back as it is."""
    found = adopted.get(id(o))
    if found is not None:
        return found
    base = adopted.get(id(o._base)) if isinstance(o, TensorBase) and o._base is not None else None
    return o if base is None or not base._ftorch_level.is_transform else base._ftorch_level.adopt(o)


def level_of(operands):
    """The deepest level among the tensors of some operands, or None."""
    found = None
    for o in operands:
        if isinstance(o, Wrapped):
            if found is None or o._ftorch_level.depth > found.depth:
                found = o._ftorch_level
        elif isinstance(o, (list, tuple)):
            inner = level_of(o)
            if inner is not None and (found is None or inner.depth > found.depth):
                found = inner
    return found


def _dispatch(op, operands, static):
    if modes.function_modes:
        handled, result = _op.hooks.function_mode(operands)
        if handled:
            return True, result
    if modes.autocast is not None:
        handled, result = _op.hooks.autocast(op, operands, static)
        if handled:
            return True, result
    if adopted:
        operands = _with_adopted(operands)
    level = level_of(operands)
    if level is None:
        python = _op.hooks.python  # modes with `__torch_dispatch__`
        return (False, None) if python is None else python(op, operands, static)
    return True, level.call(
        op, normalize(op, operands, level.numbers), hashable(static, op.definition) if static else ()
    )


def _dispatch_inplace(op, operands, static):
    if modes.function_modes:
        handled, result = _op.hooks.function_mode(operands)
        if handled:
            return True, result
    target = operands[0]
    if adopted:
        operands = _with_adopted(operands)
    level = level_of(operands)
    if level is None:
        python = _op.hooks.python
        return (False, None) if python is None else python(op, operands, static, "inplace")
    result = level.call_inplace(
        op, normalize(op, operands, level.numbers), hashable(static, op.definition) if static else ()
    )
    return True, target if adopted and taken_in(target) is not target else result


def _dispatch_view(definition, x, static):
    if modes.function_modes:
        handled, result = _op.hooks.function_mode((x,))
        if handled:
            return True, result
    if adopted:
        x = taken_in(x)
    if not isinstance(x, Wrapped):
        python = _op.hooks.python_view
        return (False, None) if python is None else python(definition, x, static)
    return True, x._ftorch_level.view(definition, x, hashable(static, definition) if static else ())


def wrapped_plan(op, operands, static):
    """(plan, flat tensors, scalars) of a call as the deepest level's user sees it."""
    scanned = _op.scan(operands, Wrapped.kinds)
    if scanned is None:  # numbers and tensors of other classes
        slots, tensors, scalars, _ = kernel_functions.laid_out(op.definition, operands, static)
        key = (
            "wrapped, laid out", static,
            tuple([s if s[0] != "v" else s[:1] for s in slots]),
            tuple([t._ftorch_geometry for t in tensors]), tuple([type(s) for s in scalars]),
        )
    else:
        key, tensors, scalars, _ = scanned
        key = ("wrapped", static, *key)
    plan = op.plans.get(key)
    if plan is None:
        plan = planning.build(op, operands, static)
        remember(op.plans, key, plan)
    return plan, tensors, scalars


def record_wrapped(plan, level, tensors, scalars, outputs, beside=None, pick=None):
    """Makes the node of wrapped results, if a wrapped operand of the level requires grad.

    Args:
        beside, pick: all results of the ATen op that the call was seen as, and which of them is the call's.
    """
    if not (modes.grad and plan.differentiable):
        return None
    mask = tuple(
        [t._ftorch_requires_grad and (level.records_outside or (isinstance(t, Wrapped) and t._ftorch_level is level))
         for t in tensors]
    )
    if True not in mask:
        return None
    node, backward = tape.node_of_handled(plan, mask, tensors, scalars, beside, pick)
    for nr, (out, differentiable) in enumerate(zip(outputs, backward.differentiable)):
        if differentiable:
            out._ftorch_requires_grad, out._grad_fn, out._ftorch_output_nr = True, node, nr
    node.saved = [save(level, tensors[i]) if i >= 0 else level.save_result(outputs[-1 - i]) for i in backward.saved]
    return node


def save(level, t):
    """What a node of a level keeps: tensors from outside it as they are, for gradients out there."""
    if isinstance(t, Wrapped) and t._ftorch_level is level:
        return saved_tensors.save(t)
    return saved_tensors.SavedOutside(t)


def before_write(level, tensors):
    """The operands of a write: with a copy of its target where a graph outside of the level may keep what they are made of."""
    target = tensors[0]
    is_ours = isinstance(target, Wrapped) and target._ftorch_level is level
    if not (modes.grad and is_ours and any(map(_is_recorded_outside, tensors))):
        return tensors
    copy = level.rewrapped(target, lambda x: x.clone())
    copy._ftorch_requires_grad = target._ftorch_requires_grad
    return [copy if t is target else t for t in tensors]


def _is_recorded_outside(t):
    if not isinstance(t, Wrapped):
        return t._ftorch_requires_grad
    parts = [part for part in (t._inner, getattr(t, "_tangent", None)) if part is not None]
    return any([part._ftorch_requires_grad or _is_recorded_outside(part) for part in parts])


def save_of_write(level, places, tensors, result):
    """What a node of a level keeps of a write: the target as it was, other operands, the result."""
    kept = []
    for i in places:
        t = tensors[i] if i >= 0 else result
        if i == 0 and isinstance(t, Wrapped) and t._ftorch_level is level:
            before = level.rewrapped(t, lambda x: x.clone())
            before._ftorch_requires_grad = t._ftorch_requires_grad
            t = before
        kept.append(save(level, t))
    return kept


_op.hooks.dispatch = _dispatch
_op.hooks.dispatch_inplace = _dispatch_inplace
_op.hooks.dispatch_view = _dispatch_view
_op.hooks.python_method = lambda name, t, **named: (False, None)  # see `ftorch._dispatch.python_dispatch`


def is_wrapped(t) -> bool:
    """Whether a tensor belongs to a transform."""
    return isinstance(t, Wrapped)


def active_levels() -> list[Level]:
    """The levels of this thread, outermost first."""
    return modes.levels
