"""Saved tensors: what nodes keep for backward, and how it comes back, checked to be as it was."""

from __future__ import annotations

import weakref

from ..tensor import TensorBase, counter_of, extras, modes, wrap, wrap_view
from .view_nodes import AliasNode


class SavedByHook:
    """A saved tensor in the keeping of ``saved_tensors_hooks``."""

    __slots__ = ("packed", "unpack")

    def __init__(self, t, pack, unpack):
        with_grad, modes.grad = modes.grad, False
        version = counter_of(t).version
        try:
            self.packed = pack(t)
        finally:
            modes.grad = with_grad
        if counter_of(t).version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be "
                "modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if you "
                "need to perform in-place operations on the input to a pack hook."
            )
        self.unpack = unpack


class SavedWrapped:
    """A saved tensor of a transform level: a wrapper outside the level's graph, but not outside
    that of the tensors below."""

    __slots__ = ("kept", "counter", "version")

    def __init__(self, t):
        self.kept = t._ftorch_level.alias(t)
        self.count(t)

    def count(self, t):
        self.counter = counter_of(t)
        self.version = self.counter.version


class SavedDetached(SavedWrapped):
    """A saved result of a level that records calls: it is detached when it is saved, and when it comes back."""

    __slots__ = ()

    def __init__(self, t):
        self.kept = t._ftorch_level.detach(t)
        self.count(t)


class SavedSeen(SavedWrapped):
    """A saved result of a call that a handler of ``__torch_dispatch__`` saw: it is detached then and when it comes back."""

    __slots__ = ()

    def __init__(self, t):
        self.kept = t.detach()
        self.count(t)


class SavedOutside:
    """A saved tensor that comes back itself, with its place in the graph: one from outside a transform
    level, or one that a custom function saved."""

    __slots__ = ("tensor", "version")

    def __init__(self, t):
        self.tensor, self.version = t, counter_of(t).version


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
        return SavedWrapped(t) if hasattr(t, "_ftorch_level") else SavedOutside(t)
    counter = counter_of(t)
    if counter is storage:
        return storage, t._ftorch_geometry, t._ftorch_offset, storage.version
    return storage, t._ftorch_geometry, t._ftorch_offset, counter.version, counter


def unpack(saved, node, edge, in_graph=False):
    """The saved tensor, with its place in the graph if a graph is being made, or ``in_graph``.

    Raises:
        RuntimeError: if it was written to since, or taken out of the graph by ``detach_``.
    """
    if edge is not None and edge[0] is not node and edge[1] in getattr(edge[0], "_ftorch_detached", ()):
        raise RuntimeError(
            "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_().This is not supported, please "
            "use out-of-place `.detach()` instead"
        )
    if saved.__class__ is SavedByHook:
        t = saved.unpack(saved.packed)
        if not isinstance(t, TensorBase):
            raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                            f"{type(t).__name__}")
        if edge is None and not t._ftorch_requires_grad:
            return t
        t = wrap_view(t._ftorch_storage, t._ftorch_geometry, t._ftorch_offset, None)
    elif saved.__class__ is SavedDetached:
        if saved.counter.version != saved.version:
            raise RuntimeError(_modified(saved.kept, saved.counter, saved.version, node, edge))
        t = saved.kept._ftorch_level.detach(saved.kept)
    elif saved.__class__ is SavedSeen:
        if saved.counter.version != saved.version:
            raise RuntimeError(_modified(saved.kept, saved.counter, saved.version, node, edge))
        t = saved.kept.detach()
    elif saved.__class__ is SavedWrapped:
        t = saved.kept
        if saved.counter.version != saved.version:
            raise RuntimeError(_modified(t, saved.counter, saved.version, node, edge))
        if (modes.grad or in_graph) and edge is not None and edge[0] is node:
            t = t._ftorch_level.alias(t)  # what is kept would hold the node that keeps it
    elif saved.__class__ is SavedOutside:
        t = saved.tensor
        if (counter := counter_of(t)).version != saved.version:
            raise RuntimeError(_modified(t, counter, saved.version, node, edge))
        return t
    else:
        storage, g, offset, version, *own = saved
        t = wrap(storage) if g is storage.root else wrap_view(storage, g, offset, None)
        if edge is not None and edge[0]._ftorch_is_accumulate:  # which may have got other memory since
            counter = counter_of(edge[0].variable)
        elif own:
            counter = extras(t).counter = own[0]
        else:
            counter = storage
        if counter.version != version:
            raise RuntimeError(_modified(t, counter, version, node, edge))
    if edge is not None and edge[0]._ftorch_is_accumulate:
        if saved.__class__ is not SavedByHook:
            return edge[0].variable
        if in_graph:  # looked at: a leaf with a hook's value, whose gradient is that of the leaf that was saved
            t._ftorch_requires_grad, extras(t).accumulator = True, weakref.ref(edge[0])
            return t
        identity = AliasNode(t._ftorch_geometry, t._ftorch_geometry, 0)  # a leaf's value is its own, this one a hook's
        identity._ftorch_edges, edge = (edge,), (identity, 0)
    if (modes.grad or in_graph) and edge is not None:
        source, nr = edge
        t._grad_fn, t._ftorch_output_nr, t._ftorch_requires_grad = source, nr, True
    return t


def _modified(t, counter, version, node, edge):
    kind = f"Meta{t.dtype.scalar_name}Type" if t.is_meta else f"torch.{t.dtype.scalar_name}Tensor"
    what = f"{kind} {list(t.shape)}"
    made_by, storage = None, t._ftorch_storage
    if edge is not None and not edge[0]._ftorch_is_accumulate:
        made_by = edge[1], edge[0].name()
    is_result = edge is not None and edge[0] is node
    if not is_result and edge is not None and edge[0]._ftorch_is_view:
        made_by = 0, "AsStrided"  # a view of what was written to is taken anew
    elif not is_result and storage.extra.__class__ is str:
        made_by = 0, storage.extra  # an operand's history is today's
    of = ""
    if made_by is not None and (t.dtype.is_floating_point or t.dtype.is_complex):  # indices have no history
        of = f", which is output {made_by[0]} of {made_by[1].partition('Backward')[0]},"
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{what}]{of} is at version {counter.version}; expected version {version} "
        "instead. Hint: enable anomaly detection to find the operation that failed to compute its "
        "gradient, with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )
