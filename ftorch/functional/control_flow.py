"""Control flow operators: ``cond``, ``while_loop``, ``scan``, ``associative_scan``, ``map``.

Where values are known they run as Python does, and the tape sees the ops that ran. Under ``vmap``,
inside JAX's transformations and while a program is captured they become XLA's control flow: the
functions are traced once to jaxprs, and the whole is one op, whose derivative and batching rule are
derived as any other op's. Tensors that the functions capture become operands of that op, so gradients
reach them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..eager.autograd.derivative_kernels import Derived
from ..eager.call import op as _op
from ..eager.core import api
from ..eager.core.registry import OPTIONAL_TENSOR
from ..eager.runtime import capture_trace
from ..eager.runtime.executor import IMMEDIATE
from ..eager.tensor import TensorBase, modes
from ..eager.transforms.batching import Batched
from ..eager.transforms.dual import Dual
from ..utils import _pytree as pytree
from . import loop_gradients
from .tracing import TracedFunction, TraceLevel, seeds

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


def _structs(tensors):
    return [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy) for t in tensors]


def _is_known(t):
    """Whether Python can look at a tensor's value."""
    while isinstance(t, (Dual, Batched)):
        if isinstance(t._ftorch_level, TraceLevel) or (isinstance(t, Batched) and t._bdim is not None):
            return False
        t = t._inner
    return t._ftorch_storage.trace is not IMMEDIATE


def _in_python(tensors):
    return capture_trace.capturing() is None and all(_is_known(t) for t in tensors)


_ops: dict = {}


def _call(name, key, traced, kernel, tensors, make_gradients=None):
    """Calls the op of a kernel ``kernel(captured arrays of each function, arrays)``."""
    counts = [len(t.captured) for t in traced]
    key = (name, key, len(tensors), *(t.key for t in traced))
    op = _ops.get(key)
    if op is None:

        def flat(*arrays):
            captured, start = [], 0
            for n in counts:
                captured.append(arrays[start : start + n])
                start += n
            out = tuple(kernel(captured, arrays[start:]))
            return out[0] if len(out) == 1 else out

        total = sum(counts) + len(tensors)
        if len(_ops) > 1024:
            _ops.clear()
        derived = Derived(name, flat, [OPTIONAL_TENSOR] * total)
        derived.make_gradients = make_gradients
        op = _ops[key] = _op.Op(derived)
    captured = [t for f in traced for t in f.captured]
    for f in traced:
        f.captured = ()  # the op stays, and must not keep them
    result = op(*captured, *tensors)
    return list(result) if isinstance(result, tuple) else [result]


def _split(tree):
    """(its tensors, a function that puts others in their places)."""
    leaves, spec = pytree.tree_flatten(tree)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, TensorBase)]

    def join(tensors):
        full = list(leaves)
        for i, t in zip(places, tensors):
            full[i] = t
        return pytree.tree_unflatten(full, spec)

    return [leaves[i] for i in places], join


def dims_agree(name, a, b):
    """Raises PyTorch's error unless two branches return the same dtypes and shapes."""
    for x, y in zip(a.outputs, b.outputs):
        if x.ndim != y.ndim:
            raise RuntimeError(
                f"When merging two branches' output in {name}, expected same dim but got {x.ndim} and "
                f"{y.ndim}."
            )
        if x.shape != y.shape or x.dtype != y.dtype:
            raise RuntimeError(
                f"When merging two branches' output in {name}, expected the same shape and dtype but "
                f"got {list(x.shape)} of {x.dtype} and {list(y.shape)} of {y.dtype}."
            )
    if a.spec != b.spec:
        raise RuntimeError(
            f"Unmatched output spec from {name} branches: true branch tree_spec {a.spec} vs false "
            f"branch tree_spec {b.spec}."
        )


# --- operators -----------------------------------------------------------------------


