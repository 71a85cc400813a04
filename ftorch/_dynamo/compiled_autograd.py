"""Compiled autograd: a backward pass as an FX graph that a compiler gets (``torch._dynamo.compiled_autograd``).

Within `_enable`, a backward pass of this thread is not run by the engine. Its nodes are walked as the engine would
walk them, and each becomes a call of a graph: the derivatives of operations, custom functions, hooks on tensors and
nodes, hooks of saved tensors, and the accumulation into leaves. The graph takes lists,

    graph(inputs, sizes, scalars, hooks, packed_data)

with the tensors that the pass reads (gradients to start with, saved tensors, leaves), Python numbers, what is called
(hooks, derivatives of calls for their sizes) and what hooks of saved tensors packed. A pass of a structure that came
before gets the graph that was compiled then, whatever its sizes are.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import operator
from typing import Any

from ..autograd.function import BackwardCFunction
from ..eager.autograd import backward as engine
from ..eager.autograd import (
    derivatives,
    gradient_hooks,
    gradient_values,
    nodes,
    saved_tensors,
    tape,
)
from ..eager.call.op import call
from ..eager.native.contexts import contextmanager
from ..eager.runtime import capture_trace
from ..fx import Graph, GraphModule
from ..jit.compiled_function import Compiled
from .utils import counters

__all__ = ["AutogradCompilerInstance"]

compiled_autograd_enabled = False
in_compiled_autograd_region = False
_programs: dict[tuple, Any] = {}  # {structure of a pass: what the compiler made of it}
_LISTS = ("inputs", "sizes", "scalars", "hooks", "packed_data")


# --- what graphs call


def call_hook(hook, *args, hook_type):
    """Calls a hook of the user.

    Args:
        hook_type: "tensor_pre_hook", "pre_hook", "post_hook", "post_acc_grad_hook", "retain_grad_hook" or
            "unpack_hook".
    """
    if hook_type == "unpack_hook":
        return saved_tensors.unpack(_packed(hook, *args), None, None)
    if hook_type == "post_acc_grad_hook":
        result = hook(*args)
        if result is not None and not hasattr(result, "_ftorch_geometry"):
            raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
        return None
    if args[0] is None:
        return None
    result = hook(*args)
    if result is None or hook_type == "retain_grad_hook":
        return args[0]
    if hook_type == "tensor_pre_hook":
        gradient_hooks.check_replacement(hook, result, args[0])
        return result
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _packed(unpack, value):
    """A saved tensor whose hook has packed it before."""
    saved = saved_tensors.SavedByHook.__new__(saved_tensors.SavedByHook)
    saved.packed, saved.unpack = value, unpack
    return saved


def call_backward(backward_c_function, saved_tensors, *args):
    """Runs the backward of a custom function, with the tensors that it saved."""
    if all(g is None for g in args):
        return [None] * len(backward_c_function._ftorch_edges)
    outer, backward_c_function._ftorch_given = backward_c_function._ftorch_given, tuple(saved_tensors)
    try:
        return backward_c_function.apply(list(args))
    finally:
        backward_c_function._ftorch_given = outer


def call_accumulate_grad(variable, grad, has_post_hooks):
    """Adds a gradient to a leaf's ``.grad``."""
    if variable._ftorch_requires_grad:
        buffer = {0: grad}
        del grad
        gradient_values.accumulate(variable, buffer)


def _add(a, b):
    """The sum of two gradients, either of which may be missing."""
    return b if a is None else a if b is None else gradient_values.add(a, b)


_add.__name__ = _add.__qualname__ = "add"


class Op:
    """The derivative of a node's operation, named as the node is: ``ops.SinBackward0``."""

    def __init__(self, name):
        self.__name__ = self.__qualname__ = name.rpartition("::")[2]
        self.__module__ = f"{__name__}.ops"

    def __repr__(self):
        return self.__name__

    def __call__(self, grads, needs_input_grad, saved, scalars, derivative):
        """The gradients of a node's inputs.

        Args:
            derivative: of an operation for the sizes of this call; or a node that holds what it reads.
        """
        if all(g is None for g in grads):
            return [None] * len(needs_input_grad)
        if not isinstance(derivative, derivatives.Backward):
            return list(derivative.apply(list(grads)))
        found = call(derivative.op, (*saved, *scalars, *grads))
        found = iter(found if found.__class__ is tuple else (found,))
        return [next(found) if needed else None for needed in needs_input_grad]


