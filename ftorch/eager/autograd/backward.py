"""The backward engine: walks the graph from its roots, later nodes first.

No recursion: graphs may be arbitrarily deep. Nodes run in the calling thread.
"""

from __future__ import annotations

import heapq
import itertools
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping
from typing import Any

from ..call.op import hooks, in_c, is_in_graph, special
from ..core.user_warnings import warn_once, warn_user
from ..runtime import capture_trace
from ..tensor import PLAIN, TensorBase, modes
from . import backward_units, gradient_values
from .first_gradients import edge_of_output, is_edge, make_grads
from .gradient_hooks import check_replacements, run_post_hooks, run_tensor_hooks
from .nodes import running as running_node
from .tape import RETAINED


def _dependencies(roots):
    """How many edges from reachable nodes lead to each node."""
    counts = {}
    stack = list(roots)
    seen = set(stack)
    while stack:
        node = stack.pop()
        for edge in node._ftorch_edges:
            if edge is not None:
                target = edge[0]
                counts[target] = counts.get(target, 0) + 1
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
    return counts


def _leading_to(roots, targets):
    """The nodes from which one of the targets can be reached."""
    needed = set(targets)
    order, seen = [], set()
    stack = [(node, False) for node in roots]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((e[0], False) for e in node._ftorch_edges if e is not None and e[0] not in seen)
    for node in order:
        if any(e is not None and e[0] in needed for e in node._ftorch_edges):
            needed.add(node)
    return needed


def run(roots, *, retain_graph, create_graph, inputs=None, accumulates=False):
    """Propagates gradients.

    Args:
        roots: [((node, output number), gradient)].
        inputs: None to accumulate into the leaves; else edges whose gradients are returned, in
            order, None where nothing arrived.
        accumulates: run the nodes of ``inputs`` instead, with what leads to them, and return nothing.
    """
    outer, waiting, around, needed = modes.grad, final.callbacks, final.nodes, running_node.needed
    try:
        try:
            modes.grad, final.callbacks = create_graph, []
            if waiting is None:
                final.outermost = final.callbacks
            keep = retain_graph or create_graph
            if final.compiler is None:
                result = _run(roots, keep, inputs, accumulates)
            else:
                result = final.compiler(roots, keep, create_graph, inputs)
                if accumulates:
                    _accumulate(inputs, result)
            while final.callbacks:
                final.callbacks.pop(0)()
            return result
        finally:
            modes.grad, final.callbacks, final.nodes, running_node.needed = outer, waiting, around, needed
    finally:  # again, since what a trace function raises may come in the first one
        modes.grad, final.callbacks, final.nodes, running_node.needed = outer, waiting, around, needed


class _Final(threading.local):
    """What the running backward calls when all gradients are there."""

    callbacks: list | None = None
    outermost: list | None = None  # of the backward that this one runs in, if it runs in one
    nodes: tuple | None = None  # of the running backward: what is reached, roots, what is needed, its token, what is caught
    keeps: bool = False  # whether its graph is kept
    compiler: Any = None  # what runs backwards in place of this engine: compiled autograd


final = _Final()


_numbers = itertools.count()  # of backward passes


def running() -> int | None:
    """The number of the backward that is running; None if none is."""
    return None if final.nodes is None else final.nodes[3]


def will_run(node) -> bool:
    """Whether the backward that is running reaches a node whose gradient is wanted."""
    if final.nodes is None:
        return False
    reached, start, needed, *_ = final.nodes
    return (node in reached or node in start) and (needed is None or node in needed)


def catches(node) -> bool:
    """Whether the backward that is running gives back a gradient at a node, where it ends."""
    return final.nodes is not None and final.nodes[4] is not None and node in final.nodes[4]


def execution_order() -> list:
    """The nodes that are left to run in the backward that is running, in their order; its own node is none of them."""
    assert final.nodes is not None
    _, start, needed, _, caught = final.nodes
    counts = _dependencies(start)
    order = itertools.count()
    heap = [(-node._ftorch_sequence, next(order), node) for node in start if node not in counts]
    heapq.heapify(heap)
    found = []
    while heap:
        node = heapq.heappop(heap)[2]
        if needed is not None and node not in needed:
            continue
        found.append(node)
        for i in _in_order(node):
            if node._ftorch_edges[i] is not None:
                target = node._ftorch_edges[i][0]
                counts[target] -= 1
                if not counts[target]:
                    heapq.heappush(heap, (-target._ftorch_sequence, next(order), target))
    return found


