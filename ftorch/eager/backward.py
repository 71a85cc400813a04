"""The backward engine: walks the graph from its roots, later nodes first.

No recursion: graphs may be arbitrarily deep. Nodes run in the calling thread.
"""

from __future__ import annotations

import heapq
import itertools

from . import api, derivatives
from .op import hooks
from .tape import grad_fn_of
from .tensor import DISPATCHING, modes


def _dependencies(roots):
    """How many edges from reachable nodes lead to each node."""
    counts = {}
    stack = list(roots)
    seen = set(stack)
    while stack:
        node = stack.pop()
        for edge in node.edges:
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
            stack.extend((e[0], False) for e in node.edges if e is not None and e[0] not in seen)
    for node in order:
        if any(e is not None and e[0] in needed for e in node.edges):
            needed.add(node)
    return needed


def run(roots, *, retain_graph, create_graph, inputs=None):
    """Propagates gradients.

    Args:
        roots: [((node, output number), gradient)].
        inputs: None to accumulate into the leaves; else edges whose gradients are returned, in
            order, None where nothing arrived.
    """
    outer = modes.grad
    modes.grad = create_graph
    try:
        return _run(roots, retain_graph or create_graph, inputs)
    finally:
        modes.grad = outer


def _run(roots, retain_graph, inputs):
    start = list(dict.fromkeys(edge[0] for edge, _ in roots))
    counts = _dependencies(start)
    captures, needed = None, None
    if inputs is not None:
        captures = {edge: None for edge in inputs}
        by_node = {}
        for edge in captures:
            by_node.setdefault(edge[0], []).append(edge)
        needed = _leading_to(start, by_node)
    buffers: dict = {}
    for (node, nr), grad in roots:
        _add_to(buffers.setdefault(node, {}), nr, grad)
    # Of equal ones (leaves) the first comes first: the same order in every step, one program.
    order = itertools.count()
    heap = [(-node.sequence, next(order), node) for node in start if node not in counts]
    heapq.heapify(heap)
    while heap:
        node = heapq.heappop(heap)[2]
        buffer = buffers.pop(node, None)
        outputs = []
        if needed is None and buffer is not None and node.is_accumulate and node.is_bare():
            node.take(buffer)
            continue
        runs = buffer is not None and (needed is None or node in needed)
        if runs:
            grads = _as_list(node, buffer)
            if node.tensor_hooks:
                _run_tensor_hooks(node, grads)
            if captures is not None and node in by_node:
                for edge in by_node[node]:
                    captures[edge] = grads[edge[1]] if edge[1] < len(grads) else None
                runs = not node.is_accumulate and any(
                    e is not None and e[0] in needed for e in node.edges
                )
            if runs:
                outputs = _apply(node, grads)
        if not retain_graph and runs:
            node.release()
        for i, edge in enumerate(node.edges):
            if edge is None:
                continue
            target, nr = edge
            if runs and i < len(outputs):
                grad = outputs[i]
                if grad is not None and (needed is None or target in needed):
                    held = buffers.get(target)
                    if held is None:
                        buffers[target] = {nr: grad}
                    else:
                        _add_to(held, nr, grad)
            counts[target] = left = counts[target] - 1
            if not left:
                heapq.heappush(heap, (-target.sequence, next(order), target))
        grad = grads = None  # a leaf may take over what nobody else holds
    return None if captures is None else [captures[edge] for edge in inputs]


def _add_to(buffer, nr, grad):
    if grad is None:
        buffer.setdefault(nr, None)
        return
    held = buffer.get(nr)
    buffer[nr] = grad if held is None else derivatives.add(held, grad)


def _as_list(node, buffer):
    width = node.width
    if width == 1 == len(buffer) and 0 in buffer:
        return [buffer[0]]
    return [buffer.get(i) for i in range(max(width, max(buffer) + 1))]


def _run_tensor_hooks(node, grads):
    for nr, registered in list(node.tensor_hooks.items()):
        if nr >= len(grads):
            continue
        for hook in list(registered.values()):
            if grads[nr] is None:
                continue
            result = hook(grads[nr])
            if result is not None:
                grads[nr] = result


def _apply(node, grads):
    if node.node_pre_hooks:
        for hook in list(node.node_pre_hooks.values()):
            result = hook(tuple(grads))
            if result is not None:
                grads = list(result) if isinstance(result, (tuple, list)) else [result]
    if modes.anomaly:
        outputs = _apply_watched(node, grads)
    else:
        outputs = node.apply(grads)
    if node.post_hooks:
        for hook in list(node.post_hooks.values()):
            result = hook(tuple(outputs), tuple(grads))
            if result is not None:
                outputs = list(result) if isinstance(result, (tuple, list)) else [result]
    return outputs


