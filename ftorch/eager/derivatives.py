"""Derivatives of ops as ops: from the declared formula, or from ``jax.vjp`` of the kernel.

PyTorch's gradient of a complex variable is the conjugate of what JAX propagates, so cotangents are
conjugated on the way into ``jax.vjp`` and on the way out.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

from . import executor
from .geometry import Geometry, geometry
from .node_names import node_name
from .op import Op, call, hooks, op_named, read, write
from .references import LISTED, LOCAL
from .registry import OPTIONAL_TENSOR, SCALAR, TENSOR, TENSORS
from .tensor import DISPATCHING, modes, wrap


class Derived:
    """A definition that no schema declares: backward ops, adjoints, batched and dual ops."""

    host = False
    promote = None
    promoting = ()
    numbers = frozenset()
    dtype_checks = ()
    differentiable = True
    constant = ()
    layout = "contiguous"
    backward = None
    backward_saves = ()
    is_view = False
    make_gradients = None  # (mask, differentiable) -> gradients, where another plan's are reused
    public = ()
    keywords = ()
    element = None
    runs_kernels = False
    result_dtypes = None  # those of the results, where their arrays' dtypes do not say it

    def __init__(self, name, kernel, kinds):
        self.name = self.full_name = name
        self.kernel = kernel
        self.kinds = tuple(kinds)
        self.argument_names = tuple(f"argument{i}" for i in range(len(self.kinds)))
        self.checks = ()
        self.backend_kernels = {}
        argument = SimpleNamespace(default=None)
        self.schema = SimpleNamespace(returns=(), name=name, arguments=(argument,) * len(self.kinds))


class Backward:
    """The derivative of a plan with respect to some of its inputs.

    Attributes:
        op: the op that computes it. Operands: saved tensors, scalars, gradients of the results.
        mask: which tensor inputs want a gradient; ``wanted`` their indices.
        saved: what a node saves: input ``i``, or result ``-1 - i``.
        differentiable: for each result whether it gets a gradient.
    """

    __slots__ = ("op", "mask", "wanted", "saved", "differentiable", "node_class")

    def __init__(self, op, mask, saved, differentiable, node_class):
        self.op = op
        self.mask = mask
        self.wanted = [i for i, m in enumerate(mask) if m]
        self.saved = saved
        self.differentiable = differentiable
        self.node_class = node_class


def _is_inexact(dtype):
    return dtype.category >= 2


def _conj(x):
    return jnp.conj(x) if jnp.issubdtype(x.dtype, jnp.complexfloating) else x


def fold(grad, g: Geometry):
    """A gradient in the shape and dtype of an input that was broadcast or promoted."""
    if grad.shape != g.shape:
        gap = grad.ndim - g.ndim
        axes = (
            *range(gap),
            *(i + gap for i, n in enumerate(g.shape) if n == 1 and grad.shape[i + gap] != 1),
        )
        grad = grad.sum(axes).reshape(g.shape) if axes else jnp.broadcast_to(grad, g.shape)
    if grad.dtype != g.dtype.numpy:
        if jnp.issubdtype(grad.dtype, jnp.complexfloating) and not g.dtype.is_complex:
            grad = grad.real
        grad = grad.astype(g.dtype.numpy)
    return grad


def _by_vjp(plan, mask, differentiable):
    """gradients(inputs, scalars, results, grads) from jax.vjp of the plan's function."""
    wanted = [i for i, m in enumerate(mask) if m]

    def gradients(inputs, scalars, results, grads):
        def forward(*chosen):
            operands = list(inputs)
            for i, x in zip(wanted, chosen):
                operands[i] = x
            out = plan.fn(*operands, *scalars)
            out = (out,) if plan.is_single else out
            return [o for o, d in zip(out, differentiable) if d]

        _, pull = jax.vjp(forward, *(inputs[i] for i in wanted))
        given = [g for g, d in zip(grads, differentiable) if d]
        return [_conj(g) for g in pull([_conj(g) for g in given])]

    return gradients


def _by_formula(plan, mask, differentiable):
    """gradients(inputs, scalars, results, grads) from the declared derivative."""
    definition = plan.op.definition
    formula, names = definition.backward, definition.backward_saves
    slots = plan.structure.slots
    index = {name: i for i, name in enumerate(definition.argument_names)}
    tensor_slots = [
        slot for slot, kind in zip(slots, definition.kinds)
        if kind in (TENSOR, OPTIONAL_TENSOR, TENSORS)
    ]  # fmt: skip
    needs = tuple(_needs(slot, mask) for slot in tensor_slots)

    def gradients(inputs, scalars, results, grads):
        arguments = plan.raw(inputs, scalars)
        given = {}
        for name in names:
            if name == "result":
                given[name] = results[0] if plan.is_single else tuple(results)
            elif name == "needs":
                given[name] = needs
            else:
                given[name] = arguments[index[name]]
        out = formula(grads[0] if plan.is_single else tuple(grads), **given)
        if not isinstance(out, (tuple, list)):
            out = (out,)
        elif len(tensor_slots) == 1 and tensor_slots[0][0] == "l" and len(out) != 1:
            out = (out,)
        flat = [None] * len(inputs)
        for slot, g in zip(tensor_slots, out):
            if slot[0] == "t":
                flat[slot[1]] = g
            elif slot[0] == "l" and g is not None:
                for j, part in zip(slot[1], g):
                    if j is not None:
                        flat[j] = part
        result = []
        for i, wanted in enumerate(mask):
            if wanted:
                g, to = flat[i], plan.inputs[i]
                result.append(
                    jnp.zeros(to.shape, to.dtype.numpy) if g is None else fold(jnp.asarray(g), to)
                )
        return result

    return gradients