class OpNamespace:
    """The derivatives by name; ``ops`` is one."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.__dict__[name] = Op(name)
        return found


ops = OpNamespace()


# --- the walk


class _Walk:
    """A backward pass as calls of functions on values that are named by where they come from.

    Attributes:
        lists: {name of a list that the graph takes: what is in it}.
        steps: (function, arguments): an argument ("inputs", 3) is an element of a list, ("value", 5, 0) of what step 5
            gives.
        result: the values that the pass returns.
    """

    def __init__(self):
        self.lists: dict[str, list] = {name: [] for name in _LISTS}
        self.steps: list[tuple] = []
        self.kinds: list = []  # of inputs and nodes, for the key
        self.nodes: list = []  # to be released
        self.result: tuple | None = None
        self._known: dict = {}

    def _element(self, name, value):
        self.lists[name].append(value)
        return name, len(self.lists[name]) - 1

    def tensor(self, t, identity=None):
        """The input that a tensor is."""
        if t is None:
            return None
        identity = identity or id(t)
        found = self._known.get(identity)
        if found is None:
            found = self._known[identity] = self._element("inputs", t)
            self.kinds.append((t.dtype, t.dim(), t.device, t._ftorch_requires_grad))
        return found

    def do(self, function, *args, **kwargs):
        self.steps.append((function, args, tuple(kwargs.items())))
        return "value", len(self.steps) - 1

    def hook(self, function, *args, kind):
        return self.do(call_hook, self._element("hooks", function), *args, hook_type=kind)

    def saved(self, kept, node, edge, in_graph=False):
        """A saved tensor: an input, or what its hook unpacks."""
        if kept is None:
            return None
        if kept.__class__ is saved_tensors.SavedByHook:
            packed = self._element("packed_data", kept.packed)
            return self.hook(kept.unpack, packed, kind="unpack_hook")
        t = saved_tensors.unpack(kept, node, edge, in_graph)
        identity = (id(kept[0]), kept[1], kept[2], edge) if kept.__class__ is tuple else None
        return self.tensor(t, identity if t is not getattr(edge and edge[0], "variable", None) else None)

    def run(self, roots, inputs):
        """Walks the nodes in the order of `ftorch.eager.autograd.backward`."""
        start = list(dict.fromkeys(edge[0] for edge, _ in roots))
        counts = engine._dependencies(start)
        captures: dict | None = None
        by_node: dict = {}
        needed = None
        if inputs is not None:
            captures = {edge: None for edge in inputs}
            for edge in captures:
                by_node.setdefault(edge[0], []).append(edge)
            needed = engine._leading_to(start, by_node)
        engine.final.nodes = counts, start, needed, object()
        buffers: dict = {}
        for (node, nr), grad in roots:
            self._arrive(buffers.setdefault(node, {}), nr, self.tensor(grad))
        order = itertools.count()
        heap = [(-node._ftorch_sequence, next(order), node) for node in start if node not in counts]
        heapq.heapify(heap)
        while heap:
            node = heapq.heappop(heap)[2]
            buffer = buffers.pop(node, None)
            outputs: list = []
            runs = buffer is not None and (needed is None or node in needed)
            if runs:
                grads = engine._as_list(node, buffer)
                self._tensor_hooks(node, grads)
                if captures is not None and node in by_node:
                    for edge in by_node[node]:
                        captures[edge] = grads[edge[1]] if edge[1] < len(grads) else None
                    runs = not node._ftorch_is_accumulate and any(e is not None and e[0] in needed for e in node._ftorch_edges)
                if runs:
                    outputs = self._node(node, grads)
                    self.nodes.append(node)
            for i, edge in enumerate(node._ftorch_edges):
                if edge is None:
                    continue
                target, nr = edge
                if runs and i < len(outputs) and outputs[i] is not None and (needed is None or target in needed):
                    self._arrive(buffers.setdefault(target, {}), nr, outputs[i])
                counts[target] -= 1
                if not counts[target]:
                    heapq.heappush(heap, (-target._ftorch_sequence, next(order), target))
        self.result = None if captures is None else tuple(captures[edge] for edge in inputs)

    def _arrive(self, buffer, nr, value):
        held = buffer.get(nr)
        buffer[nr] = value if held is None else held if value is None else self.do(_add, held, value)

    def _tensor_hooks(self, node, grads):
        for nr, registered in list((node._ftorch_tensor_hooks or {}).items()):
            if nr >= len(grads) or grads[nr] is None:
                continue
            keep = registered.get(tape.RETAINED)
            for hook in list(registered.values()):
                if hook is not keep:
                    grads[nr] = self.hook(hook, grads[nr], kind="tensor_pre_hook")
            if keep is not None:
                grads[nr] = self.hook(keep, grads[nr], kind="retain_grad_hook")

    def _node(self, node, grads):
        for hook in list((node._ftorch_node_pre_hooks or {}).values()):
            given = self.hook(hook, tuple(grads), kind="pre_hook")
            grads = [(*given, i) for i in range(len(grads))]
        if node._ftorch_is_accumulate:
            self._accumulate(node, grads[0])
            given = None
        elif isinstance(node, BackwardCFunction):
            given = self._custom(node, grads)
        else:
            given = self._operation(node, grads)
        outputs = [None if e is None else (*given, i) for i, e in enumerate(node._ftorch_edges)]
        if node._ftorch_post_hooks:
            outputs = self._post_hooks(node, outputs, grads)
        return outputs

    def _accumulate(self, node, grad):
        variable = node.variable
        post = variable._ftorch_meta and variable._ftorch_meta.post_hooks
        self.kinds.append(variable._grad is None)
        leaf = self.tensor(variable)
        self.do(call_accumulate_grad, leaf, grad, bool(post))
        for hook in list((post or {}).values()):
            self.hook(hook, leaf, kind="post_acc_grad_hook")

    def _custom(self, node, grads):
        if node._ftorch_saved is None:
            raise RuntimeError(nodes.FREED)
        saved = tuple(
            self.saved(kept, node, (node, edge) if isinstance(edge, int) else edge, True) for kept, edge in node._ftorch_saved
        )
        self.kinds.append(type(node))
        grads += [None] * (len(node._ftorch_output_geometries) - len(grads))
        return self.do(call_backward, self._element("hooks", node), saved, *grads)

    def _operation(self, node, grads):
        target = getattr(ops, node.name().rpartition("::")[2])
        needs = tuple(e is not None for e in node._ftorch_edges)
        if not isinstance(node, tape.OpNode):
            return self.do(target, tuple(grads), needs, (), (), self._element("hooks", node))
        backward = node.backward
        if node.saved is None:
            raise RuntimeError(nodes.FREED)
        wanted = set(backward.wanted)
        needs = tuple(i in wanted for i in range(len(node._ftorch_edges)))
        saved: list = [None] * len(node.saved)
        order = range(len(saved))
        if any(kept.__class__ is saved_tensors.SavedByHook for kept in node.saved):
            order = tape.order_of_hooks(backward)
        for k in order:
            i = backward.saved[k]
            saved[k] = self.saved(node.saved[k], node, node._ftorch_edges[i] if i >= 0 else (node, -1 - i))
        self.kinds.append(_settings(backward.plan))
        scalars = tuple(self._element("scalars", s) for s in node.scalars)
        return self.do(target, tuple(grads), needs, tuple(saved), scalars, self._element("hooks", backward))

    def _post_hooks(self, node, outputs, grads):
        places = list(node._ftorch_shown_edges())
        for hook in list(node._ftorch_post_hooks.values()):
            shown = tuple(None if i is None else outputs[i] for i in places)
            given = self.hook(functools.partial(_post_hook, hook), shown, tuple(grads), kind="post_hook")
            for k, i in enumerate(places):
                if i is not None and outputs[i] is not None:
                    outputs[i] = (*given, k)
        return outputs

    # --- as a graph

    def key(self, dynamic):
        """What passes have in common that one graph stands for."""
        sizes = () if dynamic else tuple(tuple(t.shape) for t in self.lists["inputs"])
        return (tuple(self.steps), tuple(self.kinds), self.result, sizes,
                tuple(map(type, self.lists["scalars"])))

    def graph(self) -> GraphModule:
        """The calls as a graph."""
        from ..nn import Module

        graph = Graph()
        places = {name: graph.placeholder(name) for name in _LISTS}
        nodes: dict[tuple, Any] = {}
        values: list = []

        def item(source, i):
            return graph.call_function(operator.getitem, (source, i))

        def node(a):
            if isinstance(a, tuple) and a and a[0] in places:
                if a not in nodes:
                    nodes[a] = item(places[a[0]], a[1])
                return nodes[a]
            if isinstance(a, tuple) and a and a[0] == "value":
                if a not in nodes:
                    nodes[a] = values[a[1]]
                    for i in a[2:]:
                        nodes[a] = item(nodes[a], i)
                return nodes[a]
            return tuple(map(node, a)) if isinstance(a, tuple) else a

        for name in ("inputs", "scalars"):
            for i in range(len(self.lists[name])):
                node((name, i))
        for function, args, kwargs in self.steps:
            values.append(graph.call_function(function, tuple(map(node, args)), dict(kwargs)))
        graph.output([node(v) for v in self.result or ()])
        return GraphModule(Module(), graph, "CompiledAutograd")


def _post_hook(hook, outputs, grads):
    """A node's hook, which may replace the gradients of the inputs."""
    result = hook(outputs, grads)
    if result is None:
        return outputs
    return result


