"""The tape: how operations are recorded in the autograd graph: an `OpNode` for each call, with what its backward reads.

The engine that walks the graph is `ftorch.eager.autograd.backward`. A node's backward consists of ops on tensors
through the ordinary call path, so gradients of gradients need no further code.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from ..call.op import call, hooks, read, special
from ..core.return_values import named
from ..runtime.executor import record
from ..tensor import counter_of, modes, wrap
from . import derivatives
from .nodes import FREED, Node, _sequence, accumulator, made_at, running
from .saved_tensors import SavedByHook, save, unpack
from .view_nodes import AliasNode

_SAVING_NUMBERS = frozenset(("mul", "div"))
_PASSING = frozenset(("add", "sub", "clone"))
# Whose gradients depend on what was saved by where it lies only, so that they require grad as the result's gradient does.
_CHOOSING = frozenset(
    "max min sort msort topk median nanmedian mode kthvalue amax amin aminmax clamp clamp_min clamp_max masked_fill cummax "
    "cummin maximum minimum fmax fmin quantile nanquantile hinge_embedding_loss".split()
)


class OpNode(Node):
    """The node of an op call. Its class is named after the op (`node_class`)."""

    __slots__ = ("backward", "saved", "scalars", "results")

    def __init__(self, backward, scalars, edges=()):
        # What `Node` does, without a call: every operation makes one.
        self._ftorch_sequence = next(_sequence)
        self._ftorch_tensor_hooks = self._ftorch_node_pre_hooks = self._ftorch_post_hooks = self._ftorch_metadata = None
        self._ftorch_trace = made_at(2) if modes.anomaly else None
        self._ftorch_edges = edges
        self.backward = backward
        self.scalars = scalars
        self.saved: Any = ()

    _ftorch_width = property(lambda self: len(self.backward.differentiable))

    def _ftorch_release(self):
        # What saved nothing can run again. PyTorch's products with numbers save these, as tensors.
        if self.saved or (self.scalars and self.backward.plan.op.name in _SAVING_NUMBERS):
            self.saved = None

    def unpack_all(self):
        """The saved tensors, in the order of the backward op's operands."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        edges = self._ftorch_edges
        if len(saved) > 1 and any(kept.__class__ is SavedByHook for kept in saved):
            found: list = [None] * len(saved)
            for k in order_of_hooks(self.backward):
                i = self.backward.saved[k]
                found[k] = unpack(saved[k], self, edges[i] if i >= 0 else (self, -1 - i))
            return found
        return [
            unpack(kept, self, edges[i] if i >= 0 else (self, -1 - i))
            for kept, i in zip(saved, self.backward.saved)
        ]

    def apply(self, grads):
        backward = self.backward
        if modes.grad and backward.plan.op.name in _PASSING and _passes(backward, self.scalars):
            return [grads[0] if m else None for m in backward.mask]
        saved = self.unpack_all()
        if running.needed is not None and len(backward.wanted) > 1 and running.node is self:  # not in another node
            backward, saved = _for_needed(self, backward, saved)
        if modes.grad and not special[0] and backward.plan.op.name in _CHOOSING:
            saved = [t.detach() if t._ftorch_requires_grad else t for t in saved]
        operands = (*saved, *self.scalars, *grads)
        seen = hooks.gradient if special[0] else None
        out = None if seen is None else seen(backward.op, operands)
        if out is None:
            out = call(backward.op, operands)
        if out.__class__ is not tuple:
            out = (out,)
        spread = [None] * len(self._ftorch_edges)
        for i, g in zip(backward.wanted, out):
            spread[i] = g
        return spread

    @property
    def saved_tensors(self):
        return tuple(self.unpack_all())

    def _ftorch_shown_edges(self):
        from .saved_values import shown_edges

        return shown_edges(self) if len(self._ftorch_edges) == len(self.backward.mask) else range(len(self._ftorch_edges))

    def __getattr__(self, name):
        if name.startswith(("_saved_", "_raw_saved_")):
            from .saved_values import of_op

            return of_op(self, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __dir__(self):
        from .saved_values import names_of

        return [*super().__dir__(), *names_of(self)]


def _for_needed(node, backward, saved):
    """The derivative of a node in the inputs whose gradients are wanted, and what it reads of the saved tensors.

    The others' gradients would be computed for nothing, and at infinite slopes they are what zeros are multiplied by
    where the gradients are differentiated.
    """
    edges, mask, needed = node._ftorch_edges, backward.mask, running.needed
    asked = tuple([m and e is not None and e[0] in needed for m, e in zip(mask, edges)])
    if len(edges) != len(mask) or asked == mask or not any(asked):
        return backward, saved
    plan = backward.plan
    found = plan.backwards.get(asked)
    if found is None:
        found = plan.backwards[asked] = derivatives.of_plan(plan, asked, node_class)
    place = backward.saved.index
    if not set(found.saved) <= set(backward.saved):
        return backward, saved
    return found, [saved[place(i)] for i in found.saved]


def _passes(backward, scalars):
    """Whether the gradient of the result is that of each operand, as it is."""
    plan, result = backward.plan, backward.plan.geometries[0]
    if isinstance(plan.op.definition, derivatives.Derived):  # an operator's function with other operands
        return False
    if plan.op.name == "add":
        kind, alpha, *_ = plan.structure.slots[2]
        if (scalars[alpha] if kind == "s" else alpha) != 1:
            return False
    if plan.op.name == "sub" and (backward.wanted != [0] or plan.structure.slots[0][0] != "t"):
        return False
    inputs = [plan.inputs[i] for i in backward.wanted]
    return all(g.shape == result.shape and g.dtype is result.dtype for g in inputs)


class EndingNode(OpNode):
    """The node of a call whose operands require grad as views of what does, and have no place in the graph themselves."""

    __slots__ = ()

    def apply(self, grads):
        return [None] * len(self._ftorch_edges)


class SeveralNode(OpNode):
    """The node of a derivative with several results: what none reads of those that have gradients has no gradient."""

    __slots__ = ()

    def apply(self, grads):
        spread = super().apply(grads)
        given = [g is not None for g in grads]
        if not all(given):
            for i in self.backward.wanted:
                if not self.backward.reaches(i, given):
                    spread[i] = None
        return spread


class _Seen(threading.local):
    node: Any = None


_seen = _Seen()


def beside() -> tuple:
    """(all results, operands) of the ATen op that stood for the call whose node runs, where somebody saw it."""
    node = _seen.node
    return ((), ()) if node is None else (node.results, node.operands)


class SeenNode(OpNode):
    """The node of a call that somebody saw as an ATen op, whose gradient reads what the kernel's does not.

    Attributes:
        results, operands: those of the ATen op; None where the call's own result is.
    """

    __slots__ = ("operands",)

    def apply(self, grads):
        _seen.node = self
        try:
            return super().apply(grads)
        finally:
            _seen.node = None

    def _ftorch_release(self):
        super()._ftorch_release()
        self.results = self.operands = ()


def seen(kind, backward, scalars, results, pick, operands):
    """The node, of a class, of a call that somebody saw as an ATen op: its result ``pick`` is the call's."""
    node = node_class(kind.__name__, SeenNode)(backward, scalars)
    node.results = tuple(None if i == pick else r for i, r in enumerate(results))
    node.operands = tuple(operands)
    return node


def order_of_hooks(backward):
    """The order in which hooks see what a node saves: operands by their names, then results."""
    names, saved = backward.plan.structure.tensor_names, backward.saved
    return sorted(range(len(saved)), key=lambda k: (0, names[saved[k]]) if saved[k] >= 0 else (1, str(-saved[k])))


def _save_all(backward, tensors, outputs):
    """What a node keeps of a call's operands and results."""
    wanted = backward.saved
    if not modes.saved_hooks or len(wanted) < 2:
        return [save(tensors[i] if i >= 0 else outputs[-1 - i]) for i in wanted]
    kept: list = [None] * len(wanted)
    for k in order_of_hooks(backward):
        i = wanted[k]
        kept[k] = save(tensors[i] if i >= 0 else outputs[-1 - i])
    return kept


_classes: dict[tuple, type] = {}


def node_class(name: str, base: type = OpNode, several=False, ends=False) -> type:
    """The node class of a name: ``node_class("AddBackward0")``; of a `SeveralNode` or an `EndingNode`, if so."""
    base = SeveralNode if several else EndingNode if ends else base
    found = _classes.get((name, base))
    if found is None:
        found = _classes[(name, base)] = type(name, (base,), {"__slots__": (), "__module__": "builtins"})
    return found


def rename_node(node, name: str) -> None:
    """Gives a node, which nobody has seen yet, another name."""
    node.__class__ = node_class(name, type(node).__base__)


def grad_fn_of(t):
    """The tensor's node, made anew for a view whose base was written to since."""
    base = t._base
    if base is None or t._ftorch_attr_version == counter_of(t).version or (
        t._grad_fn is None and not base._ftorch_requires_grad
    ):
        return t._grad_fn
    if t._ftorch_output_nr < 0 or t._ftorch_meta is not None and t._ftorch_meta.creation:
        raise RuntimeError(write_refusal(t, "its base or another view of its base has been"))
    node = node_class("AsStridedBackward0", AliasNode)(base._ftorch_geometry, t._ftorch_geometry,
                                                      t._ftorch_offset - base._ftorch_offset)
    node._ftorch_edges = (edge_of(base) if base._ftorch_requires_grad else None,)
    move_retained(t, t._grad_fn, t._ftorch_output_nr, node)
    t._grad_fn, t._ftorch_output_nr, t._ftorch_attr_version = node, 0, counter_of(t).version
    t._ftorch_requires_grad = True
    return node


def edge_of(t):
    """(node, output number) of a tensor that requires grad."""
    if t._base is None:
        fn = t._grad_fn
    else:
        fn = grad_fn_of(t)
    if fn is None:
        return (accumulator(t), 0) if t._ftorch_requires_grad else None
    return fn, t._ftorch_output_nr


def make_node(plan, backward, tensors, scalars):
    edges = [edge_of(t) if needed else None for t, needed in zip(tensors, backward.mask)]
    return backward.node_class(backward, scalars, tuple(edges))


def node_of_handled(plan, mask, tensors, scalars, beside, pick):
    """The node of a call whose results somebody else made: (the node, its `Backward`).

    Args:
        beside, pick: see `seen`; None where nothing is saved otherwise.
    """
    backward = backward_of(plan, mask)
    if beside is None:
        node = backward.node_class(backward, list(scalars))
    else:
        node = seen(backward.node_class, backward, list(scalars), beside, pick, tensors)
    node._ftorch_edges = tuple([edge_of(t) if m else None for t, m in zip(tensors, mask)])
    return node, backward


def backward_of(plan, mask):
    """The derivative of a plan with respect to the inputs of a mask; made once."""
    backward = plan.backwards.get(mask)
    if backward is None:
        backward = plan.backwards[mask] = derivatives.of_plan(plan, mask, node_class)
    return backward


def mask_of(tensors):
    return tuple([t._ftorch_requires_grad for t in tensors])


def _record(plan, tensors, scalars):
    """Runs a plan and makes the node of its results."""
    backward = backward_of(plan, mask_of(tensors))
    storages = [t._ftorch_storage if t._ftorch_geometry is t._ftorch_storage.root else read(t) for t in tensors]
    results = record(plan, storages, scalars and plan.numbers(scalars))
    node = make_node(plan, backward, tensors, scalars)
    if plan.is_single:
        out = wrap(results)
        out._ftorch_requires_grad = True
        out._grad_fn = node
        if backward.saved:
            node.saved = _save_all(backward, tensors, (out,))
        return out
    outputs = []
    for nr, (storage, differentiable) in enumerate(zip(results, backward.differentiable)):
        out = wrap(storage)
        if differentiable:
            out._ftorch_requires_grad, out._grad_fn, out._ftorch_output_nr = True, node, nr
        outputs.append(out)
    node.saved = _save_all(backward, tensors, outputs)
    return plan.wrap_results(outputs)


def _record_host(op, operands, static, tensors, storages):
    """The node of an op whose forward ran on the host; its derivative is an ordinary kernel."""
    from ..call import host_ops

    mask = mask_of(tensors)
    plan = host_ops.host_plan(op, operands, static, [s.root for s in storages])
    backward = derivatives.of_plan(plan, mask, node_class)
    scalars = [o for o in operands if type(o) in (bool, int, float, complex)]
    node = make_node(plan, backward, tensors, scalars)
    outputs = []
    for nr, (storage, differentiable) in enumerate(zip(storages, backward.differentiable)):
        out = wrap(storage)
        if differentiable:
            out._ftorch_requires_grad, out._grad_fn, out._ftorch_output_nr = True, node, nr
        outputs.append(out)
    node.saved = _save_all(backward, tensors, outputs)
    return named(op.definition, outputs)
class MadeInFunction(str):
    """The name of the custom Function that made a view of its input: what `TensorExtras.creation` is then."""

    __slots__ = ()


# In place of the number of a view's output, where it has no node: how it was made. It must not be written to, nor must
# its base, once what is written requires grad.
IN_NO_GRAD, IN_INFERENCE, ONE_OF_SEVERAL = -1, -2, -3
_SEVERAL = "several"
_MARKS = {IN_NO_GRAD: "no_grad", IN_INFERENCE: "inference", ONE_OF_SEVERAL: _SEVERAL}
_MODES = {"no_grad": ("no_grad", "with grad mode enabled", "no_grad"),
          "inference": ("inference", "in normal mode", "inference_mode")}
_WHY_MODE = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the "
    "view and the inplace either both inside the {0} block (if you don't want the inplace to be tracked) or both outside "
    "(if you want the inplace to be tracked)."
)
_WHY_MANY = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the "
    "output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
)
_WHY_FUNCTION = (
    "This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic to "
    "handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
    "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function."
)


