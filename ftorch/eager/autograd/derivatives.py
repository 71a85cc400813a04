"""Derivatives of ops as ops: from the declared formula, or from ``jax.vjp`` of the kernel.

PyTorch's gradient of a complex variable is the conjugate of what JAX propagates, so cotangents are
conjugated on the way into ``jax.vjp`` and on the way out.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

from ..call import class_plans, kernel_functions, planning
from ..call.op import Op
from ..core import jax_internals
from ..core.device import CPU, is_several
from ..core.geometry import Geometry, channels_last_stride, geometry, is_channels_last
from ..core.jaxprs import has_loops, read_equations
from ..core.quiet import quiet
from ..core.registry import OPTIONAL_TENSOR, SCALAR, TENSOR, TENSORS
from ..runtime import capture_trace, executor, strided_steps
from ..runtime.size_classes import Instance, Known, SizeClass, merged_at
from ..tensor import PLAIN
from .node_names import is_named_by_call, node_name


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
    known = None  # an object whose ``instance(slots, tensors)`` says the results without tracing
    calls_back = False  # whether the kernel calls Python from within the program
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


class Backward:
    """The derivative of a plan with respect to some of its inputs.

    Attributes:
        op: the op that computes it. Operands: saved tensors, scalars, gradients of the results.
        mask: which tensor inputs want a gradient; ``wanted`` their indices.
        saved: what a node saves: input ``i``, or result ``-1 - i``.
        differentiable: for each result whether it gets a gradient.
        plan: what it is the derivative of.
        first: the input whose gradient is handed on before the others', None if they go in order.
    """

    __slots__ = ("op", "mask", "wanted", "saved", "differentiable", "node_class", "plan", "first")

    def __init__(self, op, mask, saved, differentiable, node_class, plan):
        self.op = op
        self.plan = plan
        self.mask = mask
        self.wanted = [i for i, m in enumerate(mask) if m]
        self.saved = saved
        self.differentiable = differentiable
        self.node_class = node_class
        # As PyTorch's `addmm`, to which the bias comes first: hooks are called in that order.
        self.first = 2 if plan.op.definition.name == "linear" and len(mask) == 3 else None


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


def _struct(g: Geometry):
    return jax.ShapeDtypeStruct(g.shape, g.dtype.numpy)


def _used_operands(function, structs):
    """(which operands the results of a function depend on, whether it has loops)."""
    with quiet():
        closed, _ = jax_internals.traced(function, structs)
    _, read = read_equations(closed.jaxpr)
    return [v in read for v in closed.jaxpr.invars], has_loops(closed.jaxpr)


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
    mask = tuple([m and _is_inexact(g.dtype) for m, g in zip(mask, plan.inputs)])
    definition = plan.op.definition
    layout = _layout_of(plan)
    found = _class_of(plan, mask) if layout is None else None
    if found is not None and found.first is not None:
        return _of_class(plan, found, node_class)
    made = _Derivative(plan, mask, found)
    tensors = len(made.inputs) + len(made.results)
    derived = Derived(
        f"{definition.name}_backward", made,
        [OPTIONAL_TENSOR] * tensors + [SCALAR] * len(plan.scalars) + [OPTIONAL_TENSOR] * len(plan.geometries),
    )
    derived.runs_kernels = definition.runs_kernels
    derived.result_dtypes = tuple(g.dtype for g, m in zip(plan.inputs, mask) if m)
    if layout is not None:
        derived.layout = layout
    if found is not None:
        derived.known = _KnownGradients(found, plan)
    saved = [*made.inputs, *(-1 - j for j in made.results)]
    backward = Backward(Op(derived), mask, saved, made.differentiable, node_class(node_name(definition, plan)), plan)
    if found is not None:
        found.first = backward
    return backward


_IN_CHANNELS_LAST = re.compile(r"(conv|max_pool|avg_pool2d|adaptive_(avg|max)_pool2d|_batch_norm|group_norm|relu$)")


def _layout_of(plan):
    """How gradients lie in memory, where they do not lie in a row: as images whose channels come last, if the call's do."""
    inputs = plan.inputs
    if not inputs or inputs[0].ndim < 4 or not any(map(is_channels_last, inputs[:2])):
        return None
    name = plan.op.definition.name
    if name == "adaptive_avg_pool2d" and plan.geometries[0].shape[-2:] == (1, 1):
        return None  # a mean there
    return _channels_last if _IN_CHANNELS_LAST.match(name) else None


