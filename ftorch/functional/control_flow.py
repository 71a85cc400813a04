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

from ..eager import api, executor
from ..eager import op as _op
from ..eager.derivatives import Derived
from ..eager.executor import IMMEDIATE
from ..eager.interop import jax_array
from ..eager.registry import OPTIONAL_TENSOR
from ..eager.tensor import TensorBase, from_array, modes
from ..utils import _pytree as pytree
from .batching import Batched
from .dual import Dual, DualLevel, dual

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


# --- tracing -------------------------------------------------------------------------


class _TraceLevel(DualLevel):
    """The level of a function that is traced to a jaxpr; finds out which tensors it captures."""

    def __init__(self, captured_arrays=None):
        super().__init__()
        self.given = captured_arrays
        self.captured: list = []
        self.stand_ins: dict = {}

    def _primal(self, t):
        if not isinstance(t, TensorBase):
            return t
        if isinstance(t, Dual) and t._level is self:
            return t._inner
        found = self.stand_ins.get(id(t))
        if found is None:
            index = len(self.captured)
            self.captured.append(t)
            array = (
                jnp.zeros(t.shape, t.dtype.numpy) if self.given is None else self.given[index]
            )
            found = self.stand_ins[id(t)] = from_array(array)
        return found

    def known(self, t, how):
        raise RuntimeError(
            "the value of a tensor inside a traced control flow operator is not known; use torch.where "
            "or a control flow operator instead of Python control flow on values"
        )

    def random(self, kind, function, args, kwargs):
        raise RuntimeError(
            "random operations are not possible inside a control flow operator that is traced; draw "
            "the numbers outside and pass them in"
        )


class _Traced:
    """A function as a jaxpr: ``captured`` tensors are its first operands.

    It runs twice. The first run, on zeros whose results nobody asks for, finds the captured tensors:
    what it computes from those alone is an ordinary computation, on the outer tape. The second gives
    the jaxpr.
    """

    def __init__(self, function, structs):
        self.spec = None

        def run(level, arrays):
            with level:
                output = function(*(dual(level, from_array(a), None) for a in arrays))
                flat, self.spec = pytree.tree_flatten(output)
                return [level._primal(t) if isinstance(t, TensorBase) else t for t in flat]

        def trace(captured_arrays, arrays):
            outer, modes.grad = modes.grad, False
            try:
                results = run(_TraceLevel(captured_arrays), arrays)
                return [
                    jax_array(t) if isinstance(t, TensorBase) else jnp.asarray(t) for t in results
                ]
            finally:
                modes.grad = outer

        level = _TraceLevel()
        run(level, [jnp.zeros(s.shape, s.dtype) for s in structs])
        captured = level.captured
        held = [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy) for t in captured]
        self.closed = jax.make_jaxpr(trace)(held, structs)
        # Arrays in closures are operands too: inside JAX's transformations they may be tracers.
        self.captured = [*captured, *(from_array(c) for c in self.closed.consts)]
        self.count = len(captured)
        self.outputs = self.closed.out_avals
        self.key = str(self.closed.jaxpr)

    def __call__(self, captured, arrays):
        captured, constants = captured[: self.count], captured[self.count :]
        return jax.core.eval_jaxpr(self.closed.jaxpr, constants, *captured, *arrays)


def _structs(tensors):
    return [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy) for t in tensors]


def _is_known(t):
    """Whether Python can look at a tensor's value."""
    while isinstance(t, (Dual, Batched)):
        if isinstance(t._level, _TraceLevel) or (isinstance(t, Batched) and t._bdim is not None):
            return False
        t = t._inner
    return t._storage.trace is not IMMEDIATE


def _in_python(tensors):
    return executor.capturing() is None and all(_is_known(t) for t in tensors)


_ops: dict = {}


def _no_reverse(mask, differentiable):
    raise NotImplementedError(
        "while_loop: a traced loop has no reverse-mode derivative, since the number of its steps is not "
        "known; use scan"
    )


