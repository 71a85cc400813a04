"""Gradients of compiled calls: the graph of one call is one node, whose backward is a program."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from ...eager.autograd import backward as engine
from ...eager.autograd import gradient_values, saved_tensors, tape
from ...eager.autograd.derivative_kernels import Derived
from ...eager.autograd.nodes import FREED, AccumulateGrad, Node
from ...eager.call import op as _op
from ...eager.call.op import dense_like, read
from ...eager.core import device as _device
from ...eager.core.registry import OPTIONAL_TENSOR
from ...eager.memory.storage import Storage
from ...eager.native.contexts import repeatable
from ...eager.runtime import executor
from ...eager.tensor import modes, wrap


class Tangent(NamedTuple):
    """A gradient that arrives: the operand that it is in the trace (None: unused), its geometry."""

    operand: int | None
    geometry: Any


class Found(NamedTuple):
    """What `differentiate` recorded: sources of the inputs, gradients coming in and going out."""

    sources: list
    tangents: list
    grads: list


class FreedNode(Node):
    """The node of a result whose graph a captured backward pass has used up."""

    __slots__ = ("label",)

    def __init__(self, label):
        super().__init__()
        self.label = label

    def name(self):
        return self.label

    def apply(self, grads):
        raise RuntimeError(FREED)


def is_freed(t) -> bool:
    """Whether a backward pass has used up the graph of a tensor."""
    stack, seen = [tape.grad_fn_of(t)], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if getattr(node, "saved", ()) is None or getattr(node, "_saved", ()) is None:
            return True
        stack.extend(e[0] for e in node._ftorch_edges if e is not None)
    return False


class _End(Node):
    """Stands for an older node while a captured graph is differentiated: no gradient goes on from there (to another end,
    perhaps), and no hook is called, which is when the gradient arrives."""

    __slots__ = ("older", "_ftorch_width")

    def __init__(self, older):
        super().__init__()
        self.older, self._ftorch_width = older, older._ftorch_width

    def name(self):
        return self.older.name()


class _Ends:
    """The edges where a graph made since ``started`` ends; within, nodes without edges and hooks are there.

    Attributes:
        edges: {an edge to a leaf, or an older node: that to its end}.
        roots: the edges of the results.
    """

    def __init__(self, roots, started):
        self.edges: dict[tuple, tuple] = {}
        self._started, self._ends, self._nodes = started, {}, {}  # the nodes in between, with their edges
        self.roots = [self._ended(edge) for edge in roots]
        stack = [node for (node, _), own in zip(roots, self.roots) if own[0] is node]
        while stack:
            node = stack.pop()
            if node not in self._nodes:
                self._nodes[node] = node._ftorch_edges
                stack += [e[0] for e in node._ftorch_edges if e is not None and self._ended(e) is e]

    def _ended(self, edge):
        node, nr = edge
        if not (node._ftorch_is_accumulate or node._ftorch_sequence < self._started):
            return edge
        if edge not in self.edges:
            end = self._ends.get(node)
            if end is None:
                end = self._ends[node] = AccumulateGrad(node.variable) if node._ftorch_is_accumulate else _End(node)
            self.edges[edge] = (end, nr)
        return self.edges[edge]

    def __enter__(self):
        try:
            for node, edges in self._nodes.items():
                node._ftorch_edges = tuple([e if e is None else self._ended(e) for e in edges])
        except BaseException:
            self.__exit__()
            raise
        return self

    @repeatable
    def __exit__(self, *_):
        for node, edges in self._nodes.items():
            node._ftorch_edges = edges


def differentiate(captured, wanting) -> Found:
    """Records the backward pass of results into the trace of their forward pass."""
    trace, sources = captured.trace, captured.sources
    roots, storages = [], []
    for t in wanting:
        storage = Storage(dense_like(t._ftorch_geometry))
        # Nobody looks at it: a program gets the gradient in its place.
        storage.array = jax.ShapeDtypeStruct(storage.root.shape, storage.root.dtype.numpy)
        storages.append(storage)
        roots.append((engine.edge_of_output(t), wrap(storage)))
    ends = _Ends([edge for edge, _ in roots], captured.started)
    older = {}
    for t, _ in sources.held:
        if t._ftorch_requires_grad and t._grad_fn is not None:
            older.setdefault(tape.edge_of(t), t)
    found_sources = []
    for node, nr in ends.edges:
        t = node.variable if node._ftorch_is_accumulate else older.get((node, nr))
        if t is None:
            raise captured.Unsupported("a result depends on a graph made outside")
        found_sources.append(sources.tensor(t))
    with ends:
        roots = [(edge, g) for edge, (_, g) in zip(ends.roots, roots)]
        grads = engine.run(roots, retain_graph=True, create_graph=False, inputs=list(ends.edges.values()))  # it may fail
    outgoing = []
    for g in grads:
        if g is None:
            outgoing.append((None, None))
            continue
        storage = read(g)
        if storage.trace is not trace:
            storage = executor.record(_op._identity(storage.root), (storage,))
        outgoing.append((storage.slot, storage.root))
    tangents = [
        Tangent(trace.input_of.get(id(s)), s.root) for s in storages
    ]
    captured.placeholders = storages
    return Found(found_sources, tangents, outgoing)


class CompiledNode(Node):
    """The node of a compiled call.

    Attributes:
        saved: arrays of the forward program; ``residual_inputs`` those it was given.
        inputs: {operand: array} of all of them, for gradients of gradients.
    """

    __slots__ = ("captured", "saved", "residual_inputs", "inputs", "kept")

    def __init__(self, captured, tensors, saved, residual_inputs, inputs):
        super().__init__()
        self.captured = captured
        self._ftorch_edges = tuple(tape.edge_of(t) if t._ftorch_requires_grad else None for t in tensors)
        self.kept = [saved_tensors.save(t) for t in tensors]
        self.saved, self.residual_inputs, self.inputs = saved, residual_inputs, inputs

    def name(self):
        return "CompiledFunctionBackward"

    def _ftorch_release(self):
        self.saved = self.residual_inputs = self.inputs = self.kept = None

    def apply(self, grads):
        if self.saved is None:
            raise RuntimeError(FREED)
        captured = self.captured
        tangents = captured.tangents
        grads = list(grads) + [None] * (len(tangents) - len(grads))
        if modes.grad:
            return self._recorded(grads)
        arrays = dict(zip(captured.saved, self.saved))
        arrays.update(zip(captured.extra, self.residual_inputs))
        for tangent, g in zip(tangents, grads):
            if tangent.operand is not None:
                arrays[tangent.operand] = (
                    _device.put(np.zeros(tangent.geometry.shape, tangent.geometry.dtype.numpy), tangent.geometry.device)
                    if g is None else read(g).value()
                )
        program = captured.backward
        executor.stats.programs += 1
        if program is None:
            return [None] * len(self._ftorch_edges)
        values = iter(
            program.call(
                [arrays[program.starts[p]] for p in program.kept], [],
                program.numbers(captured.floats),
            )
        )
        return [
            None if operand is None else wrap(Storage(root, next(values)))
            for operand, root in captured.input_grads
        ]

    def _recorded(self, grads):
        """The gradients with their own graph: one op of all inputs and gradients."""
        captured = self.captured
        op, operands, outputs = captured.whole_backward()
        tensors = {}
        for source, kept, edge in zip(captured.edges, self.kept, self._ftorch_edges):
            t = saved_tensors.unpack(kept, self, edge)
            for operand in captured.operands_of(source):
                tensors[operand] = t
        given = []
        tangents = {t.operand: (t, g) for t, g in zip(captured.tangents, grads)}
        for operand in operands:
            if operand in tangents:
                tangent, g = tangents[operand]
                given.append(gradient_values.zeros(tangent.geometry) if g is None else g)
            elif operand in tensors:
                given.append(tensors[operand] if operand in captured.parts else _root_of(tensors[operand]))
            else:
                array = self.inputs[operand]
                given.append(_constant(captured.trace_roots[operand], array))
        results = op(*given)
        results = iter(results if isinstance(results, tuple) else (results,))
        return [None if o is None else next(results) for o, _ in captured.input_grads]


CompiledNode.__name__ = "CompiledFunctionBackward"  # what people see of it


def _root_of(t):
    """The tensor that covers a tensor's storage, as the program reads it."""
    if t._ftorch_geometry is t._ftorch_storage.root:
        return t
    raise RuntimeError(
        "torch.compile with aot_autograd does not currently support double backward through views"
    )


def _constant(root, array):
    return wrap(Storage(root, array))


def make_whole_backward(captured):
    """(op, its operands, outputs): the forward and backward passes as one op."""
    from .lowering import Lowered

    outputs = [o for o, _ in captured.input_grads if o is not None]
    program = Lowered(captured.table, outputs, varying=captured.varying)

    def kernel(*arrays):
        numbers = program.numbers(captured.floats)
        found = program.function(arrays, numbers)
        return found[0] if len(found) == 1 else tuple(found)

    derived = Derived("compiled_backward", kernel, [OPTIONAL_TENSOR] * len(program.starts))
    return _op.Op(derived), list(program.starts), outputs