def cond(pred, true_fn, false_fn, operands=()):
    """``true_fn(*operands)`` if ``pred`` is true, else ``false_fn(*operands)`` (``torch.cond``).

    Args:
        pred: a bool, or a tensor of one element.
        operands: a tuple or list, possibly nested, of tensors.

    Raises:
        RuntimeError: for other predicates, or, where both are traced, branches that disagree.

    >>> import ftorch as torch
    >>> torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(1),))
    tensor([0.])
    >>> pick = lambda x: torch.cond(x > 0, torch.neg, torch.exp, (x,))
    >>> torch.vmap(pick)(torch.tensor([0.0, 1.0]))
    tensor([ 1., -1.])
    """
    is_tensor = isinstance(pred, TensorBase)
    if not isinstance(pred, (bool, int, float, TensorBase)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if is_tensor and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError(
            f"Expect both branches to be callable, but got {true_fn} and {false_fn}."
        )
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of "
            f"tensor leaves, but got {operands}."
        )
    if is_tensor and modes.levels:
        recorded = modes.levels[-1].control_flow("cond", (true_fn, false_fn), (pred, operands))
        if recorded is not NotImplemented:
            return recorded
    if not is_tensor or _in_python([pred]):
        return (true_fn if pred else false_fn)(*operands)
    tensors, join = _split(operands)
    branches = [
        TracedFunction(lambda *ts, f=f: f(*join(ts)), _structs(tensors)) for f in (true_fn, false_fn)
    ]
    given = [pred, *tensors]
    if any(b.draws for b in branches):
        given.append(seeds())
    dims_agree("torch.cond", *branches)

    def kernel(captured, arrays):
        pred, *operands = arrays
        own = [operands if b.draws else operands[: len(tensors)] for b in branches]
        return jax.lax.cond(
            pred.reshape(()) != 0,
            lambda: branches[0](captured[0], own[0]), lambda: branches[1](captured[1], own[1]),
        )

    return pytree.tree_unflatten(
        _call("cond", (), branches, kernel, given), branches[0].spec
    )


def while_loop(cond_fn, body_fn, carried_inputs):
    """Applies ``body_fn`` to the carried values while ``cond_fn`` of them is true.

    A traced loop's gradient recomputes its steps from checkpoints (`loop_gradients`), and cannot be
    differentiated backwards again, since the number of steps is not known: use `scan` for that.

    Args:
        cond_fn: ``cond_fn(*carried)`` gives a bool or a tensor of one element.
        body_fn: ``body_fn(*carried)`` gives the next carried values.

    >>> import ftorch as torch
    >>> torch.while_loop(lambda i: i < 3, lambda i: (i + 1,), (torch.tensor(0),))
    (tensor(3),)
    """
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"carried_inputs must be a tuple or list, got {type(carried_inputs)}")
    carried = tuple(carried_inputs)
    if modes.levels:
        recorded = modes.levels[-1].control_flow("while_loop", (cond_fn, body_fn), (carried,))
        if recorded is not NotImplemented:
            return recorded
    tensors, _ = _split(carried)
    if _in_python(tensors):
        while _decided(cond_fn(*carried)):
            following = body_fn(*carried)
            if not isinstance(following, tuple) or len(following) != len(carried):
                raise RuntimeError("body_fn should return a tuple as long as carried_inputs")
            carried = following
        return carried
    leaves, spec = pytree.tree_flatten(carried)
    leaves = [t if isinstance(t, TensorBase) else api.tensor(t) for t in leaves]

    def spread(function):
        return lambda *ts: function(*pytree.tree_unflatten(list(ts), spec))

    structs = _structs(leaves)
    condition = TracedFunction(spread(cond_fn), structs, may_draw=False)
    body = TracedFunction(spread(body_fn), structs)
    carry_agrees("while_loop", structs, body.outputs)
    count = len(leaves)
    if body.draws:
        leaves = [*leaves, seeds()]
    goes_on, step = _loop_functions(condition, body, count)

    def kernel(captured, arrays):
        return jax.lax.while_loop(
            lambda carry: goes_on(captured[0], carry), lambda carry: step(captured[1], carry),
            tuple(arrays),
        )[:count]

    gradients = _loop_gradients(condition, body, count)
    results = _call("while_loop", (), [condition, body], kernel, leaves, gradients)
    return tuple(pytree.tree_unflatten(results, spec))