def _call(name, key, traced, kernel, tensors):
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
        if name == "while_loop":
            derived.make_gradients = _no_reverse
        op = _ops[key] = _op.Op(derived)
    result = op(*(t for f in traced for t in f.captured), *tensors)
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


def _dims_agree(name, a, b):
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
    if not isinstance(pred, (bool, int, float, TensorBase)) or (is_tensor and pred.numel() != 1):
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
    if not is_tensor or _in_python([pred]):
        return (true_fn if pred else false_fn)(*operands)
    tensors, join = _split(operands)
    branches = [
        _Traced(lambda *ts, f=f: f(*join(ts)), _structs(tensors)) for f in (true_fn, false_fn)
    ]
    _dims_agree("torch.cond", *branches)

    def kernel(captured, arrays):
        pred, *operands = arrays
        return jax.lax.cond(
            pred.reshape(()) != 0,
            lambda: branches[0](captured[0], operands), lambda: branches[1](captured[1], operands),
        )  # fmt: skip

    return pytree.tree_unflatten(
        _call("cond", (), branches, kernel, [pred, *tensors]), branches[0].spec
    )


def while_loop(cond_fn, body_fn, carried_inputs):
    """Applies ``body_fn`` to the carried values while ``cond_fn`` of them is true.

    Traced loops have a forward-mode derivative only, since their number of steps is not known.

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
    traced = [_Traced(spread(f), structs) for f in (cond_fn, body_fn)]
    _carry_agrees("while_loop", structs, traced[1].outputs)

    def kernel(captured, arrays):
        return jax.lax.while_loop(
            lambda carry: traced[0](captured[0], carry)[0].reshape(()) != 0,
            lambda carry: tuple(traced[1](captured[1], carry)),
            tuple(arrays),
        )

    results = _call("while_loop", (), traced, kernel, leaves)
    return tuple(pytree.tree_unflatten(results, spec))


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


def _carry_agrees(name, structs, outputs):
    if len(structs) != len(outputs) or any(
        s.shape != o.shape or s.dtype != o.dtype for s, o in zip(structs, outputs)
    ):
        given, made = (
            [f"{np.dtype(v.dtype)}{list(v.shape)}" for v in values] for values in (structs, outputs)
        )
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
    slices = [t.movedim(dim, 0) for t in slices]
    steps = slices[0].shape[0]
    if any(t.shape[0] != steps for t in slices):
        raise RuntimeError("All xs leaves must have the same size in the scanned dimension")
    if _in_python([*slices, *starts]):
        carry, ys = _scan_in_python(combine_fn, init, slices, join, steps, reverse)
        return carry, pytree.tree_map(lambda y: y.movedim(0, dim), ys)
    count = len(starts)

    def step(*ts):
        carry, y = combine_fn(restart(ts[:count]), join(ts[count:]))
        return _split(carry)[0], y

    traced = _Traced(step, [*_structs(starts), *_structs([t[0] for t in slices])])
    _carry_agrees("scan", _structs(starts), traced.outputs[:count])

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


def _scan_in_python(combine_fn, carry, slices, join, steps, reverse):
    order = range(steps - 1, -1, -1) if reverse else range(steps)
    results = [None] * steps
    for i in order:
        carry, results[i] = combine_fn(carry, join([t[i] for t in slices]))
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
    traced = _Traced(
        lambda *ts: combine_fn(join(ts[:count]), join(ts[count:])), [*examples, *examples]
    )
    _carry_agrees("associative_scan", examples, traced.outputs)

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
    if _in_python([*slices, *shared]):
        results = [f(join([t[i] for t in slices]), *args) for i in range(sizes[0])]
        return pytree.tree_map(lambda *ys: api.stack(ys), *results)
    traced = _Traced(lambda *ts: f(join(ts), *args), _structs([t[0] for t in slices]))

    def kernel(captured, arrays):
        return jax.lax.map(lambda x: traced(captured[0], x), list(arrays))

    results = _call("map", (), [traced], kernel, slices)
    return pytree.tree_unflatten(results, traced.spec)