def _apply_watched(node, grads):
    import traceback
    import warnings

    try:
        outputs = node.apply(grads)
        if modes.anomaly == "nan":
            for i, g in enumerate(outputs):
                if g is not None and bool(g.isnan().any()):
                    raise RuntimeError(
                        f"Function '{node.name()}' returned nan values in its {i}th output."
                    )
    except Exception:
        where = "".join(traceback.format_list(node.trace)) if node.trace else (
            "No forward pass information available. Enable detect anomaly during forward pass for "
            "more information.\n"
        )
        warnings.warn(
            f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
            f"{where}",
            stacklevel=2,
        )
        raise
    return outputs


# --- the public entry points ---------------------------------------------------------


def _sequence(values):
    return tuple(values) if isinstance(values, (list, tuple)) else (values,)


def edge_of_output(t):
    """(node, output number) of a tensor to differentiate.

    Raises:
        RuntimeError: if no graph leads to it.
    """
    fn = grad_fn_of(t)
    if fn is not None:
        return fn, t._output_nr
    from .tape import accumulator

    return accumulator(t), 0


def _ones_like(out):
    if out.__class__ in DISPATCHING or "python" in hooks:
        return api.ones_like(out)
    return derivatives.ones(out._geometry)


def make_grads(outputs, grads, is_batched=False):
    """The gradients to start with; ones for scalars.

    Raises:
        RuntimeError: for missing or misshapen ones, in PyTorch's words.
    """
    made = []
    for i, (out, grad) in enumerate(zip(outputs, grads)):
        if grad is None:
            if not out._requires_grad:
                made.append(None)
                continue
            if out.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if not out.dtype.is_floating_point:
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {out.dtype}"
                )
            made.append(_ones_like(out))
            continue
        if not hasattr(grad, "_geometry"):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(grad).__name__}"
            )
        if not is_batched and tuple(grad.shape) != tuple(out.shape):
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {grad.shape} and output[{i}] "
                f"has a shape of {out.shape}."
            )
        if out.dtype.is_complex != grad.dtype.is_complex:
            raise RuntimeError(
                f"For complex Tensors, both grad_output and output are required to have the same "
                f"dtype. Mismatch in dtype: grad_output[{i}] has a dtype of {grad.dtype} and "
                f"output[{i}] has a dtype of {out.dtype}."
            )
        made.append(grad)
    return made


def _roots(outputs, grads):
    roots = []
    for i, (out, grad) in enumerate(zip(outputs, grads)):
        if not out._requires_grad:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )
        roots.append((edge_of_output(out), grad))
    return roots


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False,
             grad_variables=None, inputs=None):  # fmt: skip
    """Adds the gradients of tensors to the ``.grad`` of the leaves (``torch.autograd.backward``).

    Args:
        tensors: one or several tensors; ``grad_tensors`` their gradients, optional for scalars.
        retain_graph: keep the graph for another pass (default: ``create_graph``).
        create_graph: record the gradients' own graph.
        inputs: accumulate only into these.

    Raises:
        RuntimeError: if a tensor does not require grad, or the graph was freed.

    >>> import ftorch as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.backward(x * x)
    >>> x.grad
    tensor(6.)
    """
    outputs = _sequence(tensors)
    grads = [None] * len(outputs) if grad_tensors is None else list(_sequence(grad_tensors))
    retain = create_graph if retain_graph is None else retain_graph
    roots = _roots(outputs, make_grads(outputs, grads))
    if inputs is None:
        run(roots, retain_graph=retain, create_graph=create_graph)
        return
    chosen = _sequence(inputs)
    if not chosen:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    edges = [edge_of_output(t) for t in chosen]
    found = run(roots, retain_graph=retain, create_graph=create_graph, inputs=edges)
    outer, modes.grad = modes.grad, create_graph
    try:
        for t, g in zip(chosen, found):
            derivatives.accumulate(t, {0: g})
    finally:
        modes.grad = outer


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False,
         only_inputs=True, allow_unused=None, is_grads_batched=False, materialize_grads=False):  # fmt: skip
    """The gradients of outputs with respect to inputs (``torch.autograd.grad``).

    Args:
        grad_outputs: the gradients to start with; optional for scalars.
        allow_unused: None for inputs that the outputs do not depend on, instead of an error.
        materialize_grads: zeros for those.
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
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    outs, ins = _sequence(outputs), _sequence(inputs)
    grads = [None] * len(outs) if grad_outputs is None else list(_sequence(grad_outputs))
    retain = create_graph if retain_graph is None else retain_graph
    for t in ins:
        if not t._requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    made = make_grads(outs, grads, is_grads_batched)
    if is_grads_batched:
        def pull(*batched):
            return _grads(outs, ins, batched, True, create_graph, allow_unused, materialize_grads)

        return hooks["vmap"](pull)(*made)
    return _grads(outs, ins, made, retain, create_graph, allow_unused, materialize_grads)


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
                g = derivatives.zeros(t._geometry)
        result.append(g)
    return tuple(result)