def _channels_last(inputs, static, shapes):
    rank = max(map(len, shapes))
    return [channels_last_stride(shape) if len(shape) == rank > 3 else None for shape in shapes]


def _of_class(plan, found, node_class):
    """The derivative of a plan of a size class, after that of another plan."""
    first, definition = found.first, plan.op.definition
    derived = first.op.definition.at(_Derivative(plan, first.mask, found), _KnownGradients(found, plan))
    backward = object.__new__(Backward)
    backward.op, backward.plan = Op(derived), plan
    backward.mask, backward.wanted, backward.saved = first.mask, first.wanted, first.saved
    backward.differentiable, backward.first = first.differentiable, first.first
    by_call = is_named_by_call(definition)
    backward.node_class = node_class(node_name(definition, plan)) if by_call else first.node_class
    return backward


class _Derivative:
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
                _is_inexact(g.dtype) and i not in constant for i, g in enumerate(plan.geometries)
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

        structs = [_struct(g) for g in plan.inputs]
        structs += [jax.ShapeDtypeStruct((), {"i": np.int64, "f": np.float64}.get(k, np.complex128))
                    for k in kinds]
        structs += [_struct(g) for g in plan.geometries] * 2
        try:
            with capture_trace.unwatched() if plan.op.definition.runs_kernels else contextlib.nullcontext():
                with jax.disable_jit(inline):
                    used, self.has_loops = _used_operands(flat, structs)
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


class _GradientClass:
    """The derivative of all plans of a size class, for one mask.

    Attributes:
        mask: which inputs have gradients.
        inputs, results: see `_Derivative`.
        programs: {which gradients there are, types of numbers: what `size_classes.merged_at` gives, or None}.
        first: the `Backward` of one of the plans; the others' differ in what follows from sizes.
        plans: {which operands are tensors, types of numbers: a plan of one of the ops}.
    """

    def __init__(self, samples, mask):
        self.mask = mask
        first = _Derivative(samples[0], mask)
        others = [_Derivative(plan, mask, inline=not first.has_loops) for plan in samples[1:]]
        # What only an inner call takes, which does not need it, counts as read where calls are not written out.
        if not first.has_loops and not _read_same(first, others):
            first = _Derivative(samples[0], mask, inline=True)
        self.samples = [first, *others]
        self.inputs, self.results = first.inputs, first.results
        self.is_general = _read_same(first, others)
        self.programs: dict = {}
        self.first: Backward | None = None
        self.plans: dict = {}

    def program(self, slots, types, points):
        key = (tuple(slots), tuple(types))
        if key not in self.programs:
            try:
                at = dict(zip(points, self.samples, strict=True))
                self.programs[key] = merged_at(points, lambda p, inline: self.trace(at[p], slots, types, inline))
            except Exception:  # noqa: BLE001  (a kernel may raise anything at sizes that are not a call's)
                self.programs[key] = None
        return self.programs[key]

    def trace(self, sample, slots, types, inline):
        """(closed jaxpr, whether there is one gradient) of a `_Derivative`."""
        saved = [sample.plan.inputs[i] for i in self.inputs] + [sample.plan.geometries[j] for j in self.results]
        count = len(types)
        given = [*saved, *[None] * count, *sample.plan.geometries]
        structs = [_struct(given[k]) for k, slot in enumerate(slots) if slot[0] == "t"]
        definition = Derived("", sample, [OPTIONAL_TENSOR] * len(slots))
        with capture_trace.unwatched(), jax.disable_jit(inline):
            return kernel_functions.trace_kernel(definition, slots, {}, {}, structs, types)


def _read_same(one, others):
    return all(o.inputs == one.inputs and o.results == one.results for o in others)


