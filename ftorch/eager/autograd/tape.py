"""The graph that gradients flow through: nodes, how operations record them, saved tensors.

A `Node` stands for one executed operation; its edges lead to the nodes of its inputs. The engine that
walks the graph is `ftorch.eager.autograd.backward`. A node's backward consists of ops on tensors through the
ordinary call path, so gradients of gradients need no further code.
"""

from __future__ import annotations

import itertools
import traceback
import weakref
from typing import Any

from ..call.op import call, hooks, read, write_result
from ..core.geometry import Geometry, with_bits
from ..core.return_values import named
from ..memory.view import access
from ..runtime.executor import record
from ..tensor import TensorBase, extras, modes, wrap, wrap_view
from . import derivatives

_sequence = itertools.count()
ACCUMULATE_SEQUENCE = 1 << 62  # leaves are served first
_QUALIFIED = ("AccumulateGrad", "CopyBackwards", "CopySlices", "NotImplemented")  # PyTorch names these in full

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class Node:
    """A node of the graph.

    Attributes:
        edges: for each input (node, its output number), or None.
        sequence: when it was made; later nodes run earlier in backward.
        pre_hooks: {output number: hooks on that tensor}, ``node_pre_hooks``/``post_hooks`` on nodes.
    """

    __slots__ = (
        "edges", "sequence", "tensor_hooks", "node_pre_hooks", "post_hooks", "_metadata", "trace",
        "__weakref__",
    )
    edges: tuple
    is_accumulate = is_view = False
    width: Any = 1  # how many outputs there are

    def __init__(self):
        self.edges = ()
        self.sequence = next(_sequence)
        self.tensor_hooks = self.node_pre_hooks = self.post_hooks = self._metadata = None
        self.trace = traceback.extract_stack()[:-3] if modes.anomaly else None

    def name(self) -> str:
        """The node's name, such as ``"AddBackward0"``."""
        name = type(self).__name__
        return f"torch::autograd::{name}" if name in _QUALIFIED else name

    @property
    def next_functions(self):
        """((node, output number), ...) of the inputs; (None, 0) where no gradient goes."""
        edges = self.edges
        found = (None if i is None else edges[i] for i in self.shown_edges())
        return tuple((None, 0) if e is None else e for e in found)

    def shown_edges(self):
        """The indices of the edges in PyTorch's order, None for one that leads nowhere."""
        return range(len(self.edges))

    @property
    def metadata(self) -> dict:
        """A dict for the user's own use."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    def _sequence_nr(self):
        return self.sequence

    def __repr__(self):
        return f"<{self.name()} object at {id(self):#x}>"

    def register_hook(self, fn):
        """Calls ``fn(grad_inputs, grad_outputs)`` after the node ran; it may replace grad_inputs."""
        if self.post_hooks is None:
            self.post_hooks = {}
        return RemovableHandle(self.post_hooks, fn)

    def register_prehook(self, fn):
        """Calls ``fn(grad_outputs)`` before the node runs; it may replace them."""
        if self.node_pre_hooks is None:
            self.node_pre_hooks = {}
        return RemovableHandle(self.node_pre_hooks, fn)

    def apply(self, grads):
        """Gradients of the inputs, given those of the outputs (None where there is none)."""
        raise AssertionError("abstract")

    def release(self):
        """Lets go of what was saved for backward."""

    def __call__(self, *grads):
        out = self.apply(list(grads))
        shown = [None if i is None else out[i] for i in self.shown_edges()]
        return shown[0] if len(shown) == 1 else tuple(shown)


_handle_ids = itertools.count()


class RemovableHandle:
    """Removes a hook; also a context manager."""

    def __init__(self, hooks_dict, fn, *others):
        self.id = next(_handle_ids)
        self._hooks = weakref.ref(hooks_dict) if hasattr(hooks_dict, "__weakref__") else hooks_dict
        hooks_dict[self.id] = fn
        self._others = others

    def remove(self):
        """Removes the hook; a second call does nothing."""
        hooks_dict = self._hooks() if isinstance(self._hooks, weakref.ref) else self._hooks
        if hooks_dict is not None:
            hooks_dict.pop(self.id, None)
        for other in self._others:
            other.pop(self.id, None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds to the leaf's ``.grad``."""

    __slots__ = ("variable",)
    is_accumulate = True

    def __init__(self, variable):
        super().__init__()
        self.sequence = ACCUMULATE_SEQUENCE
        self.variable = variable

    def is_bare(self):
        """Whether nobody has a say in what it does."""
        return not (self.tensor_hooks or self.node_pre_hooks or self.post_hooks or modes.anomaly)

    def apply(self, grads):
        self.take({0: grads[0]})
        return []

    def take(self, buffer):
        """Adds the gradient ``buffer[0]``, which it removes from there."""
        variable = self.variable
        if not variable._ftorch_requires_grad:  # it was detached since
            return
        derivatives.accumulate(variable, buffer)
        post = variable._ftorch_meta and variable._ftorch_meta.post_hooks
        if post:
            for hook in list(post.values()):
                result = hook(variable)
                if result is not None and not isinstance(result, TensorBase):
                    raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")