def _settings(plan):
    """What of a call is neither a tensor nor a size."""
    definition = plan.op.definition
    found: list = [definition.name]
    for argument, slot in zip(definition.schema.arguments, plan.structure.slots):
        if slot[0] == "v" and "SymInt" not in str(argument.type):
            found.append(slot[1] if slot[1].__hash__ else repr(slot[1]))
        else:
            found.append(slot[0])
    return tuple(found)


# --- switching it on


class AutogradCompilerInstance:
    """Runs backward passes as graphs that a compiler was given.

    Args:
        compiler_fn: called with the graph of each new structure; gives what is called in its place.
        dynamic: one graph stands for all sizes.
    """

    def __init__(self, compiler_fn, dynamic: bool = True):
        self.compiler_fn, self.dynamic = compiler_fn, dynamic

    def __call__(self, roots, retain_graph, create_graph, inputs):
        """A backward pass: see `ftorch.eager.autograd.backward.run`."""
        global in_compiled_autograd_region
        capture = capture_trace.capturing()
        if capture is not None:
            capture.end("Unsupported Tensor.backward() call")
        walk = _Walk()
        walk.run(roots, inputs)
        key = walk.key(self.dynamic)
        program = _programs.get(key)
        if program is None:
            counters["compiled_autograd"]["captures"] += 1
            program = _programs[key] = self.compiler_fn(walk.graph())
        outer, in_compiled_autograd_region = in_compiled_autograd_region, True
        try:
            with _disable():
                found = program(*walk.lists.values())
        finally:
            in_compiled_autograd_region = outer
        if not retain_graph:
            for node in walk.nodes:
                node._ftorch_release()
        return None if walk.result is None else list(found)