def _needs(slot, mask):
    if slot[0] == "t":
        return mask[slot[1]]
    if slot[0] == "l":
        return any(mask[j] for j in slot[1] if j is not None)
    return False


def _struct(g: Geometry):
    return jax.ShapeDtypeStruct(g.shape, g.dtype.numpy)


def _used_operands(function, structs):
    """Which operands the results of a function depend on."""
    closed = jax.make_jaxpr(function)(*structs)
    live = {v for v in closed.jaxpr.outvars if not hasattr(v, "val")}
    for equation in reversed(closed.jaxpr.eqns):
        if any(v in live for v in equation.outvars):
            live.update(v for v in equation.invars if not hasattr(v, "val"))
    return [v in live for v in closed.jaxpr.invars]


def gradients_of(plan, mask, differentiable):
    """The array function gradients(inputs, scalars, results, grads) -> those the mask wants."""
    definition = plan.op.definition
    if definition.make_gradients is not None:
        return definition.make_gradients(mask, differentiable)
    make = _by_vjp if definition.backward is None else _by_formula
    return make(plan, mask, differentiable)


_ENDLESS = (
    "while_loop: the gradient of a traced loop cannot be differentiated backwards again, since the "
    "number of its steps is not known; use scan, or forward mode (torch.func.jvp)"
)


def _refused(error: Exception):
    """The error that says why there is no derivative, or None for any other."""
    if "Reverse-mode differentiation does not work" in str(error):
        return RuntimeError(_ENDLESS)
    is_ours = isinstance(error, (NotImplementedError, RuntimeError)) and "derivative for" in str(error)
    return error.with_traceback(None) if is_ours else None


def _raising(error):
    """gradients(inputs, scalars, results, grads) for who asks for what there is not."""

    def gradients(inputs, scalars, results, grads):
        raise type(error)(*error.args)

    return gradients


def of_plan(plan, mask, node_class) -> Backward:
    """The derivative of a plan, with respect to the inputs of the mask."""
    mask = tuple(m and _is_inexact(g.dtype) for m, g in zip(mask, plan.inputs))
    definition = plan.op.definition
    differentiable = tuple(
        _is_inexact(g.dtype) and i not in definition.constant for i, g in enumerate(plan.geometries)
    )
    gradients = gradients_of(plan, mask, differentiable)
    n, m, r = len(plan.inputs), len(plan.scalars), len(plan.geometries)
    kinds = plan.scalars

    def flat(*operands):
        scalars = [executor.weak(v, k) for v, k in zip(operands[n : n + m], kinds)]
        return gradients(operands[:n], scalars, operands[n + m : n + m + r], operands[n + m + r :])

    structs = [_struct(g) for g in plan.inputs]
    structs += [jax.ShapeDtypeStruct((), {"i": np.int64, "f": np.float64}.get(k, np.complex128))
                for k in kinds]  # fmt: skip
    structs += [_struct(g) for g in plan.geometries] * 2
    try:
        with executor.unwatched() if definition.runs_kernels else contextlib.nullcontext():
            used = _used_operands(flat, structs)
    except (ValueError, RuntimeError) as error:
        refused = _refused(error)
        if refused is None:
            raise
        gradients, used = _raising(refused), [False] * len(structs)
    inputs = [i for i in range(n) if used[i]]
    results = [j for j in range(r) if used[n + m + j]]
    shapes = [(g.shape, g.dtype.numpy) for g in plan.inputs]
    result_shapes = [(g.shape, g.dtype.numpy) for g in plan.geometries]

    def kernel(*operands):
        at = len(inputs)
        full = [None] * n
        for i, x in zip(inputs, operands):
            full[i] = x
        full = [jnp.zeros(*s) if x is None else x for x, s in zip(full, shapes)]
        full_results = [None] * r
        for j, x in zip(results, operands[at : at + len(results)]):
            full_results[j] = x
        full_results = [
            jnp.zeros(*s) if x is None else x for x, s in zip(full_results, result_shapes)
        ]
        at += len(results)
        grads = [
            jnp.zeros(*s) if g is None else g.astype(s[1]).reshape(s[0])
            for g, s in zip(operands[at + m :], result_shapes)
        ]
        out = gradients(full, operands[at : at + m], full_results, grads)
        return out[0] if len(out) == 1 else tuple(out)

    tensors = len(inputs) + len(results)
    derived = Derived(
        f"{definition.name}_backward", kernel,
        [OPTIONAL_TENSOR] * tensors + [SCALAR] * m + [OPTIONAL_TENSOR] * r,
    )  # fmt: skip
    derived.runs_kernels = definition.runs_kernels
    derived.result_dtypes = tuple(g.dtype for g, m in zip(plan.inputs, mask) if m)
    saved = [*inputs, *(-1 - j for j in results)]
    return Backward(Op(derived), mask, saved, differentiable, node_class(node_name(definition, plan)))


