"""Gradient accumulation: gradients made, copied, added, and accumulated in a leaf."""

from __future__ import annotations

import sys
import weakref

import jax.numpy as jnp

from ..call.op import call, hooks, op_named, read, special, write
from ..core import forking
from ..core.formats import strided
from ..core.geometry import Geometry, geometry
from ..core.refcount import LISTED, LOCAL
from ..runtime import capture_trace, executor
from ..runtime.plan import remember
from ..tensor import DISPATCHING, PLAIN, modes, wrap
from . import backward_units


def clone_with(t, g: Geometry | None):
    """A copy of a tensor, laid out as ``g`` (None: as it is)."""
    out = call(op_named("clone"), (t,), (None,))
    if g is not None and out._ftorch_geometry is not g and g.is_dense:
        executor.relabel(out._ftorch_storage, g)
        out._ftorch_geometry = g
    return out


def alias(t, g: Geometry, offset: int):
    """A part of a tensor's storage as a tensor, recorded as a view of it."""
    return hooks.part(t, g, offset)


def overwrite(t, value):
    """``t.copy_(value)``; None means zeros."""
    from ..core import api

    if value is None:
        api.Tensor.zero_(t)
    else:
        api.Tensor.copy_(t, value)


class LeafReference(weakref.ref):
    """A gradient's reference to its leaf, which is none of the user's."""

    __slots__ = ()


_accumulate_lock = forking.rlock()


def accumulate(variable, buffer, holders=0):
    """Adds the gradient ``buffer.pop(0)`` to a leaf's ``.grad``: itself, where nobody else holds it.

    Args:
        holders: how many hold it of whom the caller knows.
    """
    grad = buffer.pop(0)
    if grad is None:
        return
    meta = variable._ftorch_meta
    if meta is not None and meta.grad_dtype and grad.dtype is not meta.grad_dtype:
        grad = grad.to(meta.grad_dtype)
    if special[0] and not modes.grad:
        level = getattr(grad, "_ftorch_level", None)
        if level is not None and level.records_outside:
            grad = grad.detach()  # what a leaf gets carries no tangent
    with _accumulate_lock:
        held = variable._grad
        capture = capture_trace.capturing()
        if capture is not None:
            capture.touch_grad(variable, True)
        if held is None:
            if grad.__class__ in DISPATCHING or (hooks.python is not None and not modes.grad):
                grad = grad if modes.grad else _stolen(grad, variable._ftorch_geometry)
            elif modes.grad:  # what is recorded may go on to other leaves
                grad = _copied(grad, variable._ftorch_geometry)
            elif (
                sys.getrefcount(grad) > LOCAL + holders or capture is not None or not _is_alone(grad)
            ):
                # The gradient may have gone to several leaves: each gets a tensor of its own.
                grad = detached(grad)
            if grad._ftorch_geometry is not variable._ftorch_geometry and modes.grad_layout and capture is None:
                grad = _laid_out(grad, variable._ftorch_geometry)
            storage = getattr(grad, "_ftorch_storage", None)  # sparse ones have none
            if storage is not None and storage.trace is not None:
                storage.extra = LeafReference(variable), storage.extra  # if it fails, the leaf has no gradient
            variable._grad = grad
            if storage is not None:
                # A copy is written to what is there already.
                backward_units.note(storage, (LeafReference(variable), None) if modes.grad else None)
        elif modes.grad or held.__class__ in DISPATCHING or grad.__class__ in DISPATCHING:
            if not modes.grad and grad.layout is not strided and (
                held.__class__ in PLAIN or held.layout is grad.layout
            ):
                held.add_(grad)  # of a sparse gradient
            else:
                variable._grad = total = add(held, grad)
                storage = getattr(total, "_ftorch_storage", None)
                if storage is not None:
                    backward_units.note(storage, (LeafReference(variable), held))
        elif hooks.python is not None:
            held.add_(grad)  # seen as what it is
        else:
            write(held, read(add(held, grad)))
            backward_units.note(held._ftorch_storage)


def _copied(grad, g: Geometry):
    """A recorded copy of a gradient, in a leaf's memory order."""
    if grad.layout is not strided or hasattr(grad, "_ftorch_level") or capture_trace.capturing() is not None or not g.is_dense:
        return grad
    from ..core import api

    return api.empty_strided(g.shape, g.stride, dtype=grad.dtype, device=grad.device).copy_(grad)


def _stolen(grad, g: Geometry):
    """A leaf's first gradient as handlers of ``__torch_dispatch__`` see it: itself, or a copy in the leaf's memory order."""
    is_other = grad.layout is not strided or grad.shape != g.shape
    if is_other or not modes.grad_layout or not g.is_dense or _is_laid_out(grad, g.stride):
        return grad.detach()
    return grad.new_empty_strided(g.shape, g.stride).copy_(grad)


def _is_laid_out(grad, wanted) -> bool:
    return all(a == b or n <= 1 for n, a, b in zip(grad.shape, grad.stride(), wanted))


def _laid_out(grad, g: Geometry):
    """A leaf's first gradient in the leaf's memory order; contiguous, if the leaf is not dense."""
    if grad.__class__ in DISPATCHING or grad._ftorch_storage.error is not None or grad.shape != g.shape:
        return grad
    own = grad._ftorch_geometry.stride
    if g.is_dense:
        wanted = g.stride
    else:
        g = geometry(g.shape, g.dtype, g.device)
        wanted = g.stride
    if all(a == b or n <= 1 for n, a, b in zip(g.shape, own, wanted)):
        return grad
    return clone_with(grad, geometry(g.shape, grad._ftorch_geometry.dtype, g.device, wanted))


def _is_alone(t):
    """Whether a tensor outside of graphs is all that holds its storage, and the whole of it."""
    storage = t._ftorch_storage
    if t._ftorch_geometry is not storage.root or t._ftorch_requires_grad or t._ftorch_meta is not None:
        return False
    if t._base is not None or t._grad_fn is not None:
        return False
    trace = storage.trace
    if trace is None:
        return sys.getrefcount(storage) == LISTED and storage.array is not None
    alone = sys.getrefcount(storage) == LISTED + 1  # the trace lists what it is going to give
    return alone and storage.trace is trace is not executor.IMMEDIATE


def add(a, b):
    """The sum of two gradients."""
    return call(op_named("add.Tensor"), (a, b, 1))


def detached(t):
    """The same value in a storage of its own, outside the graph."""
    g = t._ftorch_geometry
    if g is t._ftorch_storage.root:
        return wrap(executor.duplicate(t._ftorch_storage))
    return wrap(read(t))


def zeros(g: Geometry):
    """A tensor of zeros."""
    return _constant(g, 0)


def ones(g: Geometry):
    """A tensor of ones."""
    return _constant(g, 1)


def _constant(g, value):
    plan = _constants.get((g, value))
    if plan is None:
        dense = geometry(g.shape, g.dtype, g.device)
        plan = executor.Plan(
            lambda: jnp.full(dense.shape, value, dense.dtype.numpy), (dense,), "", "full", g.device
        )
        plan.element = None if g.dtype.stored else value
        plan.inputs = ()
        remember(_constants, (g, value), plan, 4096)
    return wrap(executor.record(plan, ()))


_constants: dict = {}