def accumulator(t) -> AccumulateGrad:
    """The `AccumulateGrad` of a leaf; one exists as long as some graph needs it."""
    meta = t._ftorch_meta
    if meta is None:
        meta = extras(t)
    found = meta.accumulator and meta.accumulator()
    if found is None:
        found = AccumulateGrad(t)
        if meta.hooks:
            found.tensor_hooks = {0: meta.hooks}
        meta.accumulator = weakref.ref(found)
    return found


# --- saved tensors -------------------------------------------------------------------


def version_of(t) -> int:
    """How often the tensor's storage was written to (through it, for a ``.data`` tensor)."""
    meta = t._ftorch_meta
    if meta is not None and meta.version is not None:
        return meta.version[0]
    return t._ftorch_storage.version


class SavedByHook:
    """A saved tensor in the keeping of ``saved_tensors_hooks``."""

    __slots__ = ("packed", "unpack")

    def __init__(self, t, pack, unpack):
        with_grad, modes.grad = modes.grad, False
        version = t._ftorch_storage.version
        try:
            self.packed = pack(t)
        finally:
            modes.grad = with_grad
        if t._ftorch_storage.version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
                "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you "
                "need to perform in-place operations on the input to a pack hook."
            )
        self.unpack = unpack


class SavedWrapped:
    """A saved tensor of a transform level: a wrapper outside the level's graph, but not outside
    that of the tensors below."""

    __slots__ = ("kept", "storage", "version")

    def __init__(self, t):
        self.kept = t._level.alias(t)
        self.storage, self.version = t._ftorch_storage, t._ftorch_storage.version


class SavedOutside:
    """A saved tensor that comes back itself, with its place in the graph: one from outside a transform
    level, or one that a custom function saved."""

    __slots__ = ("tensor", "version")

    def __init__(self, t):
        self.tensor, self.version = t, t._ftorch_storage.version


def save(t):
    """What a node keeps of a tensor: not the tensor itself, which would be a cycle for results."""
    if modes.saved_hooks:
        return SavedByHook(t, *modes.saved_hooks[-1])
    storage = t._ftorch_storage
    if storage.version < 0 and not modes.differentiating:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
            "inference mode in computation tracked by autograd. To work around this, you can make a "
            "clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
            "`torch.inference_mode()`."
        )
    if storage.error is not None and storage.array is None:
        return SavedWrapped(t) if hasattr(t, "_level") else SavedOutside(t)
    return storage, t._ftorch_geometry, t._ftorch_offset, storage.version


def unpack(saved, node, edge, in_graph=False):
    """The saved tensor, with its place in the graph if a graph is being made, or ``in_graph``.

    Raises:
        RuntimeError: if it was written to since.
    """
    if saved.__class__ is SavedByHook:
        t = saved.unpack(saved.packed)
        if not isinstance(t, TensorBase):
            raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                            f"{type(t).__name__}")
        t = wrap_view(t._ftorch_storage, t._ftorch_geometry, t._ftorch_offset, None)
    elif saved.__class__ is SavedWrapped:
        t = saved.kept
        if saved.storage.version != saved.version:
            raise RuntimeError(_modified(t, saved.version, node, edge))
        if (modes.grad or in_graph) and edge is not None and edge[0] is node:
            t = t._level.alias(t)  # what is kept would hold the node that keeps it
    elif saved.__class__ is SavedOutside:
        t = saved.tensor
        if t._ftorch_storage.version != saved.version:
            raise RuntimeError(_modified(t, saved.version, node, edge))
        return t
    else:
        storage, g, offset, version = saved
        t = wrap(storage) if g is storage.root else wrap_view(storage, g, offset, None)
        if storage.version != version:
            raise RuntimeError(_modified(t, version, node, edge))
    if edge is not None and edge[0].is_accumulate:
        if saved.__class__ is not SavedByHook:
            return edge[0].variable
        identity = AliasNode(t._ftorch_geometry, t._ftorch_geometry, 0)  # a leaf's value is its own, this one a hook's
        identity.edges, edge = (edge,), (identity, 0)
    if (modes.grad or in_graph) and edge is not None:
        source, nr = edge
        t._grad_fn, t._ftorch_output_nr, t._ftorch_requires_grad = source, nr, True
    return t


