"""Backward ops: an op's derivative is an op, too."""

from __future__ import annotations

import functools
import itertools
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp

from ..call import class_plans
from ..call.kernel_functions import KernelFunction
from ..call.op import Op
from ..core.device import CPU
from ..core.errors import OutOfMemoryError
from ..core.geometry import Geometry, channels_last_stride, geometry, is_channels_last
from ..core.jax_scope import scoped_trace
from ..core.registry import OPTIONAL_TENSOR, SCALAR, TENSOR
from ..runtime import strided_steps
from ..tensor import PLAIN
from .derivative_classes import KnownGradients, class_of
from .derivative_kernels import (
    Derivative,
    Derived,
    Known,
    conj,
    definition_of,
    fold,
    is_inexact,
    read_by_results,
    struct,
)
from .node_names import is_named_by_call, node_name


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

    __slots__ = ("op", "mask", "wanted", "saved", "differentiable", "node_class", "plan", "first", "_reading")

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

    def reaches(self, i, given) -> bool:
        """Whether input ``i`` is read by one of the results for which ``given`` says that they have a gradient."""
        try:
            reading = self._reading
        except AttributeError:
            reading = self._reading = read_by_results(self.plan)
        return any(there and i in read for there, read in zip(given, reading))


# What PyTorch has no formula for: the op as its errors name it, and its arguments.
_NOT_FOR = {
    "nll_loss": ("nll_loss_forward", ("weight",)),
    "cross_entropy": ("nll_loss_forward", ("weight",)),
    "binary_cross_entropy": ("binary_cross_entropy", ("weight",)),
    "binary_cross_entropy_with_logits": ("binary_cross_entropy_with_logits", ("weight", "pos_weight")),
    "multi_margin_loss": ("multi_margin_loss", ("weight",)),
    "soft_margin_loss": ("soft_margin_loss", ("target",)),
    **dict.fromkeys(("_batch_norm_eval", "_instance_norm_train", "_instance_norm_eval"),
                    ("native_batch_norm", ("running_mean", "running_var"))),
}


def _refuse_arguments(plan, mask):
    name, arguments = _NOT_FOR[plan.op.definition.name]
    if name == "nll_loss_forward":
        if is_inexact(plan.inputs[1].dtype):  # probabilities of classes, whose loss is made of products
            return
        name = "nll_loss2d_forward" if plan.inputs[0].ndim > 2 else name
    for argument, is_wanted in zip(plan.structure.tensor_names, mask):
        if is_wanted and argument in arguments:
            raise RuntimeError(
                f"The function '{name}' is not differentiable with respect to argument '{argument}'. This input cannot have "
                "requires_grad True."
            )


@scoped_trace
def of_plan(plan, mask, node_class) -> Backward:
    """The derivative of a plan, with respect to the inputs of the mask."""
    mask = tuple([m and is_inexact(g.dtype) for m, g in zip(mask, plan.inputs)])
    definition = plan.op.definition
    if not any(mask):
        differentiable = tuple([is_inexact(g.dtype) for g in plan.geometries])
        return Backward(None, mask, [], differentiable, node_class(node_name(definition, plan), ends=True), plan)
    if definition.name in _NOT_FOR:
        _refuse_arguments(plan, mask)
    if definition.gradient_op is not None and mask == (True,):
        return Backward(definition.gradient_op(), mask, [], (True,), node_class(node_name(definition, plan)), plan)
    if getattr(definition, "saves_operands", False) and mask[0] and not any(mask[1:]):
        op, kind = _of_operands(definition, plan.inputs[0].dtype, len(mask)), node_class(node_name(definition, plan))
        return Backward(op, mask, [*range(len(mask))], (True,), kind, plan)
    layout = _layout_of(plan)
    found = class_of(plan, mask) if layout is None else None
    if found is not None and found.first is not None:
        backward = of_class(plan, found)
        if is_named_by_call(definition):
            backward.node_class = node_class(node_name(definition, plan))
        return backward
    try:
        made = Derivative(plan, mask, found)
    except (OutOfMemoryError, RecursionError):  # of this call, not of the derivative
        raise
    except RuntimeError as error:
        return refused(plan, mask, node_class, error)
    derived = definition_of(made)
    if layout is not None:
        derived.layout = layout
    if found is not None:
        derived.known = KnownGradients(found, plan)
    saved = [*made.inputs, *(-1 - j for j in made.results)]
    several = definition.__class__ is Derived and len(plan.geometries) > 1
    kind = node_class(node_name(definition, plan), several=several)
    backward = Backward(Op(derived), mask, saved, made.differentiable, kind, plan)
    if found is not None:
        found.first, found.is_plain = backward, not is_named_by_call(definition)
    return backward


