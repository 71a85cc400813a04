"""The nodes of the autograd graph, hooks on them, and those at its ends, which accumulate into ``.grad``.

A `Node` stands for one executed operation; its edges lead to the nodes of its inputs.
"""

from __future__ import annotations

import itertools
import threading
import traceback
import weakref
from collections import OrderedDict
from typing import Any

from ..core.handles import add_hook
from ..core.places import ENGINE
from ..tensor import TensorBase, extras, modes
from . import gradient_values

_sequence = itertools.count()
ACCUMULATE_SEQUENCE = 1 << 62  # leaves are served first
# PyTorch names these in full.
_QUALIFIED = ("AccumulateGrad", "CopyBackwards", "CopySlices", "NotImplemented", "WarnNotImplemented")
FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)


class _Running(threading.local):
    """What computes gradients in this thread.

    Attributes:
        node: the node that does, where somebody may ask.
        needed: the nodes that lead to inputs whose gradients are wanted; None: all.
    """

    node: Any = None
    needed: Any = None


running = _Running()


def made_at(depth: int):
    """Where a node is made: (the stack without its last ``depth`` frames, the node that makes it or None)."""
    stack = traceback.extract_stack()[: -depth - 1]
    while stack and stack[-1].filename.startswith(ENGINE):  # how the engine came here tells nobody anything
        del stack[-1]
    return stack, running.node


class Node:
    """A node of the graph.

    What it has is named so that it meets no attribute of a custom function's context, which is a node, too.

    Attributes:
        _ftorch_edges: for each input (node, its output number), or None.
        _ftorch_sequence: when it was made; later nodes run earlier in backward.
        _ftorch_tensor_hooks: {output number: hooks on that tensor}; ``_ftorch_node_pre_hooks`` and ``_ftorch_post_hooks`` are
            the node's.
        _ftorch_trace: where it was made (`made_at`), if anomalies are looked for.
        _ftorch_detached: the outputs that ``detach_`` took out of the graph; not there before the first.
    """

    __slots__ = (
        "_ftorch_edges", "_ftorch_sequence", "_ftorch_tensor_hooks", "_ftorch_node_pre_hooks", "_ftorch_post_hooks",
        "_ftorch_metadata", "_ftorch_trace", "_ftorch_detached", "__weakref__",
    )
    _ftorch_edges: tuple
    _ftorch_is_accumulate = _ftorch_is_view = False
    _ftorch_takes_undefined = False  # whether it runs where no output has a gradient; else its inputs have none
    _ftorch_width: Any = 1  # how many outputs there are

    def __init__(self):
        self._ftorch_edges = ()
        self._ftorch_sequence = next(_sequence)
        self._ftorch_tensor_hooks = self._ftorch_node_pre_hooks = self._ftorch_post_hooks = self._ftorch_metadata = None
        self._ftorch_trace = made_at(3) if modes.anomaly else None

    def name(self) -> str:
        """The node's name, such as ``"AddBackward0"``."""
        name = type(self).__name__
        return f"torch::autograd::{name}" if name in _QUALIFIED else name

    @property
    def next_functions(self):
        """((node, output number), ...) of the inputs; (None, 0) where no gradient goes."""
        edges = self._ftorch_edges
        found = (None if i is None else edges[i] for i in self._ftorch_shown_edges())
        return tuple((None, 0) if e is None else e for e in found)

    def _ftorch_shown_edges(self):
        """The indices of the edges in PyTorch's order, None for one that leads nowhere."""
        return range(len(self._ftorch_edges))

    @property
    def metadata(self) -> dict:
        """A dict for the user's own use; with anomaly detection it says where the node was made."""
        if self._ftorch_metadata is None:
            self._ftorch_metadata = {}
            if self._ftorch_trace is not None:
                self._ftorch_metadata["traceback_"] = traceback.format_list(self._ftorch_trace[0])
                if self._ftorch_trace[1] is not None:
                    self._ftorch_metadata["parent_"] = self._ftorch_trace[1]
        return self._ftorch_metadata

    def _sequence_nr(self):
        return self._ftorch_sequence

    def _set_sequence_nr(self, number: int):
        self._ftorch_sequence = number

    @property
    def _input_metadata(self):
        """For each output of the operation what is known of it: shape, dtype, device."""
        width = self._ftorch_width
        return tuple(_InputMetadata(self._ftorch_geometry_of(nr)) for nr in range(width))

    def _ftorch_geometry_of(self, nr):
        """The geometry of an output, or None if it is not known."""
        plan = getattr(getattr(self, "backward", None), "plan", None)
        if plan is not None:
            return plan.geometries[nr]
        known = getattr(self, "_ftorch_output_geometries", ())
        return known[nr] if nr < len(known) else None

    def __repr__(self):
        return f"<{type(self).__name__} object at {id(self):#x}>"

    def register_hook(self, fn):
        """Calls ``fn(grad_inputs, grad_outputs)`` after the node ran; it may replace grad_inputs."""
        if self._ftorch_post_hooks is None:
            self._ftorch_post_hooks = OrderedDict()
        return add_hook(self._ftorch_post_hooks, fn)

    def register_prehook(self, fn):
        """Calls ``fn(grad_outputs)`` before the node runs; it may replace them."""
        if self._ftorch_node_pre_hooks is None:
            self._ftorch_node_pre_hooks = OrderedDict()
        return add_hook(self._ftorch_node_pre_hooks, fn)

    def apply(self, grads):
        """Gradients of the inputs, given those of the outputs (None where there is none)."""
        raise AssertionError("abstract")

    def _ftorch_release(self):
        """Lets go of what was saved for backward."""

    def __call__(self, *grads):
        if len(grads) != self._ftorch_width:
            raise TypeError(f"expected {self._ftorch_width} arguments, got {len(grads)} instead")
        for i, g in enumerate(grads):
            if g is not None and not isinstance(g, TensorBase):
                raise TypeError(f"argument {i} is not a Variable")
        out = self.apply(list(grads))
        shown = [None if i is None else out[i] for i in self._ftorch_shown_edges()]
        return shown[0] if len(shown) == 1 else tuple(shown)


