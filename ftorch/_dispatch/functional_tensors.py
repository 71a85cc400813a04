"""Tensors whose writes become new values: PyTorch's functionalization (``torch._to_functional_tensor``).

A functional tensor stands for another one. Calls on it are made below autograd and before any mode on the tensors that
it stands for, without views of memory that is written: views are kept and taken again (`view_replay`), a call that
writes becomes the one that computes the same, whose result is the tensor's value from then on.
"""

from __future__ import annotations

from typing import Any

from .. import _ops
from ..eager.core import formats
from ..eager.core.device import META
from ..eager.core.dtype import can_cast
from ..eager.core.geometry import geometry
from ..eager.dispatch import overrides
from ..eager.dispatch.levels import level_of
from ..eager.memory.storage import Storage
from ..eager.native.contexts import contextmanager
from ..eager.tensor import Tensor, TensorBase, wrap_view
from .dispatch_state import DisableTorchDispatch, state
from .handled_results import no_grad
from .view_replay import SEVERAL, VIEWS, Owner, Replay, copying, functional_form

aten = _ops.ops.aten


def _call(target, args, kwargs):
    """The result of a call, which modes and traces see by the name that it has here."""
    from .python_dispatch import run

    given = [v for v in overrides.flat_arguments(args, kwargs) if isinstance(v, TensorBase)]
    level = level_of(given)
    if level is not None and level.sees_aten and target._opname.endswith(("_copy", "_scatter")):
        return level.made(target, args, kwargs)
    handled, result = (False, None) if level is not None else run(target, given, args, kwargs)
    return result if handled else target(*args, **kwargs)


class _Tensors(Replay):
    """Views and their inverses on tensors."""

    def call(self, target, args, kwargs=None, like=None):
        return _call(target, args, kwargs or {})

    def example(self, value):
        return value

    def looks(self, function, value):
        return None  # no call is made to see it

    def item(self, several, i):
        return several[i]


_replay = _Tensors()


class _Memory(Owner):
    """What functional tensors that are views of each other share.

    Attributes:
        is_frozen: whether writes are refused.
        reshaped: whether a tensor's geometry was changed in place.
    """

    def __init__(self, base):
        super().__init__(base)
        self.is_frozen = self.reshaped = False


class _Reshaping:
    """What happens to functional tensors whose own geometry is changed (as `Level` has it for tensors of transforms)."""

    sees_aten = records_outside = False

    def relaid(self, t, strides):
        """A fresh tensor was given a memory layout, which the call that made it was told."""

    def become(self, t, view, name, args):
        """Gives a tensor the value and the views of a view of it."""
        t._value, t._metas, t._generation, t._shadow = view._value, view._metas, view._generation, view._shadow
        t._owner.reshaped = True

    def resized(self, t, shape, memory_format):
        """A tensor after ``resize_``: another value where it grows, a part of it as a view where it shrinks."""
        options = {} if memory_format is None else {"memory_format": memory_format}
        grows = shape.numel() > t.numel()
        if grows and t._metas:
            raise RuntimeError(
                "Attempted to resize a view tensor to a larger size. This is not allowed in the functionalization pass"
            )
        if grows:
            with _inside():
                new = aten.clone.default(sync(t)).resize_(shape, **options)
            t._owner.base = t._value = new
            _look(t, _shadow_of(new))
            t._owner.generation += 1
            t._generation = t._owner.generation
            return t
        return t.as_strided_(list(shape), list(formats.strides_for(shape, memory_format or formats.contiguous_format)))

    def set(self, t, source, storage_offset, size, stride):
        """A tensor after ``set_`` to another one."""
        if not isinstance(source, Functional) or size is not None:
            raise RuntimeError("set_ of a functional tensor takes another functional tensor")
        t._owner, t._ftorch_storage = source._owner, source._ftorch_storage
        self.become(t, source, "set_", ())
        t._ftorch_geometry, t._ftorch_offset = source._ftorch_geometry, source._ftorch_offset
        return t