class _KnownGradients:
    """What says the gradients' shapes of one plan of a size class, and the step that computes them."""

    __slots__ = ("of", "base")

    def __init__(self, of, plan):
        self.of, self.base = of, plan

    def plan(self, op, operands):
        """The plan of a call of the op, if another op of the class has one for operands of this kind."""
        base, of = self.base, self.of
        if base.device is not CPU:
            return None
        kinds, inputs, count = [], [], len(of.inputs) + len(of.results)
        numbers = count + len(base.scalars)
        for k, o in enumerate(operands):
            kind = o.__class__
            if kind in PLAIN:
                g = o._ftorch_geometry
                if k >= numbers:
                    expected = base.geometries[k - numbers]
                elif k < len(of.inputs):
                    expected = base.inputs[of.inputs[k]]
                elif k < count:
                    expected = base.geometries[of.results[k - len(of.inputs)]]
                else:
                    return None
                if g is not expected and (
                    g.shape != expected.shape or g.dtype is not expected.dtype or g.device is not expected.device
                ):
                    return None
                inputs.append(g)
                kinds.append("t")
            else:
                kinds.append(o if o is None else kind)
        like = of.plans.get(tuple(kinds))
        if like is None:
            return None
        at = base.instance
        slots, types = like.structure.slots, like.scalar_types
        if at.adopted is not None and not at.adopted.derivatives.get((of, tuple(slots), tuple(types))):
            return None
        program = like.instance.of.program
        made = Instance(like.instance.of, at.sizes, program.result_shapes(at.sizes), program.evaluate(at.sizes))
        geometries = class_plans.contiguous(inputs, made.shapes, op.definition.result_dtypes, CPU)
        plan = class_plans.copied(like, tuple(inputs), geometries, made)
        plan.op = op
        plan.raw = plan.fn = kernel_functions.KernelFunction(op.definition, slots, {}, {}, len(inputs), CPU)
        return plan

    def keep(self, plan, operands):
        """Notes a plan that was made of the call's operands."""
        kinds = tuple(["t" if o.__class__ in PLAIN else o if o is None else o.__class__ for o in operands])
        if plan.checks is None and plan.device is CPU:
            self.of.plans[kinds] = plan

    def instance(self, slots, tensors, types):
        plan, of = self.base, self.of
        expected = [plan.inputs[i] for i in of.inputs] + [plan.geometries[j] for j in of.results]
        expected += [None] * len(types) + list(plan.geometries)
        if len(expected) != len(slots):
            return None
        for slot, g in zip(slots, expected):
            if slot[0] == "t":
                own = tensors[slot[1]]._ftorch_geometry
                if g is None or own.shape != g.shape or own.dtype is not g.dtype:
                    return None
            elif (slot[0] == "s") is not (g is None):
                return None
        base = plan.instance
        found = of.program(slots, types, base.of.points)
        if found is None:
            return None
        program, is_single, inline = found
        if base.adopted is not None and not self._is_right(program, base, slots, types, inline):
            return None
        return Instance(
            _Program(program, is_single), base.sizes, program.result_shapes(base.sizes), program.evaluate(base.sizes)
        )

    def _is_right(self, program, base, slots, types, inline):
        """Whether the class's program is right where some sizes are equal by chance (see `size_classes.Adopted`)."""
        known, plan, of = base.adopted.derivatives, self.base, self.of
        key = of, tuple(slots), tuple(types)
        if key not in known:
            try:
                own = _Derivative(plan, of.mask, of)
                known[key] = program.is_at(of.trace(own, slots, types, inline)[0], base.sizes)
            except Exception:  # noqa: BLE001  (it is raised when the derivative is planned by itself)
                known[key] = False
        return known[key]


class _Program:
    """What an `Instance` knows of where it is from."""

    __slots__ = ("program", "is_single")

    def __init__(self, program, is_single):
        self.program, self.is_single = program, is_single


def _class_of(plan, mask) -> _GradientClass | None:
    """The derivative's class, if the plan's sizes are those of a general class."""
    instance = plan.instance
    if instance is None or instance.dtype is not None or not isinstance(instance.of, SizeClass):
        return None
    one, definition = instance.of, plan.op.definition
    if definition.make_gradients is not None:
        return None
    # A class's samples are on the CPU: what is saved there may be other operands than on an accelerator.
    if plan.device is not CPU and (definition.backward is None or definition.backend_derivatives):
        return None
    if mask not in one.backwards:
        try:
            found = _GradientClass(planning.samples(plan), mask)
            one.backwards[mask] = found if found.is_general else None
        except Exception:  # noqa: BLE001  (see `_GradientClass.program`)
            one.backwards[mask] = None
    return one.backwards[mask]


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
        step = strided_steps.adjoint(way, root.shape, root.dtype)
        if step is not None:
            derived.known = Known((root.shape,), (root.dtype.numpy,), step)
        found = Op(derived)
        if len(_adjoints) >= _MOST_ADJOINTS:
            for oldest in list(itertools.islice(_adjoints, _MOST_ADJOINTS // 8)):
                _adjoints.pop(oldest, None)
        _adjoints[(way, key)] = found
    return found


_adjoints: dict = {}
_MOST_ADJOINTS = 4096


def covering(g: Geometry) -> Geometry:
    """A one-dimensional geometry over everything that ``g`` reaches."""
    return geometry((g.expanse,), g.dtype, g.device)