class ExecutionEngine:
    """``torch.autograd.Variable._execution_engine``."""

    @staticmethod
    def queue_callback(callback) -> None:
        """Lets the running backward call a function when all gradients are there.

        Raises:
            RuntimeError: if none is running.
        """
        if final.callbacks is None:
            raise RuntimeError("Final callbacks can only be installed during backward pass.")
        final.callbacks.append(callback)

    @staticmethod
    def _queue_outermost(callback) -> None:
        """As `queue_callback`, at the end of the backward in which this one runs (a checkpoint's), if it runs in one."""
        assert final.outermost is not None  # a backward runs
        final.outermost.append(callback)

    @staticmethod
    def run_backward(
        tensors, grad_tensors, keep_graph, create_graph, inputs=(), allow_unreachable=False, accumulate_grad=False,
    ) -> tuple | None:
        """Runs a graph: accumulates into ``inputs`` (all leaves, if there are none), or gives their gradients."""
        if accumulate_grad:
            backward(tensors, grad_tensors, keep_graph, create_graph, inputs=inputs or None)
            return None
        return grad(tensors, inputs, grad_tensors, keep_graph, create_graph, allow_unused=allow_unreachable)

    @staticmethod
    def is_checkpoint_valid() -> bool:
        """Whether a reentrant checkpoint may run: not in a backward that returns the gradients of given inputs."""
        return final.nodes is None or final.nodes[2] is None


def _run(roots, retain_graph, inputs, accumulates=False):
    start = list(dict.fromkeys(edge[0] for edge, _ in roots))
    counts = None if in_c is None else in_c.dependencies(start)
    is_common = counts is not None  # else a node is none of ours
    if counts is None:
        counts = _dependencies(start)
    capture = capture_trace.capturing()
    if capture is not None:
        for node in (*start, *counts):
            if node._ftorch_is_accumulate:
                capture.leaves[id(node.variable)] = node.variable
    captures, needed, by_node = None, None, None
    if accumulates:
        needed = _leading_to(start, [edge[0] for edge in inputs])
    elif inputs is not None:
        captures = {edge: None for edge in inputs}
        by_node = {}
        for edge in captures:
            by_node.setdefault(edge[0], []).append(edge)
        needed = _leading_to(start, by_node)
    final.nodes, final.keeps = (counts, start, needed, next(_numbers), by_node), retain_graph
    running_node.needed = needed
    buffers: dict = {}
    for (node, nr), grad in roots:
        _add_to(buffers.setdefault(node, {}), nr, grad)
    if in_c is not None and is_common:
        in_c.walk(
            start,
            counts,
            buffers,
            retain_graph,
            not (modes.anomaly or special[0]),
            needed,
            by_node,
            captures,
            _apply,
            run_tensor_hooks,
            gradient_values.add,
        )
    else:
        _walk(start, counts, buffers, retain_graph, needed, by_node, captures)
    return None if captures is None else [captures[edge] for edge in inputs]