class Functional(Tensor):
    """A functional tensor.

    Attributes:
        _value: what it stands for, as of the memory's ``_generation``.
        _owner, _metas: its memory, and the views that lead to it from there.
        _shadow: a tensor without elements that has its geometry.
    """

    __torch_function__ = classmethod(overrides.disabled)  # type: ignore[assignment]
    _ftorch_sees_aten = True
    _ftorch_level = _Reshaping()
    _value: Any
    _owner: _Memory
    _metas: tuple
    _generation: int
    _shadow: Tensor

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return functionalized(func, args, kwargs or {})

    _ftorch_functionalized = staticmethod(lambda func, args, kwargs: functionalized(func, args, kwargs))

    def __repr__(self, *, tensor_contents=None):
        with _inside():
            return f"_to_functional_tensor({sync(self)!r})"


def _shadow_of(value):
    g = value._ftorch_geometry
    looks = geometry(g.shape, g.dtype, META, g.stride)
    return wrap_view(Storage(geometry(g.shape, g.dtype, META, None)), looks, 0, None)


def _look(t, shadow):
    """Gives a functional tensor the geometry of its shadow."""
    g = shadow._ftorch_geometry
    t._shadow = shadow
    t._ftorch_geometry = geometry(g.shape, g.dtype, t._value._ftorch_geometry.device, g.stride)
    t._ftorch_offset = shadow._ftorch_offset


def _made(value, owner, metas=(), shadow=None, storage=None) -> Functional:
    g = value._ftorch_geometry
    out = Tensor._make_wrapper_subclass(Functional, g.shape, g.stride, dtype=g.dtype, device=value.device)
    out._value, out._owner, out._metas, out._generation = value, owner, metas, owner.generation
    _look(out, _shadow_of(value) if shadow is None else shadow)
    if storage is not None:
        out._ftorch_storage = storage
    return out


def _new(value):
    return _made(value, _Memory(value)) if isinstance(value, TensorBase) else value


def sync(t):
    """What a functional tensor stands for, taken anew if its memory was written since."""
    if t._generation != t._owner.generation:
        t._value = _replay.seen(t._owner.base, t._metas)
        t._generation = t._owner.generation
    return t._value


def _mapped(function, value):
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(function, v) for v in value)
    if isinstance(value, dict):
        return {k: _mapped(function, v) for k, v in value.items()}
    return function(value)


def _unwrapped(value):
    return _mapped(lambda v: sync(v) if isinstance(v, Functional) else v, value)


def _results(value):
    """Results with functional tensors in the place of tensors, of whatever kind the sequence is."""
    if isinstance(value, TensorBase):
        return _new(value)
    if isinstance(value, (list, tuple)):
        kind = type(value) if hasattr(value, "n_sequence_fields") else tuple if isinstance(value, tuple) else list
        return kind([_results(v) for v in value])
    return value


@contextmanager
def _inside():
    """Within, calls are those on what functional tensors stand for: below autograd, seen by the modes."""
    stack, by = state.stack, state.functional
    state.stack, state.functional = [m for m in stack if m.__class__ is not Enabled], None
    try:
        with no_grad():
            yield
    finally:
        state.stack, state.functional = stack, by


class Enabled:
    """Stands in the thread's stack of modes while functionalization is enabled.

    Args:
        reapply_views: whether views stay views; copies of what they show, otherwise.
    """

    _ftorch_sees_aten = True

    def __init__(self, reapply_views):
        self.reapply_views = reapply_views

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))  # what nothing functional is part of

    _ftorch_functionalized = staticmethod(lambda func, args, kwargs: functionalized(func, args, kwargs))


def functionalized(func, args, kwargs):
    """The result of a call as functional tensors; NotImplemented if none is part of it."""
    given = [v for v in overrides.flat_arguments(args, kwargs) if isinstance(v, TensorBase)]
    by = state.functional
    if not any(isinstance(v, Functional) for v in given):
        if given and func._opname not in ("lift_fresh", "lift"):
            return NotImplemented
        with _inside():
            result = _call(func, args, kwargs)
        return result if by is None else _results(result)
    written = _written(func, args, kwargs)
    if written:
        return _write(func, args, kwargs, written)
    reapply = by is not None and by.reapply_views
    if _ops.own_name(func) in VIEWS and isinstance(args[0], Functional) and func._opname != "lift_fresh":
        return _view(func if reapply else copying(func), func, args[0], args[1:], kwargs)
    with _inside():
        return _results(_call(func, _unwrapped(args), _unwrapped(kwargs)))