def _modified(t, version, node, edge):
    what = f"torch.{t.dtype.scalar_name}Tensor {list(t.shape)}"
    made_by, storage = None, t._ftorch_storage
    if edge is not None and not edge[0].is_accumulate:
        made_by = edge[1], edge[0].name()
    is_result = edge is not None and edge[0] is node
    if not is_result and edge is not None and edge[0].is_view:
        made_by = 0, "AsStrided"  # a view of what was written to is taken anew
    elif not is_result and storage.extra is not None:
        made_by = 0, storage.extra  # an operand's history is today's
    of = ""
    if made_by is not None:
        of = f", which is output {made_by[0]} of {made_by[1].partition('Backward')[0]},"
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{what}]{of} is at version {storage.version}; expected version {version} "
        "instead. Hint: enable anomaly detection to find the operation that failed to compute its "
        "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )


# --- nodes of ops --------------------------------------------------------------------


_SAVING_NUMBERS = frozenset(("mul", "div"))


class OpNode(Node):
    """The node of an op call. Its class is named after the op (`node_class`)."""

    __slots__ = ("backward", "saved", "scalars", "results")

    def __init__(self, backward, scalars, edges=()):
        # What `Node` does, without a call: every operation makes one.
        self.sequence = next(_sequence)
        self.tensor_hooks = self.node_pre_hooks = self.post_hooks = self._metadata = None
        self.trace = traceback.extract_stack()[:-2] if modes.anomaly else None
        self.edges = edges
        self.backward = backward
        self.scalars = scalars
        self.saved: Any = ()

    width = property(lambda self: len(self.backward.differentiable))

    def release(self):
        # What saved nothing can run again. PyTorch's products with numbers save these, as tensors.
        if self.saved or (self.scalars and self.backward.plan.op.name in _SAVING_NUMBERS):
            self.saved = None

    def unpack_all(self):
        """The saved tensors, in the order of the backward op's operands."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED)
        edges = self.edges
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
        out = call(backward.op, (*self.unpack_all(), *self.scalars, *grads))
        if out.__class__ is not tuple:
            out = (out,)
        spread = [None] * len(self.edges)
        for i, g in zip(backward.wanted, out):
            spread[i] = g
        return spread

    @property
    def saved_tensors(self):
        return tuple(self.unpack_all())

    def shown_edges(self):
        from .saved_values import shown_edges

        return shown_edges(self) if len(self.edges) == len(self.backward.mask) else range(len(self.edges))

    def __getattr__(self, name):
        if name.startswith(("_saved_", "_raw_saved_")):
            from .saved_values import of_op

            return of_op(self, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __dir__(self):
        from .saved_values import names_of

        return [*super().__dir__(), *names_of(self.backward)]


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


def node_class(name: str, base: type = OpNode) -> type:
    """The node class of a name: ``node_class("AddBackward0")``."""
    found = _classes.get((name, base))
    if found is None:
        found = _classes[(name, base)] = type(name, (base,), {"__slots__": ()})
    return found


def rename_node(node, name: str) -> None:
    """Gives a node, which nobody has seen yet, another name."""
    node.__class__ = node_class(name, type(node).__base__)


def grad_fn_of(t):
    """The tensor's node, made anew for a view whose base was written to since."""
    base = t._base
    if base is None or t._ftorch_attr_version == t._ftorch_storage.version or not base._ftorch_requires_grad:
        return t._grad_fn
    creation = t._ftorch_meta.creation if t._ftorch_meta is not None else None
    if creation and creation != "no_grad":
        raise RuntimeError(_BASE_MODIFIED.format(*creation))
    node = node_class("AsStridedBackward0", AliasNode)(base._ftorch_geometry, t._ftorch_geometry,
                                                      t._ftorch_offset - base._ftorch_offset)
    node.edges = (edge_of(base),)
    _move_retained(t, t._grad_fn, t._ftorch_output_nr, node)
    t._grad_fn, t._ftorch_output_nr, t._ftorch_attr_version = node, 0, t._ftorch_storage.version
    t._ftorch_requires_grad = True
    return node