def _walk(start, counts, buffers, retain_graph, needed, by_node, captures):
    """Runs nodes, each when all gradients of its outputs are there; ``recorded_backward.cpp`` does the same.

    Args:
        start, counts: the nodes that are given gradients, and `_dependencies` of them.
        buffers: {node: {output number: gradient}}.
        needed: the nodes that lead to what is wanted; None: all.
        by_node, captures: the edges of a node whose gradients are wanted, and these by edge.
    """
    # Of equal ones (leaves) the first comes first: the same order in every step, one program.
    order = itertools.count()
    heap = [(-node._ftorch_sequence, next(order), node) for node in start if node not in counts]
    heapq.heapify(heap)
    while heap:
        node = heapq.heappop(heap)[2]
        buffer = buffers.pop(node, None)
        outputs = []
        if needed is None and buffer is not None and node._ftorch_is_accumulate and node.is_bare():
            node.take(buffer)
            continue
        runs = buffer is not None and (needed is None or node in needed)
        if runs:
            grads, buffer = _as_list(node, buffer), None
            caught = captures is not None and node in by_node
            if caught:
                runs = not node._ftorch_is_accumulate and any(e is not None and e[0] in needed for e in node._ftorch_edges)
            if caught and runs:  # what a hook makes of it is for the nodes behind
                _catch(by_node[node], grads, captures)
            if node._ftorch_tensor_hooks:
                run_tensor_hooks(node, grads)
            if caught and not runs:
                _catch(by_node[node], grads, captures)
            if runs:
                outputs = _apply(node, grads)
        if not retain_graph and runs:
            node._ftorch_release()
        for i in _in_order(node):
            edge = node._ftorch_edges[i]
            if edge is None:
                continue
            target, nr = edge
            if runs and (needed is None or target in needed):  # undefined gradients are handed on, too
                _add_to(buffers.setdefault(target, {}), nr, outputs[i] if i < len(outputs) else None)
            counts[target] = left = counts[target] - 1
            if not left:
                heapq.heappush(heap, (-target._ftorch_sequence, next(order), target))
        grads = None  # a leaf may take over what nobody else holds


def _catch(edges, grads, captures):
    """Notes the gradients that the caller asked for."""
    for edge in edges:
        captures[edge] = grads[edge[1]] if edge[1] < len(grads) else None


def _in_order(node):
    """The indices of a node's edges in the order in which gradients are handed on."""
    places = range(len(node._ftorch_edges))
    first = getattr(getattr(node, "backward", None), "first", None)
    return places if first is None else [first, *(i for i in places if i != first)]


def _add_to(buffer, nr, grad):
    if grad is None:
        buffer.setdefault(nr, None)
        return
    held = buffer.get(nr)
    buffer[nr] = grad if held is None else gradient_values.add(held, grad)


def _as_list(node, buffer):
    width = node._ftorch_width
    if width == 1 == len(buffer) and 0 in buffer:
        return [buffer[0]]
    return [buffer.get(i) for i in range(max(width, max(buffer) + 1))]


def _apply(node, grads):
    around, running_node.node = running_node.node, node
    try:
        return _gradients_of(node, grads)
    finally:
        running_node.node = around


def _gradients_of(node, grads):
    if node._ftorch_node_pre_hooks:
        for hook in list(node._ftorch_node_pre_hooks.values()):
            result = hook(tuple(grads))
            if result is not None:
                check_replacements(hook, result, grads)
                grads = list(result)
            result = None  # who counts a gradient's holders
    if not node._ftorch_takes_undefined and all(g is None for g in grads):
        outputs = [None] * len(node._ftorch_edges)
    elif modes.anomaly:
        outputs = _apply_watched(node, grads)
    else:
        outputs = node.apply(grads)
    if node._ftorch_post_hooks:
        needed = final.nodes and final.nodes[2]
        outputs = [
            g if needed is None or edge is None or edge[0] in needed else None
            for g, edge in itertools.zip_longest(outputs, node._ftorch_edges)
        ]
        outputs = run_post_hooks(node, outputs, grads)
    return outputs


def _apply_watched(node, grads):
    try:
        outputs = node.apply(grads)
        if modes.anomaly == "nan":
            for i, g in enumerate(outputs):
                if g is not None and bool(g.isnan().any()):
                    raise RuntimeError(
                        f"Function '{node.name()}' returned nan values in its {i}th output."
                    )
    except Exception:
        _warn_of_origins(node)
        raise
    return outputs


def _warn_of_origins(node):
    """Says where a node was made, and by the gradients of which others."""
    where = _where_made(node, "caused the error")
    _say(f"Error detected in {node.name()}. {where}")
    while node._ftorch_trace is not None and node._ftorch_trace[1] is not None:
        node = node._ftorch_trace[1]
        where = _where_made(node, "induced the previous calculation")
        _say(f"\n\nPrevious calculation was induced by {node.name()}. {where}")


