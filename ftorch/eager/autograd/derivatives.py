"""Derivatives of ops as ops."""

from __future__ import annotations

import itertools
import re

import jax
import jax.numpy as jnp

from ..call.op import Op
from ..core.geometry import Geometry, channels_last_stride, geometry, is_channels_last
from ..core.registry import SCALAR, TENSOR
from ..runtime import strided_steps
from .derivative_classes import KnownGradients, class_of
from .derivative_kernels import Derivative, Derived, Known, conj, definition_of, is_inexact, struct
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


def of_plan(plan, mask, node_class) -> Backward:
    """The derivative of a plan, with respect to the inputs of the mask."""
    mask = tuple([m and is_inexact(g.dtype) for m, g in zip(mask, plan.inputs)])
    definition = plan.op.definition
    if definition.gradient_op is not None and mask == (True,):
        return Backward(definition.gradient_op, mask, [], (True,), node_class(node_name(definition, plan)), plan)
    layout = _layout_of(plan)
    found = class_of(plan, mask) if layout is None else None
    if found is not None and found.first is not None:
        return _of_class(plan, found, node_class)
    made = Derivative(plan, mask, found)
    derived = definition_of(made)
    if layout is not None:
        derived.layout = layout
    if found is not None:
        derived.known = KnownGradients(found, plan)
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
    derived = first.op.definition.at(Derivative(plan, first.mask, found), KnownGradients(found, plan))
    backward = object.__new__(Backward)
    backward.op, backward.plan = Op(derived), plan
    backward.mask, backward.wanted, backward.saved = first.mask, first.wanted, first.saved
    backward.differentiable, backward.first = first.differentiable, first.first
    by_call = is_named_by_call(definition)
    backward.node_class = node_class(node_name(definition, plan)) if by_call else first.node_class
    return backward


def adjoint_of(way, base: Geometry, view: Geometry) -> Op:
    """The op that takes the gradient of a view to that of its base (a dense one)."""
    key = ("adjoint", base)
    found = _adjoints.get((way, key))
    if found is None:
        root = base if base.is_dense else covering(base)
        of_root = struct(root)

        def kernel(grad, *starts):
            _, pull = jax.vjp(lambda x: way.read(x, *starts), jnp.zeros(of_root.shape, of_root.dtype))
            return conj(pull(conj(grad.astype(view.dtype.numpy)))[0])

        derived = Derived("as_strided_backward", kernel, [TENSOR] + [SCALAR] * way.count)
        derived.runs_kernels, derived.result_dtypes = True, (base.dtype,)
        step = strided_steps.adjoint(way, root.shape, root.dtype)
        if step is not None:
            derived.known = Known((root.shape,), (root.dtype.numpy,), step)
            derived.gradient_op = _part_of(way, view)
        found = Op(derived)
        if len(_adjoints) >= _MOST_ADJOINTS:
            for oldest in list(itertools.islice(_adjoints, _MOST_ADJOINTS // 8)):
                _adjoints.pop(oldest, None)
        _adjoints[(way, key)] = found
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
