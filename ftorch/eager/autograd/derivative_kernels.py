"""The kernels of derivatives: gradients as array functions, from the declared formula, or from ``jax.vjp`` of the kernel.

PyTorch's gradient of a complex variable is the conjugate of what JAX propagates, so cotangents are
conjugated on the way into ``jax.vjp`` and on the way out.
"""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

from ..core import jax_internals
from ..core.device import is_several
from ..core.geometry import Geometry
from ..core.jax_scope import scoped_trace
from ..core.jaxprs import has_loops, read_equations
from ..core.registry import OPTIONAL_TENSOR, SCALAR, TENSOR, TENSORS
from ..core.suppressed_warnings import quiet
from ..runtime import capture_trace, executor
from ..runtime.size_classes import Result


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
    fitting = ()
    exclusive = False
    expanded = compared = None
    anywhere = ()
    runs_kernels = False
    regime = None
    known = None  # an object whose ``instance(slots, tensors)`` says the results without tracing
    gradient_op = None  # makes the op of numbers and the result's gradient that gives its one tensor's, where it is known
    calls_back = False  # whether the kernel calls Python from within the program
    only_once = False  # whether it must not run again where a program failed: other processes take part in it
    result_dtypes = None  # those of the results, where their arrays' dtypes do not say it

    def __init__(self, name, kernel, kinds):
        self.name = self.full_name = name
        self.kernel = kernel
        self.kinds = tuple(kinds)
        self.argument_names = tuple(f"argument{i}" for i in range(len(self.kinds)))
        self.checks = self.notices = ()
        self.backend_kernels = {}
        self.backend_derivatives = {}
        argument = SimpleNamespace(default=None)
        self.schema = SimpleNamespace(returns=(), name=name, arguments=(argument,) * len(self.kinds))

    def at(self, kernel, known):
        """The same for other sizes."""
        made = object.__new__(Derived)  # attribute by attribute: objects whose dictionary nobody asks for have none
        made.name, made.full_name, made.kernel, made.kinds = self.name, self.full_name, kernel, self.kinds
        made.argument_names, made.checks, made.notices = self.argument_names, self.checks, self.notices
        made.backend_kernels, made.backend_derivatives = self.backend_kernels, self.backend_derivatives
        made.schema, made.runs_kernels = self.schema, self.runs_kernels
        made.result_dtypes, made.known = self.result_dtypes, known
        return made


class Known:
    """Results that are known without tracing, and the step that makes them: for derived ops."""

    __slots__ = ("shapes", "dtypes", "step", "of", "sizes")
    dtype = adopted = None

    def __init__(self, shapes, dtypes, step):
        self.shapes, self.dtypes, self.step, self.of, self.sizes = shapes, dtypes, step, self, ()

    def instance(self, slots, tensors, types):
        return self

    def plan(self, op, operands):
        return None

    def keep(self, plan, operands):
        """Nothing: what is derived of one geometry has one plan."""

    def results(self):
        return tuple(map(Result, self.shapes, self.dtypes)), len(self.shapes) == 1

    def cast(self, dtype):
        return None

    def code(self):
        return self.step


def is_inexact(dtype):
    return dtype.category >= 2


def conj(x):
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
        return [conj(g) for g in pull([conj(g) for g in given])]

    return gradients


def _by_formula(plan, mask, differentiable):
    """gradients(inputs, scalars, results, grads) from the declared derivative."""
    definition = plan.op.definition
    formula, names = definition.backward, definition.backward_saves
    if definition.backend_derivatives and plan.device is not None and not is_several(plan.device):
        formula = definition.backend_derivatives.get(plan.device.type, formula)
    slots = plan.structure.slots
    index = {name: i for i, name in enumerate(definition.argument_names)}
    tensor_slots = [
        slot for slot, kind in zip(slots, definition.kinds)
        if kind in (TENSOR, OPTIONAL_TENSOR, TENSORS)
    ]
    needs = tuple(_needs(slot, mask) for slot in tensor_slots)

    def gradients(inputs, scalars, results, grads):
        arguments = plan.raw.arguments(inputs, scalars)
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


def struct(g: Geometry):
    return jax.ShapeDtypeStruct(g.shape, g.dtype.numpy)


def used_operands(function, structs):
    """(which operands the results of a function depend on, whether it has loops)."""
    with quiet():
        closed, _ = jax_internals.traced(function, structs)
    _, read = read_equations(closed.jaxpr)
    return [v in read for v in closed.jaxpr.invars], has_loops(closed.jaxpr)


