"""In-place checks: which tensors must not be written to while graphs are recorded, and what is their history then."""

from __future__ import annotations

from ..call.op import call, call_inplace, hooks, op_named, write_result
from ..tensor import counter_of
from . import derivatives, gradient_values
from .node_names import OTHERS_IN_PLACE, refusal_in_place
from .saved_tensors import save
from .tape import (
    edge_of,
    grad_fn_of,
    make_node,
    mask_of,
    move_retained,
    node_class,
    rename_node,
    write_refusal,
)
from .view_nodes import CopySlices


def check_inplace(t, grad=False):
    """Raises PyTorch's errors for a tensor that must not be written to while graphs are recorded.

    Args:
        grad: whether what is written requires grad.
    """
    base = t._base
    if base is None:
        if t._ftorch_requires_grad and t._grad_fn is None:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
        return
    if not (grad or t._ftorch_requires_grad or base._ftorch_requires_grad):
        return
    if t._ftorch_output_nr < 0 or t._ftorch_meta is not None and t._ftorch_meta.creation:
        raise RuntimeError(write_refusal(t))
    if base._grad_fn is None and base._ftorch_requires_grad | t._ftorch_requires_grad:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )


def _record_inplace(plan, tensors, scalars, grad):
    target = tensors[0]
    if not grad or not plan.differentiable:
        if grad and plan.op.definition.name in _COMPARISONS and target._ftorch_geometry.dtype.category > 1 and (
            any([t._ftorch_requires_grad for t in tensors]) or target._base is not None and target._base._ftorch_requires_grad
        ):
            return _replace(plan, tensors, scalars)
        write_result(plan, target, tensors, scalars)
        return target
    mask = mask_of(tensors)
    backward = plan.backwards.get(mask)
    if backward is None:
        refusal = refusal_in_place(plan)
        if refusal is None:
            backward = derivatives.of_plan(plan, mask, node_class)
        else:
            backward = derivatives.refused(plan, mask, node_class, refusal)
        plan.backwards[mask] = backward
    node = make_node(plan, backward, tensors, scalars)
    if plan.op.definition.name in OTHERS_IN_PLACE:
        rename_node(node, f"{type(node).__name__.rstrip('0123456789')}1")
    saved_inputs = [
        None if i < 0 else save(gradient_values.detached(target) if i == 0 else tensors[i])
        for i in backward.saved
    ]
    history, storage = _new_history(target, node), target._ftorch_storage
    before = storage.version, counter_of(target).version
    try:
        write_result(plan, target, tensors, scalars)
        _set_history(target, node, history, saved_inputs)
    except BaseException:
        # What was written has this history, whatever interrupted it.
        if before != (storage.version, counter_of(target).version):
            _set_history(target, node, history, saved_inputs)
        raise
    return target


_COMPARISONS = frozenset("eq ne lt le gt ge".split())


def _replace(plan, tensors, scalars):
    """Writes what depends on no operand's gradient over a tensor that has a history: from then on that is zero."""
    target, name = tensors[0], plan.op.definition.name
    value = gradient_values.detached(target)
    write_result(plan, value, [value, *tensors[1:]], scalars)
    if any([t._ftorch_requires_grad for t in tensors[1:]]):
        value = call(op_named("_sampled"), (value, *tensors[1:], None)[:3], ())
    call_inplace(op_named("copy"), (target, value), (False,))
    if target._base is None:
        rename_node(target._grad_fn, f"{name.capitalize()}Backward{int(len(tensors) > 1)}")
    return target


def rebase(target, node):
    """Makes ``node`` the history of a tensor that was written to; a view's base gets it too."""
    _set_history(target, node, _new_history(target, node), None)


def _new_history(target, node):
    """The node of what is written to: the base's, for a view."""
    base = target._base
    if base is None:
        return node
    base_edge = edge_of(base) if base._ftorch_requires_grad else None
    slices = CopySlices(
        base._ftorch_geometry, target._ftorch_geometry, target._ftorch_offset - base._ftorch_offset, node
    )
    slices._ftorch_edges = (base_edge, *node._ftorch_edges[1:])
    return slices


def _set_history(target, node, history, saved):
    """What follows a write that is recorded in the graph. Can be done again."""
    if saved is not None:
        node.saved = [save(target) if kept is None else kept for kept in saved]
    base, name = target._base, history.name()
    written = target if base is None else base
    if written._grad_fn is not history:
        move_retained(written, written._grad_fn, written._ftorch_output_nr, history)
    target._ftorch_requires_grad = True
    if base is None:
        target._grad_fn, target._ftorch_output_nr = node, 0
        target._ftorch_storage.extra = name
    else:
        base._grad_fn, base._ftorch_output_nr, base._ftorch_requires_grad = history, 0, True
        base._ftorch_storage.extra = name
        target._ftorch_attr_version = -1
        target._grad_fn = grad_fn_of(target)


hooks.record_inplace = _record_inplace
hooks.check_inplace = check_inplace