@contextmanager
def _switched(compiler):
    global compiled_autograd_enabled
    outer, before = engine.final.compiler, compiled_autograd_enabled
    engine.final.compiler, compiled_autograd_enabled = compiler, compiler is not None
    try:
        yield
    finally:
        engine.final.compiler, compiled_autograd_enabled = outer, before


def _enable(compiler_fn, dynamic: bool = True, ignore_active_disable_ctx: bool = True):
    """Within, backward passes of this thread are graphs that ``compiler_fn`` compiles.

    >>> import ftorch as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> with torch._dynamo.compiled_autograd._enable(lambda graph: graph):
    ...     x.sin().sum().backward()
    >>> x.grad
    tensor([0.5403, 0.5403, 0.5403])
    """
    return _switched(AutogradCompilerInstance(compiler_fn, dynamic))


def _disable():
    """Within, backward passes of this thread are run by the engine."""
    return _switched(None)


class CompiledWithBackward(Compiled):
    """A compiled function that was made while ``config.compiled_autograd`` was set: a backward pass that it starts
    ends its program, and goes to the same backend."""

    def __call__(self, *args, **kwargs):
        with _enable(self._compile_backward):
            return super().__call__(*args, **kwargs)

    def _compile_backward(self, graph):
        return Compiled(graph, fullgraph=self.fullgraph, dynamic=self.dynamic, backend=self.backend, **self.settings)


def reset() -> None:
    """Forgets the programs.

    Raises:
        AssertionError: within `_enable`.
    """
    assert not in_compiled_autograd_region
    _programs.clear()