@scoped_trace
def read_by_results(plan) -> list[set]:
    """For each result of a plan the inputs on which it depends."""
    kinds, n = plan.scalars, len(plan.inputs)

    def flat(*operands):
        return plan.fn(*operands[:n], *[executor.weak(v, k) for v, k in zip(operands[n:], kinds)])

    with quiet():
        closed, _ = jax_internals.traced(flat, [*map(struct, plan.inputs), *_scalars(kinds)])
    jaxpr = closed.jaxpr
    reads = [read_equations(jaxpr, [result])[1] for result in jaxpr.outvars]
    return [{i for i, v in enumerate(jaxpr.invars[:n]) if v in read} for read in reads]


def _scalars(kinds):
    return [jax.ShapeDtypeStruct((), {"i": np.int64, "f": np.float64}.get(k, np.complex128)) for k in kinds]


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


def definition_of(made):
    """The op's definition of a `Derivative`."""
    plan, tensors = made.plan, len(made.inputs) + len(made.results)
    derived = Derived(
        f"{plan.op.definition.name}_backward", made,
        [OPTIONAL_TENSOR] * tensors + [SCALAR] * len(plan.scalars) + [OPTIONAL_TENSOR] * len(plan.geometries),
    )
    derived.runs_kernels = plan.op.definition.runs_kernels
    derived.result_dtypes = tuple(g.dtype for g, m in zip(plan.inputs, made.mask) if m)
    return derived


class Derivative:
    """The gradients of a plan's inputs as a kernel of what a node saves, numbers, and the results' gradients.

    Attributes:
        mask: which inputs' gradients it gives.
        inputs, results: which of the plan's the kernel reads; ``has_loops``: whether it has some.
    """

    __slots__ = ("plan", "mask", "_gradients", "differentiable", "inputs", "results", "has_loops")

    def __init__(self, plan, mask, like=None, inline=False):
        self.plan, self.mask, self._gradients = plan, mask, None
        if like is not None and like.first is not None:
            self.differentiable = like.first.differentiable
        else:
            constant = plan.op.definition.constant
            self.differentiable = tuple([
                is_inexact(g.dtype) and i not in constant for i, g in enumerate(plan.geometries)
            ])
        if like is None:
            self._find_used(inline)
        else:
            self.inputs, self.results = like.inputs, like.results

    @property
    def gradients(self):
        """See `gradients_of`; made when it is wanted."""
        if self._gradients is None:
            self._gradients = gradients_of(self.plan, self.mask, self.differentiable)
        return self._gradients

    def _find_used(self, inline):
        plan, gradients = self.plan, self.gradients
        n, m, r = len(plan.inputs), len(plan.scalars), len(plan.geometries)
        kinds = plan.scalars

        def flat(*operands):
            scalars = [executor.weak(v, k) for v, k in zip(operands[n : n + m], kinds)]
            return gradients(operands[:n], scalars, operands[n + m : n + m + r], operands[n + m + r :])

        structs = [struct(g) for g in plan.inputs]
        structs += _scalars(kinds)
        structs += [struct(g) for g in plan.geometries] * 2
        try:
            with capture_trace.unwatched() if plan.op.definition.runs_kernels else contextlib.nullcontext():
                with jax.disable_jit(inline):
                    used, self.has_loops = used_operands(flat, structs)
        except (ValueError, RuntimeError) as error:
            refused = _refused(error)
            if refused is None:
                raise
            self._gradients, used, self.has_loops = _raising(refused), [False] * len(structs), False
        self.inputs = [i for i in range(n) if used[i]]
        self.results = [j for j in range(r) if used[n + m + j]]

    def __call__(self, *operands):
        shapes, result_shapes = ([(g.shape, g.dtype.numpy) for g in of] for of in (self.plan.inputs, self.plan.geometries))
        n, m, r, at = len(shapes), len(self.plan.scalars), len(result_shapes), len(self.inputs)
        full = [None] * n
        for i, x in zip(self.inputs, operands):
            full[i] = x
        full = [jnp.zeros(*s) if x is None else x for x, s in zip(full, shapes)]
        full_results = [None] * r
        for j, x in zip(self.results, operands[at : at + len(self.results)]):
            full_results[j] = x
        full_results = [jnp.zeros(*s) if x is None else x for x, s in zip(full_results, result_shapes)]
        at += len(self.results)
        grads = [
            jnp.zeros(*s) if g is None else g.astype(s[1]).reshape(s[0])
            for g, s in zip(operands[at + m :], result_shapes)
        ]
        out = self.gradients(full, operands[at : at + m], full_results, grads)
        return out[0] if len(out) == 1 else tuple(out)