def write_refusal(t, written="is being"):
    """Why a view whose history is no view's must not be written to.

    Args:
        written: what was modified, with its verb: the view, or its base.
    """
    creation, node = (t._ftorch_meta and t._ftorch_meta.creation) or _MARKS[t._ftorch_output_nr], t._grad_fn
    place, name = creation if creation.__class__ is tuple else (t._ftorch_output_nr, creation)
    if node is not None:
        place, name = t._ftorch_output_nr, type(node).__name__.rstrip("0123456789").removesuffix("Backward")
    mode = _MODES.get(creation, None if node is not None or creation.__class__ is tuple else _MODES["no_grad"])
    is_function = creation.__class__ is MadeInFunction
    why = _WHY_MANY if creation.__class__ is tuple or creation == _SEVERAL else _WHY_FUNCTION if is_function else _WHY_MODE
    if mode is None:
        return f"Output {place} of {name} is a view and {written} modified inplace. {why}"
    origin = "A view was" if node is None else f"Output {place} of {name} is a view of a view which was"
    return f"{origin} created in {mode[0]} mode and {written} modified inplace {mode[1]}. {why.format(mode[2])}"


# The key, among a node's tensor hooks, of what fills ``.grad`` of a tensor that is no leaf.
RETAINED = float("inf")


def move_retained(t, old, old_nr, node):
    """Lets what retains a tensor's gradient follow the tensor to the node of its new value."""
    if t._ftorch_meta is not None and t._ftorch_meta.retains_grad and old is not None and old._ftorch_tensor_hooks:
        keep = old._ftorch_tensor_hooks.get(old_nr, {}).pop(RETAINED, None)
        if keep is not None:
            if node._ftorch_tensor_hooks is None:
                node._ftorch_tensor_hooks = {}
            node._ftorch_tensor_hooks.setdefault(0, OrderedDict())[RETAINED] = keep


def base_of(t):
    """The tensor that a view of ``t`` is a view of."""
    return t if t._base is None else t._base


hooks.record = _record
hooks.record_host = _record_host