def _loop_functions(condition, body, count):
    """(whether a loop goes on, its step) as functions of captured arrays and carried ones.

    A body that draws carries a seed behind the values, which each step counts up.
    """

    def goes_on(captured, carry):
        return condition(captured, carry[:count])[0].reshape(()) != 0

    def step(captured, carry):
        following = tuple(body(captured, carry))
        return (*following, carry[-1] + 1) if body.draws else following

    return goes_on, step


def _loop_gradients(condition, body, count):
    """``make_gradients`` of a traced ``while_loop``'s op."""
    goes_on, step = _loop_functions(condition, body, count)
    first, second = len(condition.captured), len(condition.captured) + len(body.captured)

    def make(mask, differentiable):
        def gradients(inputs, scalars, results, grads):
            by_body, by_carry = loop_gradients.gradients(
                lambda carry: goes_on(inputs[:first], carry), step,
                list(inputs[first:second]), list(inputs[second:]), [jnp.conj(g) for g in grads] + [None],
            )
            found = [*[None] * first, *by_body, *by_carry]
            return [
                jnp.zeros_like(x) if g is None else jnp.conj(g)
                for x, g, wanted in zip(inputs, found, mask) if wanted
            ]

        return gradients

    return make


def _decided(pred):
    if isinstance(pred, TensorBase):
        if pred.numel() != 1:
            raise RuntimeError(
                f"cond_fn must return a boolean scalar tensor or a boolean but got {pred}"
            )
    elif not isinstance(pred, bool):
        raise RuntimeError(
            f"cond_fn must return a boolean scalar tensor or a boolean but got {type(pred)}"
        )
    return bool(pred)