# --- what nodes and the engine do to tensors -----------------------------------------


def adjoint_of(way, base: Geometry, view: Geometry) -> Op:
    """The op that takes the gradient of a view to that of its base (a dense one)."""
    key = ("adjoint", base)
    found = _adjoints.get((way, key))
    if found is None:
        root = base if base.is_dense else covering(base)
        struct = _struct(root)

        def kernel(grad, *starts):
            _, pull = jax.vjp(lambda x: way.read(x, *starts), jnp.zeros(struct.shape, struct.dtype))
            return _conj(pull(_conj(grad.astype(view.dtype.numpy)))[0])

        derived = Derived("as_strided_backward", kernel, [TENSOR] + [SCALAR] * way.count)
        derived.runs_kernels, derived.result_dtypes = True, (base.dtype,)
        found = Op(derived)
        if len(_adjoints) > 1 << 14:
            _adjoints.clear()
        _adjoints[(way, key)] = found
    return found


_adjoints: dict = {}


def covering(g: Geometry) -> Geometry:
    """A one-dimensional geometry over everything that ``g`` reaches."""
    return geometry((g.expanse,), g.dtype, g.device)


def clone_with(t, g: Geometry | None):
    """A copy of a tensor, laid out as ``g`` (None: as it is)."""
    out = call(op_named("clone"), (t,), (None,))
    if g is not None and out._geometry is not g and g.is_dense:
        executor.relabel(out._storage, g)
        out._geometry = g
    return out


def alias(t, g: Geometry, offset: int):
    """A part of a tensor's storage as a tensor, recorded as a view of it."""
    return hooks["part"](t, g, offset)


def overwrite(t, value):
    """``t.copy_(value)``; None means zeros."""
    from . import api

    if value is None:
        api.Tensor.zero_(t)
    else:
        api.Tensor.copy_(t, value)


_accumulate_lock = threading.Lock()


def accumulate(variable, buffer):
    """Adds the gradient ``buffer.pop(0)`` to a leaf's ``.grad``: itself, where nobody else holds it."""
    grad = buffer.pop(0)
    if grad is None:
        return
    with _accumulate_lock:
        held = variable._grad
        capture = executor.capturing()
        if capture is not None:
            capture.touch_grad(variable, True)
        if held is None:
            if grad.__class__ in DISPATCHING:
                grad = grad if modes.grad else grad.detach()
            elif not modes.grad and (
                sys.getrefcount(grad) > LOCAL or capture is not None or not _is_alone(grad)
            ):
                # The gradient may have gone to several leaves: each gets a tensor of its own.
                grad = detached(grad)
            variable._grad = grad
        elif modes.grad or held.__class__ in DISPATCHING or grad.__class__ in DISPATCHING:
            variable._grad = add(held, grad)
        else:
            write(held, read(add(held, grad)))


def _is_alone(t):
    """Whether a tensor outside of graphs is all that holds its storage, and the whole of it."""
    storage = t._storage
    if t._geometry is not storage.root or t._requires_grad or t._meta is not None:
        return False
    if t._base is not None or t._grad_fn is not None:
        return False
    trace = storage.trace
    if trace is None:
        return sys.getrefcount(storage) == LISTED and storage.array is not None
    alone = sys.getrefcount(storage) == LISTED + 1  # the trace lists what it is going to give
    return alone and storage.trace is trace is not executor.IMMEDIATE


def add(a, b):
    """The sum of two gradients."""
    return call(op_named("add.Tensor"), (a, b, 1))


def detached(t):
    """The same value in a storage of its own, outside the graph."""
    g = t._geometry
    if g is t._storage.root:
        return wrap(executor.duplicate(t._storage))
    return wrap(read(t))


def zeros(g: Geometry):
    """A tensor of zeros."""
    return _constant(g, 0)


def ones(g: Geometry):
    """A tensor of ones."""
    return _constant(g, 1)


def _constant(g, value):
    plan = _constants.get((g, value))
    if plan is None:
        dense = geometry(g.shape, g.dtype, g.device)
        plan = _constants[(g, value)] = executor.Plan(
            lambda: jnp.full(dense.shape, value, dense.dtype.numpy), (dense,), "", "full", g.device
        )
        plan.element = None if g.dtype.stored else value
    return wrap(executor.record(plan, ()))


_constants: dict = {}