def edge_of(t):
    """(node, output number) of a tensor that requires grad."""
    if t._base is None:
        fn = t._grad_fn
    else:
        fn = grad_fn_of(t)
    return (accumulator(t), 0) if fn is None else (fn, t._ftorch_output_nr)


def _make_node(plan, backward, tensors, scalars):
    edges = [edge_of(t) if needed else None for t, needed in zip(tensors, backward.mask)]
    return backward.node_class(backward, scalars, tuple(edges))


def _mask(tensors):
    return tuple([t._ftorch_requires_grad for t in tensors])


def _record(plan, tensors, scalars):
    """Runs a plan and makes the node of its results."""
    mask = _mask(tensors)
    backward = plan.backwards.get(mask)
    if backward is None:
        backward = plan.backwards[mask] = derivatives.of_plan(plan, mask, node_class)
    storages = [t._ftorch_storage if t._ftorch_geometry is t._ftorch_storage.root else read(t) for t in tensors]
    results = record(plan, storages, scalars and plan.numbers(scalars))
    node = _make_node(plan, backward, tensors, scalars)
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
    from ..call import planning

    mask = _mask(tensors)
    plan = planning.host_plan(op, operands, static, [s.root for s in storages])
    backward = derivatives.of_plan(plan, mask, node_class)
    scalars = [o for o in operands if type(o) in (bool, int, float, complex)]
    node = _make_node(plan, backward, tensors, scalars)
    outputs = []
    for nr, (storage, differentiable) in enumerate(zip(storages, backward.differentiable)):
        out = wrap(storage)
        if differentiable:
            out._ftorch_requires_grad, out._grad_fn, out._ftorch_output_nr = True, node, nr
        outputs.append(out)
    node.saved = _save_all(backward, tensors, outputs)
    return named(op.definition, outputs)


# --- in-place operations -------------------------------------------------------------


def check_inplace(t):
    """Raises PyTorch's errors for a tensor that must not be written to while graphs are recorded."""
    base = t._base
    creation = t._ftorch_meta.creation if t._ftorch_meta is not None else None
    if base is None:
        if t._ftorch_requires_grad and t._grad_fn is None:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
        if creation.__class__ is MadeInFunction:
            raise RuntimeError(_VIEW_OF_FUNCTION.format(*creation))
        return
    if creation.__class__ is MadeInFunction:
        if t._ftorch_requires_grad or base._ftorch_requires_grad:
            name = type(t._grad_fn).__name__.rstrip("0123456789").removesuffix("Backward")
            raise RuntimeError(_VIEW_OF_FUNCTION.format(0, name))
        return
    if base._grad_fn is None and (t._ftorch_requires_grad or base._ftorch_requires_grad) and creation != "no_grad":
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )
    if creation and (t._ftorch_requires_grad or base._ftorch_requires_grad):
        if creation == "no_grad":
            raise RuntimeError(_MADE_WITHOUT_GRAD)
        raise RuntimeError(_ONE_OF_MANY.format(*creation))


class MadeInFunction(tuple):
    """(output number, name) of the custom Function that made a view of its input."""

    __slots__ = ()


_VIEW_OF_FUNCTION = (
    "Output {} of {} is a view and is being modified inplace. This view was created inside a custom "
    "Function (or because an input was returned as-is) and the autograd logic to handle view+inplace would "
    "override the custom backward associated with the custom Function, leading to incorrect gradients. This "
    "behavior is forbidden. You can fix this by cloning the output of the custom Function."
)
_MADE_WITHOUT_GRAD = (
    "A view was created in no_grad mode and is being modified inplace with grad mode "
    "enabled. Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify "
    "your code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)
_VIEWS_OF_MANY = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the "
    "output views to be modified inplace. You should replace the inplace operation by an out-of-place one."
)
_ONE_OF_MANY = "Output {} of {} is a view and is being modified inplace. " + _VIEWS_OF_MANY
_BASE_MODIFIED = (
    "Output {} of {} is a view and its base or another view of its base has been modified inplace. "
    + _VIEWS_OF_MANY
)