@functools.lru_cache(64)
def _of_operands(definition, dtype, count) -> Op:
    """The op of the operands (``count`` tensors) and the result's gradient that gives the first's: `OpDef.saves_operands`."""

    def kernel(*given):
        *operands, grad = given
        named = dict(zip(definition.argument_names, operands))
        found, *_ = definition.backward(grad, **{name: named[name] for name in definition.backward_saves})
        first = operands[0]
        return fold(found, SimpleNamespace(shape=first.shape, ndim=first.ndim, dtype=dtype))

    derived = Derived(f"{definition.name}_backward", kernel, [TENSOR] * (count + 1))
    derived.runs_kernels, derived.result_dtypes = True, (dtype,)
    return Op(derived)


def refused(plan, mask, node_class, error) -> Backward:
    """A derivative that says when it is computed, as PyTorch's, that there is none."""
    kind, texts = error.__class__, error.args

    def kernel(*given):
        raise kind(*texts)

    saved = [i for i, g in enumerate(plan.inputs) if not is_inexact(g.dtype)]  # an index, which users may look at
    kinds = [OPTIONAL_TENSOR] * len(saved) + [SCALAR] * len(plan.scalars) + [OPTIONAL_TENSOR] * len(plan.geometries)
    derived = Derived(f"{plan.op.definition.name}_backward", kernel, kinds)
    derived.result_dtypes = tuple(g.dtype for g, m in zip(plan.inputs, mask) if m)
    differentiable = tuple([is_inexact(g.dtype) for g in plan.geometries])
    return Backward(Op(derived), mask, saved, differentiable, node_class(node_name(plan.op.definition, plan)), plan)


_IN_CHANNELS_LAST = re.compile(r"(conv|max_pool|avg_pool2d|adaptive_(avg|max)_pool2d|_batch_norm|group_norm|relu$)")


def _layout_of(plan):
    """How gradients lie in memory, where they do not lie in a row: as images whose channels come last, if the call's do."""
    inputs = plan.inputs
    if not inputs or inputs[0].ndim < 4 or not any(map(is_channels_last, inputs[:2])):
        return None
    definition = plan.op.definition
    name = definition.name
    if name == "adaptive_avg_pool2d" and plan.geometries[0].shape[-2:] == (1, 1):
        return None  # a mean there
    if _IN_CHANNELS_LAST.match(name):
        return _channels_last
    keeps = definition.promote is not None or definition.layout in ("pointwise", "preserve", "channels") or name in _KEEPING
    if not keeps or not is_channels_last(inputs[0]) or not is_channels_last(plan.geometries[0]):
        return None
    if name == "_interpolate" and inputs[0].ndim == 5 and ("v", "nearest") in plan.structure.slots:
        return None
    return _channels_together


# What is computed element by element, or moves the elements of images, and keeps their channels together.
_KEEPING = frozenset("pad pixel_shuffle pixel_unshuffle channel_shuffle local_response_norm prelu".split())


def _channels_together(inputs, static, shapes):
    """As the gradient of the result lies, or what was saved."""
    return _channels_last(inputs, static, shapes) if any(map(is_channels_last, inputs)) else [None] * len(shapes)


def _channels_last(inputs, static, shapes):
    rank = max(map(len, shapes))
    return [channels_last_stride(shape) if len(shape) == rank > 3 else None for shape in shapes]