def _say(text):
    """Warns; where warnings are errors the text is printed, since the error that it is about must not be lost."""
    try:
        warnings.warn(text, stacklevel=3)
    except Warning as warning:
        print(f"{type(warning).__name__}: {warning}", file=sys.stderr)


def _where_made(node, what):
    if node._ftorch_trace is None:
        return "No forward pass information available. Enable detect anomaly during forward pass for more information."
    return f"Traceback of forward call that {what}:\n{''.join(traceback.format_list(node._ftorch_trace[0]))}"


# --- the public entry points ---------------------------------------------------------


def _sequence(values):
    """Several tensors (any iterable) or one as a tuple; a graph's edge is a tuple, too, but one."""
    if isinstance(values, TensorBase) or hasattr(values, "_fields"):
        return (values,)
    return tuple(values)


def _inputs(given, function: str) -> tuple:
    """What gradients are asked of: one, several, or the values of a dict."""
    if type(given) is dict:
        return tuple(given.values())
    if type(given) not in (list, tuple) and isinstance(given, Mapping):
        kind = type(given).__name__
        raise TypeError(
            f"`inputs` argument to `{function}()` must be a dict, not {kind}. Other Mapping types are not supported."
        )
    return _sequence(given)


def _is_users(kind: type) -> bool:
    """Whether a class may have a say of its own; sparse and quantized tensors are plain ones to who asks for gradients."""
    return kind not in PLAIN and kind.__module__.partition(".")[0] != __name__.partition(".")[0]


def _no_input(value) -> RuntimeError:
    return RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(value).__name__}")


def _of_parts(outputs, grads):
    """Outputs and gradients to start with, as the graph knows them: of what is made of parts (a `DTensor`) its part.

    Raises:
        RuntimeError: if there are fewer gradients than outputs.
    """
    if len(grads) < len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    pairs = [o._ftorch_root(g) if hasattr(o, "_ftorch_root") else (o, g) for o, g in zip(outputs, grads)]
    return [o for o, _ in pairs], [g for _, g in pairs]


def _require_graphs(outputs):
    for i, out in enumerate(outputs):
        if (isinstance(out, TensorBase) or not is_edge(out)) and not (is_in_graph(out) and out._ftorch_requires_grad):
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )


def _roots(outputs, grads):
    _require_graphs(outputs)
    return [(edge_of_output(out), grad) for out, grad in zip(outputs, grads)]


_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can "
    "cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this "
    "function, make sure to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False,
             grad_variables=None, inputs=None):
    """Adds the gradients of tensors to the ``.grad`` of the leaves (``torch.autograd.backward``).

    Args:
        tensors: one or several tensors; ``grad_tensors`` their gradients, optional for scalars.
        retain_graph: keep the graph for another pass (default: ``create_graph``).
        create_graph: record the gradients' own graph.
        inputs: accumulate only into these (one, several, or a dict's values).

    Raises:
        RuntimeError: if a tensor does not require grad, or the graph was freed.

    >>> import ftorch as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.backward(x * x)
    >>> x.grad
    tensor(6.)
    """
    chosen = None if inputs is None else _inputs(inputs, "backward")
    if chosen is not None and not chosen:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    outputs = _sequence(tensors)
    if not all(isinstance(t, (TensorBase, tuple)) for t in outputs):  # an edge is a tuple
        raise AssertionError("Expected output to be a torch.Tensor")
    grads = [None] * len(outputs) if grad_tensors is None else list(_sequence(grad_tensors))
    retain = create_graph if retain_graph is None else retain_graph
    outputs, grads = _of_parts(outputs, grads)
    roots = _roots(outputs, make_grads(outputs, grads))
    if final.nodes is None:
        backward_units.begin(outputs)
    if create_graph:
        warn_once(_CYCLE)
    if chosen is None:
        run(roots, retain_graph=retain, create_graph=create_graph)
        return
    for t in chosen:
        if not is_edge(t):
            if not isinstance(t, TensorBase):
                raise _no_input(t)
            t.retain_grad()
    chosen = [getattr(t, "_ftorch_part", t) for t in chosen]
    run(roots, retain_graph=retain, create_graph=create_graph, inputs=[edge_of_output(t) for t in chosen], accumulates=True)