def _record_inplace(plan, tensors, scalars, grad):
    target = tensors[0]
    check_inplace(target)
    if not grad or not plan.differentiable:
        write_result(plan, target, tensors, scalars)
        return target
    mask = _mask(tensors)
    backward = plan.backwards.get(mask)
    if backward is None:
        backward = plan.backwards[mask] = derivatives.of_plan(plan, mask, node_class)
    node = _make_node(plan, backward, tensors, scalars)
    saved_inputs = [
        None if i < 0 else save(derivatives.detached(target) if i == 0 else tensors[i])
        for i in backward.saved
    ]
    history, storage = _new_history(target, node), target._ftorch_storage
    version = storage.version
    try:
        write_result(plan, target, tensors, scalars)
        _set_history(target, node, history, saved_inputs)
    except BaseException:
        if storage.version != version:  # what was written has this history, whatever interrupted it
            _set_history(target, node, history, saved_inputs)
        raise
    return target


# The key, among a node's tensor hooks, of what fills ``.grad`` of a tensor that is no leaf.
RETAINED = float("inf")


def _move_retained(t, old, old_nr, node):
    """Lets what retains a tensor's gradient follow the tensor to the node of its new value."""
    if t._ftorch_meta is not None and t._ftorch_meta.retains_grad and old is not None and old.tensor_hooks:
        keep = old.tensor_hooks.get(old_nr, {}).pop(RETAINED, None)
        if keep is not None:
            if node.tensor_hooks is None:
                node.tensor_hooks = {}
            node.tensor_hooks.setdefault(0, {})[RETAINED] = keep


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
    slices.edges = (base_edge, *node.edges[1:])
    return slices


def _set_history(target, node, history, saved):
    """What follows a write that is recorded in the graph. Can be done again."""
    if saved is not None:
        node.saved = [save(target) if kept is None else kept for kept in saved]
    base, name = target._base, history.name()
    written = target if base is None else base
    if written._grad_fn is not history:
        _move_retained(written, written._grad_fn, written._ftorch_output_nr, history)
    target._ftorch_requires_grad = True
    if base is None:
        target._grad_fn, target._ftorch_output_nr = node, 0
        target._ftorch_storage.extra = name
    else:
        base._grad_fn, base._ftorch_output_nr, base._ftorch_requires_grad = history, 0, True
        base._ftorch_storage.extra = name
        target._ftorch_attr_version = -1
        target._grad_fn = grad_fn_of(target)


class AliasNode(Node):
    """The node of a view regenerated from its base: as_strided."""

    __slots__ = ("base", "view", "offset")
    is_view = True

    def __init__(self, base: Geometry, view: Geometry, offset: int):
        super().__init__()
        self.base, self.view, self.offset = base, view, offset

    def apply(self, grads):
        return [strided_adjoint(grads[0], self.base, self.view, self.offset)]


def strided_adjoint(grad, base: Geometry, view: Geometry, offset: int):
    """The gradient of a base, given that of its part: what was not read gets zeros."""
    way, starts = access(base if base.is_dense else derivatives.covering(base), view, offset)
    out = call(derivatives.adjoint_of(way, base, view), (grad, *starts))
    if not base.is_dense:
        out = wrap_view(out._ftorch_storage, base, 0, None)
    return out


class CopySlices(Node):
    """The history of a base after an in-place operation on a view of it."""

    __slots__ = ("base", "view", "offset", "inner")

    def __init__(self, base, view, offset, inner):
        super().__init__()
        view, base = with_bits(view, view.bits ^ base.bits), with_bits(base, 0)
        self.base, self.view, self.offset, self.inner = base, view, offset, inner

    def release(self):
        self.inner.release()

    def apply(self, grads):
        grad = grads[0]
        whole = derivatives.clone_with(grad, self.base)
        part = derivatives.alias(whole, self.view, self.offset)
        inner = self.inner.apply([derivatives.clone_with(part, None)])
        if self.edges[0] is not None:
            derivatives.overwrite(part, inner[0])
        return [whole, *inner[1:]]


def base_of(t):
    """The tensor that a view of ``t`` is a view of."""
    return t if t._base is None else t._base


hooks.record = _record
hooks.record_host = _record_host
hooks.record_inplace = _record_inplace
hooks.check_inplace = check_inplace