def of_class(plan, found):
    """The derivative of a plan of a size class, after that of another plan: its node class is that one's."""
    first = found.first
    derived = first.op.definition.at(Derivative(plan, first.mask, found), KnownGradients(found, plan))
    backward = object.__new__(Backward)
    backward.op, backward.plan = Op(derived), plan
    backward.mask, backward.wanted, backward.saved = first.mask, first.wanted, first.saved
    backward.differentiable, backward.first, backward.node_class = first.differentiable, first.first, first.node_class
    return backward


class _KnownAdjoint(Known):
    """What is known of the gradient of a view, and the plans of others after which this one's is made."""

    __slots__ = ("view", "root")

    def __init__(self, view: Geometry, root: Geometry, step):
        super().__init__((root.shape,), (root.dtype.numpy,), step)
        self.view, self.root = view, root

    def _kind(self, op):
        return self.view.dtype, op.definition.result_dtypes[0], len(op.definition.kinds)

    def plan(self, op, operands):
        """The plan of a call on the CPU, where another view's of these dtypes is known."""
        grad, *starts = operands
        like = _plans_of_adjoints.get(self._kind(op))
        if like is None or grad.__class__ not in PLAIN or not all([n.__class__ is int for n in starts]):
            return None
        g, view, root = grad._ftorch_geometry, self.view, self.root
        if g.shape != view.shape or g.dtype is not view.dtype or g.device is not CPU:
            return None
        result = geometry(root.shape, op.definition.result_dtypes[0], CPU)
        plan = class_plans.copied(like, (g,), (result,), self)
        plan.op = op
        plan.raw = plan.fn = KernelFunction(op.definition, like.structure.slots, {}, {}, 1, CPU)
        return plan

    def keep(self, plan, operands):
        """Makes a plan the one after which others are made."""
        if plan.device is CPU and plan.checks is None and plan.inputs[0].dtype is self.view.dtype:
            _plans_of_adjoints[self._kind(plan.op)] = plan


_plans_of_adjoints: dict = {}  # few: by dtypes and numbers of operands


@scoped_trace
def adjoint_of(way, base: Geometry, view: Geometry) -> Op:
    """The op that takes the gradient of a view to that of its base (a dense one)."""
    key = way, base
    found = _adjoints.get(key)
    if found is None:
        root = base if base.is_dense else covering(base)

        def kernel(grad, *starts):
            of_root = struct(root)
            _, pull = jax.vjp(
                lambda x: way.read(x, *starts), jnp.zeros(of_root.shape, of_root.dtype)
            )
            return conj(pull(conj(grad.astype(view.dtype.numpy)))[0])

        derived = Derived("as_strided_backward", kernel, [TENSOR] + [SCALAR] * way.count)
        derived.runs_kernels, derived.result_dtypes = True, (base.dtype,)
        step = strided_steps.adjoint(way, root.shape, root.dtype)
        if step is not None:
            derived.known = _KnownAdjoint(view, root, step)
            derived.gradient_op = functools.partial(_part_of, way, view)
        found = Op(derived)
        if len(_adjoints) >= _MOST_ADJOINTS:
            for oldest in list(itertools.islice(_adjoints, _MOST_ADJOINTS // 8)):
                _adjoints.pop(oldest, None)
        _adjoints[key] = found
    return found


def _part_of(way, view: Geometry) -> Op:
    """The op that takes the gradient of an adjoint's result, a base's, to that of its operand: what the view reads of it."""

    def kernel(*operands):
        *starts, grad = operands
        return way.read(grad, *starts)

    read = strided_steps.reading(way)
    assert read is not None  # where there is a step for the adjoint, there is one for what it is the adjoint of
    derived = Derived("as_strided_backward_backward", kernel, [SCALAR] * way.count + [TENSOR])
    derived.runs_kernels, derived.result_dtypes = True, (view.dtype,)
    derived.known = Known((view.shape,), (view.dtype.numpy,), lambda arrays, numbers: (read(arrays, numbers)[0].copy(),))
    return Op(derived)


_adjoints: dict = {}


_MOST_ADJOINTS = 4096


def covering(g: Geometry) -> Geometry:
    """A one-dimensional geometry over everything that ``g`` reaches."""
    return geometry((g.expanse,), g.dtype, g.device)