def _accumulate(edges, grads):
    """Adds gradients to what is at the ends of the graph, of edges that somebody else ran backward to."""
    for (node, nr), g in zip(edges, grads):
        if node._ftorch_is_accumulate:
            node.take({0: g})
        elif node._ftorch_tensor_hooks and RETAINED in node._ftorch_tensor_hooks.get(nr, ()) and g is not None:
            node._ftorch_tensor_hooks[nr][RETAINED](g)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False,
         only_inputs=True, allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """The gradients of outputs with respect to inputs (``torch.autograd.grad``).

    Args:
        grad_outputs: the gradients to start with; optional for scalars.
        allow_unused: None for inputs that the outputs do not depend on, instead of an error.
        materialize_grads: zeros for those.
        inputs: one, several, or a dict of them, whose gradients are a dict with its keys.
        is_grads_batched: the first dimension of ``grad_outputs`` is a batch, mapped over.

    Raises:
        RuntimeError: for unused inputs, or inputs that do not require grad.

    >>> import ftorch as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> torch.autograd.grad((x ** 3).sum(), x)
    (tensor([ 3., 12.]),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )
    outs, wanted = _sequence(outputs), _inputs(inputs, "grad")
    if modes.subclasses and any(_is_users(type(t)) for t in (*outs, *wanted)):
        result = hooks.function_override(grad, (outs, wanted), {
            "grad_outputs": grad_outputs, "retain_graph": retain_graph, "create_graph": create_graph,
            "only_inputs": only_inputs, "allow_unused": allow_unused, "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        })
        if result is not NotImplemented:
            return dict(zip(inputs, result, strict=True)) if type(inputs) is dict else result
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if not all(isinstance(t, (TensorBase, tuple)) for t in outs):
        raise AssertionError("Expected output to be a torch.Tensor")
    if not only_inputs:
        warn_user("only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other "
                  "parts of the graph, please use torch.autograd.backward.", FutureWarning)
    grads = [None] * len(outs) if grad_outputs is None else list(_sequence(grad_outputs))
    outs, grads = _of_parts(outs, grads)
    ins = [getattr(t, "_ftorch_part", t) for t in wanted]
    retain = create_graph if retain_graph is None else retain_graph
    made = make_grads(outs, grads, is_grads_batched)
    _require_graphs(outs)
    for t in ins:
        if isinstance(t, TensorBase):
            if not is_in_graph(t):
                raise RuntimeError("One of the differentiated Tensors does not require grad")
        elif not is_edge(t):
            raise _no_input(t)
    if is_grads_batched:
        reached: list = []  # whether each input's gradient exists: vmap hands out tensors only

        def pull(*batched):
            found = _grads(outs, ins, batched, True, create_graph, allow_unused, materialize_grads)
            reached[:] = [g is not None for g in found]
            return tuple(g for g in found if g is not None)

        found = iter(hooks.vmap(pull)(*made))
        result = tuple(next(found) if there else None for there in reached)
    else:
        result = _grads(outs, ins, made, retain, create_graph, allow_unused, materialize_grads)
    result = tuple([t._ftorch_gradient(g) if hasattr(t, "_ftorch_gradient") else g for t, g in zip(wanted, result)])
    return dict(zip(inputs, result)) if type(inputs) is dict else result


def _grads(outs, ins, grads, retain, create_graph, allow_unused, materialize):
    edges = [edge_of_output(t) for t in ins]
    found = run(
        _roots(outs, grads), retain_graph=retain, create_graph=create_graph, inputs=edges
    )
    result = []
    for index, (t, g) in enumerate(zip(ins, found)):
        if g is None:
            if not allow_unused:
                raise RuntimeError(
                    f"The differentiated Tensor at index {index} appears to not have been used in the "
                    "graph. Set allow_unused=True if this is the desired behavior."
                )
            if materialize:
                if is_edge(t):
                    raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
                g = gradient_values.zeros(t._ftorch_geometry)
                g._ftorch_requires_grad = create_graph
        result.append(g)
    return tuple(result)