def carry_agrees(name, structs, outputs):
    given, made = (
        [f"{np.dtype(getattr(v.dtype, 'numpy', v.dtype))}{list(v.shape)}" for v in values] for values in (structs, outputs)
    )
    if given != made:
        raise RuntimeError(
            f"{name}: the carried values must keep their dtypes and shapes, but {given} become {made}"
        )


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """Carries a value along a dimension: ``carry, y = combine_fn(carry, x)`` for each slice.

    Args:
        init, xs: trees of tensors; ``xs`` are sliced along ``dim``.
        reverse: from the last slice to the first; results stay in the slices' order.

    Returns:
        The last carry, and the ``y`` stacked along ``dim``.

    >>> import ftorch as torch
    >>> from ftorch._higher_order_ops import scan
    >>> scan(lambda c, x: (c + x, c * x), torch.tensor(0), torch.arange(4))
    (tensor(6), tensor([0, 0, 2, 9]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    slices, join = _split(xs)
    starts, restart = _split(init)
    if not starts:
        raise RuntimeError("scan() operator requires init leaves.")
    if not slices:
        raise RuntimeError("scan() operator requires xs leaves.")
    steps = slices[0].shape[dim]
    if any(t.shape[dim] != steps for t in slices):
        raise RuntimeError("All xs leaves must have the same size in the scanned dimension")
    if modes.levels:
        recorded = modes.levels[-1].control_flow("scan", (combine_fn,), (init, xs, dim % slices[0].dim(), reverse))
        if recorded is not NotImplemented:
            return recorded
    slices = [t.movedim(dim, 0) for t in slices]
    if _in_python([*slices, *starts]):
        carry, ys = _scan_in_python(combine_fn, init, restart, slices, join, steps, reverse)
        return carry, pytree.tree_map(lambda y: y.movedim(0, dim), ys)
    count = len(starts)

    def step(*ts):
        carry, y = combine_fn(restart(ts[:count]), join(ts[count:]))
        return _split(carry)[0], y

    traced = TracedFunction(step, [*_structs(starts), *_structs([t[0] for t in slices])])
    carry_agrees("scan", _structs(starts), traced.outputs[:count])
    if traced.draws:
        slices = [*slices, seeds(steps)]

    def kernel(captured, arrays):
        def body(carry, x):
            out = traced(captured[0], [*carry, *x])
            return out[:count], out[count:]

        carry, ys = jax.lax.scan(
            body, list(arrays[:count]), list(arrays[count:]), reverse=reverse
        )
        return [*carry, *ys]

    results = _call("scan", (count, reverse), [traced], kernel, [*starts, *slices])
    _, ys = pytree.tree_unflatten(results, traced.spec)
    return restart(results[:count]), pytree.tree_map(lambda y: y.movedim(0, dim), ys)


def _scan_in_python(combine_fn, carry, restart, slices, join, steps, reverse):
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    results = [None] * steps
    for i in order:
        following, results[i] = combine_fn(carry, join([t[i] for t in slices]))
        carry = restart(pytree.tree_leaves(following))  # in the structure that it had, as the graphs of programs hand it on
    return carry, pytree.tree_map(lambda *ys: api.stack(ys), *results) if steps else None


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """The running results of an associative function along a dimension, in parallel.

    Args:
        combine_fn: ``combine_fn(a, b)`` of two slices of ``xs`` (without the dimension).
        combine_mode: "pointwise" or "generic"; both run the same way here.

    >>> import ftorch as torch
    >>> from ftorch._higher_order_ops import associative_scan
    >>> associative_scan(torch.mul, torch.arange(1, 5), 0)
    tensor([ 1,  2,  6, 24])
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}"
        )
    tensors, join = _split(xs)
    if not tensors:
        raise ValueError("Expected at least 1 xs leaf")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    dims = [dim % max(t.dim(), 1) for t in tensors]
    slices = [t.movedim(d, 0) for t, d in zip(tensors, dims)]
    if not slices[0].shape[0] or any(t.shape[0] != slices[0].shape[0] for t in slices):
        raise ValueError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"
        )
    count = len(slices)
    examples = _structs([t[0] for t in slices])
    traced = TracedFunction(
        lambda *ts: combine_fn(join(ts[:count]), join(ts[count:])), [*examples, *examples],
        may_draw=False,
    )
    carry_agrees("associative_scan", examples, traced.outputs)

    def kernel(captured, arrays):
        combine = jax.vmap(lambda a, b: traced(captured[0], [*a, *b]))
        return jax.lax.associative_scan(combine, list(arrays), reverse=reverse)

    results = _call("associative_scan", (reverse,), [traced], kernel, slices)
    return join([t.movedim(0, d) for t, d in zip(results, dims)])


def map(f, xs, *args):
    """``f(x, *args)`` for each slice ``x`` of ``xs`` along the first dimension, stacked.

    >>> import ftorch as torch
    >>> from ftorch._higher_order_ops import map
    >>> map(lambda x, y: x * y, torch.arange(3), torch.tensor(2))
    tensor([0, 2, 4])
    """
    if not pytree.tree_leaves(xs):
        raise RuntimeError("map() operator requires xs leaves")
    slices, join = _split(xs)
    if any(not t.dim() for t in slices):
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    sizes = [t.shape[0] for t in slices]
    if any(n != sizes[0] for n in sizes) or not sizes[0]:
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes "
            f"{[t.shape for t in slices]}."
        )
    shared, _ = _split(args)
    if modes.levels:
        recorded = modes.levels[-1].control_flow("map", (f,), (xs, args))
        if recorded is not NotImplemented:
            return recorded
    if _in_python([*slices, *shared]):
        results = [f(join([t[i] for t in slices]), *args) for i in range(sizes[0])]
        return pytree.tree_map(lambda *ys: api.stack(ys), *results)
    traced = TracedFunction(lambda *ts: f(join(ts), *args), _structs([t[0] for t in slices]))
    if traced.draws:
        slices = [*slices, seeds(sizes[0])]

    def kernel(captured, arrays):
        return jax.lax.map(lambda x: traced(captured[0], x), list(arrays))

    results = _call("map", (), [traced], kernel, slices)
    return pytree.tree_unflatten(results, traced.spec)