class _InputMetadata:
    """What a node knows of a gradient that it is given."""

    is_nested_tensor = is_cpp_nested_tensor = False

    def __init__(self, g):
        if g is not None:
            self.shape, self.dtype, self.device = list(g.shape), g.dtype, g.device


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds to the leaf's ``.grad``."""

    __slots__ = ("variable",)
    _ftorch_is_accumulate = _ftorch_takes_undefined = True

    def __init__(self, variable):
        super().__init__()
        self._ftorch_sequence = ACCUMULATE_SEQUENCE
        self.variable = variable

    def _ftorch_geometry_of(self, nr):
        return self.variable._ftorch_geometry

    def is_bare(self):
        """Whether nobody has a say in what it does."""
        return not (self._ftorch_tensor_hooks or self._ftorch_node_pre_hooks or self._ftorch_post_hooks or modes.anomaly)

    def apply(self, grads):
        self.take({0: grads[0]}, 1)  # hooks that come after see in it what hooks before made of ``.grad``
        return []

    def take(self, buffer, holders=0):
        """Adds the gradient ``buffer[0]``, which it removes from there.

        Args:
            holders: how many others hold it of whom the caller knows.
        """
        variable = self.variable
        if variable._grad_fn is not None:
            raise RuntimeError("leaf variable has been moved into the graph interior")
        if not variable._ftorch_requires_grad:  # it was detached since
            return
        gradient_values.accumulate(variable, buffer, holders)
        post = variable._ftorch_meta and variable._ftorch_meta.post_hooks
        if post:
            for hook in list(post.values()):
                result = hook(variable)
                if result is not None and not isinstance(result, TensorBase):
                    raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
                if result is not None and result is not variable:
                    raise RuntimeError("Tensor post accumulate grad hooks should return None.")


def accumulator(t) -> AccumulateGrad:
    """The `AccumulateGrad` of a leaf; one exists as long as some graph needs it."""
    meta = t._ftorch_meta
    if meta is None:
        meta = extras(t)
    found = meta.accumulator and meta.accumulator()
    if found is None:
        found = AccumulateGrad(t)
        if meta.hooks:
            found._ftorch_tensor_hooks = {0: meta.hooks}
        meta.accumulator = weakref.ref(found)
    return found