def _view(target, func, x, args, kwargs):
    with _inside():
        args, kwargs = _unwrapped(args), _unwrapped(kwargs)
        value = _call(target, (x._value, *args), kwargs)
    with DisableTorchDispatch(), no_grad():
        shadow = func(x._shadow, *args, **kwargs)
    owner, storage = x._owner, x._ftorch_storage
    if func._opname in SEVERAL:
        made = [
            _made(v, owner, (*x._metas, (target, args, kwargs, value, i)), s, storage)
            for i, (v, s) in enumerate(zip(value, shadow))
        ]
    else:
        made = [_made(value, owner, (*x._metas, (target, args, kwargs, value, None)), shadow, storage)]
    for t in made:
        t._generation = x._generation
    return made if func._opname in SEVERAL else made[0]


def _written(func, args, kwargs):
    """The tensors that a call writes to."""
    arguments = getattr(func._schema, "arguments", ())
    found = []
    for i, a in enumerate(arguments):
        if getattr(a, "is_write", False):
            found.append(args[i] if i < len(args) else kwargs.get(a.name))
    if not found and func._form == "inplace":
        found = [args[0]]
    if "out" in kwargs and kwargs["out"] is not None and not found:
        found = list(kwargs["out"]) if isinstance(kwargs["out"], (list, tuple)) else [kwargs["out"]]
    return [t for t in found if isinstance(t, TensorBase)]


def _write(func, args, kwargs, written):
    if not all(isinstance(t, Functional) for t in written):
        raise RuntimeError(
            "mutating a non-functional tensor with a functional tensor is not allowed. Please ensure that all of your "
            "inputs are wrapped inside of a functionalize() call."
        )
    if any(t._owner.is_frozen for t in written):
        raise RuntimeError("cannot mutate tensors with frozen storage")
    with _inside():
        given, named = _unwrapped(args), _unwrapped(kwargs)
        news = _computed(func, given, named, [sync(t) for t in written])
        if func._form == "inplace":
            _check_in_place(written[0], news[0])
        for t, new in zip(written, news):
            _replace(t, new)
            commit(t)
            sync(t)
    return written[0] if len(written) == 1 else tuple(written)


def _check_in_place(t, new):
    """Raises where a tensor cannot hold what is written to it."""
    before, after = t._ftorch_geometry, new._ftorch_geometry
    if not can_cast(after.dtype, before.dtype):
        raise RuntimeError(
            f"result type torch.{after.dtype.name} can't be cast to the desired output type torch.{before.dtype.name}"
        )
    if after.shape != before.shape:
        raise RuntimeError(
            f"output with shape {before.shape} doesn't match the broadcast shape {tuple(after.shape)}"
        )


def _computed(func, args, kwargs, targets):
    """The values that a call would write to some tensors."""
    target = None
    engine = getattr(func, "_engine_op", None)
    if engine is not None:
        return [_op_call(engine, args, func._static)]
    if func._form == "inplace" and func.namespace == "aten":
        target = functional_form(func)
        if func._opname == "bernoulli_" and len(args) == 1:
            args = (*args, 0.5)  # the other op has no default
    elif "out" in kwargs and func.namespace == "aten":
        packet = getattr(aten, func._opname)
        name = func._overloadname.removesuffix("_out").removesuffix("out")
        target = getattr(packet, name or "default", None)
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    if target is not None:
        result = _call(target, args, kwargs)
        return [result] if isinstance(result, TensorBase) else list(result)
    fresh = {id(t): aten.clone.default(t) for t in targets}  # no call computes the same: it writes to copies
    func(*_mapped(lambda v: fresh.get(id(v), v), args), **_mapped(lambda v: fresh.get(id(v), v), kwargs))
    return [fresh[id(t)] for t in targets]


def _op_call(engine, args, static):
    from ..eager.call import op

    return op.call(engine, args, static)


