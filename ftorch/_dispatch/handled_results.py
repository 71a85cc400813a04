"""What handlers of ``__torch_dispatch__`` return, as results of the calls that they handled: nodes of the graph, views."""

from __future__ import annotations

from ..eager.autograd import derivatives, inplace_history, saved_tensors, tape
from ..eager.autograd.views import ViewNode
from ..eager.call.planning import build_inplace
from ..eager.dispatch import overrides
from ..eager.dispatch.levels import wrapped_plan
from ..eager.native.contexts import repeatable
from ..eager.tensor import Tensor, TensorBase, counter_of, modes

disabled = overrides.dispatch_disabled  # the `__torch_dispatch__` of ordinary classes


def has_dispatch(kind: type) -> bool:
    """Whether a class has a ``__torch_dispatch__`` to be asked."""
    function = getattr(kind, "__torch_dispatch__", None)
    return function is not None and function is not disabled


class no_grad:  # noqa: N801
    """Within, no graph is recorded."""

    def __enter__(self):
        self._outer, modes.grad = modes.grad, False

    @repeatable
    def __exit__(self, *_):
        modes.grad = self._outer


def _save(t):
    if type(t) is not Tensor and has_dispatch(type(t)):
        return saved_tensors.SavedOutside(t)
    return saved_tensors.save(t)


def _save_result(t, by_users):
    """What a node keeps of a result: PyTorch's nodes keep it detached, which whoever saw the call sees."""
    if by_users and not modes.saved_hooks:
        with no_grad():
            return saved_tensors.SavedSeen(t)
    return _save(t)


def _fresh(t):
    """A result that the op's node can be put on."""
    return t if t._grad_fn is None and not t._ftorch_requires_grad else t.detach()


def recorded(op, operands, static, result, beside=None, pick=None, by_users=False):
    """The results of a handler, as those of the op's node.

    Args:
        by_users: whether the handler was written outside this package.
    """
    if op.host or not isinstance(result, (TensorBase, tuple, list)):
        return result
    plan, tensors, scalars = wrapped_plan(op, operands, static)
    if not plan.differentiable:
        return result
    mask = tuple(bool(t.requires_grad) for t in tensors)
    node, backward = tape.node_of_handled(plan, mask, tensors, scalars, beside, pick)
    single = isinstance(result, TensorBase)
    outputs = [result] if single else list(result)
    for nr, differentiable in enumerate(backward.differentiable[: len(outputs)]):
        out = outputs[nr]
        if differentiable and isinstance(out, TensorBase):
            out = outputs[nr] = _fresh(out)
            out._ftorch_requires_grad, out._grad_fn, out._ftorch_output_nr = True, node, nr
    node.saved = [
        _save(tensors[i]) if i >= 0 else _save_result(outputs[-1 - i], by_users and backward.differentiable[-1 - i])
        for i in backward.saved
    ]
    if single:
        return outputs[0]
    return plan.wrap_results(outputs) if isinstance(result, tuple) else outputs


def count_write(target, result):
    """A handler wrote to a tensor whose elements only its class knows: its version counts it."""
    if type(target) is not Tensor and has_dispatch(type(target)) and target._ftorch_storage.error is not None:
        counter_of(target).version += 1


def recorded_inplace(op, operands, static, tensors, compute, by_users=False):
    """(True, the first operand), after ``compute`` wrote to it: the node of the write is made around that; or (False, None)."""
    target = operands[0]
    inplace_history.check_inplace(target)
    plan = build_inplace(op, operands, static)
    mask = tuple(bool(t.requires_grad) for t in tensors)
    node = None
    if plan.differentiable:
        backward = derivatives.of_plan(plan, mask, tape.node_class)
        scalars = [o for o in operands if type(o) in (bool, int, float, complex)]
        node = backward.node_class(backward, scalars)
        node._ftorch_edges = tuple(tape.edge_of(t) if m else None for t, m in zip(tensors, mask))
        with no_grad():
            saved = [
                None if i < 0 else _save(target.clone() if tensors[i] is target else tensors[i])
                for i in backward.saved
            ]
    with no_grad():
        handled, result = compute()
    if not handled:
        return False, None
    count_write(target, result)
    if node is not None:
        node.saved = [_save_result(target, by_users) if kept is None else kept for kept in saved]
        inplace_history.rebase(target, node)
    return True, target


def recorded_view(definition, x, static, result):
    """Makes a handler's result the view of ``x`` that was asked for."""
    if result._ftorch_storage is x._ftorch_storage:
        result._base = x if x._base is None else x._base
        result._ftorch_attr_version = counter_of(x).version
        if result._ftorch_meta is not None:
            result._ftorch_meta.creation = None if modes.grad else result._ftorch_meta.creation
    if modes.grad and x.requires_grad and result._ftorch_geometry.dtype.category >= 2:
        node = tape.node_class(derivatives.node_name(definition), ViewNode)(
            definition, static, x._ftorch_geometry
        )
        node._ftorch_edges = (tape.edge_of(x),)
        result._grad_fn, result._ftorch_output_nr, result._ftorch_requires_grad = node, 0, True


__all__ = ["count_write", "has_dispatch", "no_grad", "recorded", "recorded_inplace", "recorded_view"]