def _replace(t, new):
    """Makes a value that of a functional tensor, in the tensor's dtype; its sizes may be others (of ``out=``)."""
    if new.dtype is not t._ftorch_geometry.dtype:
        new = aten._to_copy.default(new, dtype=t._ftorch_geometry.dtype, layout=new.layout)
    t._value = new
    if new._ftorch_geometry.shape != t._ftorch_geometry.shape:
        _look(t, _shadow_of(new))


def commit(t):
    """Carries a functional tensor's value into its memory."""
    _replay.written(t._owner, t._metas, t._value)


# --- `torch`'s private functions -------------------------------------------------------


def _checked(t):
    if not isinstance(t, Functional):
        raise RuntimeError("assert_functional INTERNAL ASSERT FAILED: a functional tensor is expected")
    return t


def _to_functional_tensor(t):
    """A functional tensor that stands for a tensor.

    Raises:
        RuntimeError: it is one already.

    >>> import ftorch as torch
    >>> x = torch._to_functional_tensor(torch.zeros(2))
    >>> _ = x.view(2, 1).add_(1)
    >>> torch._sync(x)
    >>> torch._from_functional_tensor(x)
    tensor([1., 1.])
    """
    if isinstance(t, Functional):
        raise RuntimeError("!isFunctionalTensor(base_) INTERNAL ASSERT FAILED: the tensor is functional already")
    from .python_dispatch import register_class

    register_class(Functional)
    with _inside():
        return _new(t.detach() if t.requires_grad and type(t) is Tensor else t)


def _from_functional_tensor(t):
    """What a functional tensor stands for, as of when it was last read or written (`torch._sync`).

    Raises:
        RuntimeError: the tensor is none.
    """
    return _checked(t)._value


def _is_functional_tensor(t) -> bool:
    """Whether a tensor stands for another one."""
    return isinstance(t, Functional)


def _is_functional_tensor_base(t) -> bool:
    """Whether a functional tensor is no view."""
    return not _checked(t)._metas


def _sync(t):
    """Brings what a functional tensor stands for up to date with its memory.

    Raises:
        RuntimeError: the tensor is none.
    """
    if not isinstance(t, Functional):
        raise RuntimeError("isFunctionalTensor(t) INTERNAL ASSERT FAILED: a functional tensor is expected")
    with _inside():
        sync(t)


def _enable_functionalization(*, reapply_views: bool = False):
    """From here on, tensors that are made are functional, and so are views of functional ones.

    Args:
        reapply_views: whether views stay views below; copies of what they show, otherwise.

    Raises:
        RuntimeError: it is enabled.
    """
    if state.functional is not None:
        raise RuntimeError(
            "multiple layers of mode-style functionalization nesting is not currently supported, outside of the "
            "functionalize() transform"
        )
    from . import python_dispatch

    python_dispatch.register_class(Functional)
    state.functional = Enabled(reapply_views)
    state.stack = [state.functional, *state.stack]
    python_dispatch.activate()


def _disable_functionalization():
    """Ends what `_enable_functionalization` began."""
    from . import python_dispatch

    if state.functional is not None:
        state.stack = [m for m in state.stack if m is not state.functional]
        state.functional = None
        python_dispatch.deactivate()


def _freeze_functional_tensor(t):
    """From here on, writes to the memory of a functional tensor are refused."""
    _checked(t)._owner.is_frozen = True


def _functionalize_replace(t, value):
    """Makes a value that of a functional tensor alone (`_functionalize_commit_update` carries it into the memory)."""
    with _inside():
        _replace(_checked(t), value)


def _functionalize_commit_update(t):
    """Carries a functional tensor's value into its memory."""
    with _inside():
        commit(_checked(t))


_functionalize_sync = _sync


def _functionalize_has_data_mutation(t) -> bool:
    """Whether somebody wrote to a functional tensor's memory."""
    return _checked(t)._owner.generation > 0


def _functionalize_has_metadata_mutation(t) -> bool:
    """Whether a functional tensor's own geometry was changed in place."""
    return _checked(t)._owner.reshaped


def _functionalize_mutation_counter(t) -> int:
    """How often somebody wrote to a functional tensor's memory."""
    return _checked(t)._owner.generation


@contextmanager
def enabled(reapply_views):
    """Within, functionalization is enabled."""
    _enable_functionalization(reapply_views=reapply_views)
    try:
        yield
    finally:
        _disable_functionalization()
