"""Derivatives of size classes: what the gradients of all plans of a class have in common (`runtime.size_classes`).

The gradients of a class are a class themselves, whose derivatives are found in the same way: a second derivative at a new
size traces nothing either.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax

from ..call import class_plans, kernel_functions, planning
from ..call.op import Op
from ..core.device import CPU
from ..core.registry import OPTIONAL_TENSOR
from ..core.suppressed_warnings import quiet
from ..memory.storage import Storage
from ..runtime import capture_trace
from ..runtime.size_classes import Instance, SizeClass, merged_at
from ..runtime.size_fit import NotGeneral
from ..tensor import PLAIN, wrap
from .derivative_kernels import Derivative, Derived, definition_of, struct

if TYPE_CHECKING:
    from .derivatives import Backward


class GradientClass:
    """The derivative of all plans of a size class, for one mask.

    Attributes:
        mask: which inputs have gradients.
        inputs, results: see `Derivative`.
        programs: {which gradients there are, types of numbers: what `size_classes.merged_at` gives, or None}.
        classes: {the same: the `ClassOfGradients`}.
        first: the `Backward` of one of the plans; the others' differ in what follows from sizes.
        plans: {which operands are tensors, types of numbers: a plan of one of the ops}.
        is_plain: whether nodes of all plans have the same name.
    """

    __slots__ = ("mask", "points", "fits", "inputs", "results", "is_general", "programs", "classes", "first", "plans",
                 "is_plain", "_plan_at", "_inline", "_samples")

    def __init__(self, of, plan_at, mask):
        points = list(of.points)
        self.mask, self.points, self.fits, self._plan_at = mask, points, of.fits, plan_at
        first = Derivative(plan_at(points[0]), mask)
        self._inline = not first.has_loops
        self._samples = {point: Derivative(plan_at(point), mask, inline=self._inline) for point in points[1:]}
        others = self._samples.values()
        # What only an inner call takes, which does not need it, counts as read where calls are not written out.
        if not first.has_loops and not _read_same(first, others):
            first = Derivative(plan_at(points[0]), mask, inline=True)
        self._samples[points[0]] = first
        self.inputs, self.results = first.inputs, first.results
        self.is_general = _read_same(first, others)
        self.programs: dict = {}
        self.classes: dict = {}
        self.first: Backward | None = None
        self.plans: dict = {}
        self.is_plain = False

    def _sample(self, point):
        """The `Derivative` at sample sizes.

        Raises:
            NotGeneral: it reads other operands.
        """
        found = self._samples.get(point)
        if found is None:
            found = Derivative(self._plan_at(point), self.mask, inline=self._inline)
            if (found.inputs, found.results) != (self.inputs, self.results):
                raise NotGeneral("other operands are read")
            self._samples[point] = found
        return found

    def program(self, slots, types):
        key = (tuple(slots), tuple(types))
        if key not in self.programs:
            points = list(self.points)
            try:
                self.programs[key] = merged_at(
                    points, lambda p, inline: self.trace(self._sample(p), slots, types, inline), self.fits
                )
                self.points = points  # with those that were wanted
            except Exception:  # noqa: BLE001  (a kernel may raise anything at sizes that are not a call's)
                self.programs[key] = None
        return self.programs[key]

    def as_class(self, slots, types):
        """The `ClassOfGradients` of a program."""
        key = (tuple(slots), tuple(types))
        found = self.classes.get(key)
        if found is None:
            found = self.classes[key] = ClassOfGradients(self, *self.programs[key][:2], slots, types)
        return found

    def plan_of(self, one, point):
        """The plan of the gradients at sample sizes.

        Args:
            one: a `ClassOfGradients`.
        """
        sample, types = self._sample(point), one.types
        given = self._given(sample, len(types))
        operands = [
            wrap(Storage(given[k])) if slot[0] == "t" else types[slot[1]](1) if slot[0] == "s" else None
            for k, slot in enumerate(one.slots)
        ]
        at = Instance(one, point, one.program.result_shapes(point), one.program.evaluate(point))
        return planning.build(Op(definition_of(sample)), operands, (), by_class=False, at=at)

    def _given(self, sample, count):
        """The geometries of the operands, None for each of ``count`` numbers."""
        saved = [sample.plan.inputs[i] for i in self.inputs] + [sample.plan.geometries[j] for j in self.results]
        return [*saved, *[None] * count, *sample.plan.geometries]

    def trace(self, sample, slots, types, inline):
        """(closed jaxpr, whether there is one gradient) of a `Derivative`."""
        given = self._given(sample, len(types))
        structs = [struct(given[k]) for k, slot in enumerate(slots) if slot[0] == "t"]
        definition = Derived("", sample, [OPTIONAL_TENSOR] * len(slots))
        with capture_trace.unwatched(), jax.disable_jit(inline):
            return kernel_functions.trace_kernel(definition, slots, {}, {}, structs, types)


def _read_same(one, others):
    return all(o.inputs == one.inputs and o.results == one.results for o in others)


class KnownGradients:
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
        made = Instance(
            like.instance.of, at.sizes, program.result_shapes(at.sizes), program.evaluate(at.sizes), adopted=at.adopted
        )
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
        found = of.program(slots, types)
        if found is None:
            return None
        program, is_single, inline = found
        if base.adopted is not None and not self._is_right(program, base, slots, types, inline):
            return None
        return Instance(
            of.as_class(slots, types), base.sizes, program.result_shapes(base.sizes),
            program.evaluate(base.sizes), adopted=base.adopted,
        )

    def _is_right(self, program, base, slots, types, inline):
        """Whether the class's program is right where some sizes are equal by chance (see `size_classes.Adopted`)."""
        known, plan, of = base.adopted.derivatives, self.base, self.of
        key = of, tuple(slots), tuple(types)
        if key not in known:
            try:
                own = Derivative(plan, of.mask, of)
                known[key] = program.is_at(of.trace(own, slots, types, inline)[0], base.sizes)
            except Exception:  # noqa: BLE001  (it is raised when the derivative is planned by itself)
                known[key] = False
        return known[key]


class ClassOfGradients:
    """What `size_classes.SizeClass` is for calls: gradients of a class for one set of operands. They have derivatives, too."""

    __slots__ = ("of", "program", "is_single", "slots", "types", "backwards")

    def __init__(self, of, program, is_single, slots, types):
        self.of, self.program, self.is_single, self.slots, self.types = of, program, is_single, slots, types
        self.backwards: dict = {}

    @property
    def points(self):
        return self.of.points

    @property
    def fits(self):
        return self.of.fits

    def plan_at(self, point):
        """The plan of a sample."""
        with quiet():
            return self.of.plan_of(self, point)


def class_of(plan, mask) -> GradientClass | None:
    """The derivative's class, if the plan's sizes are those of a general class."""
    instance = plan.instance
    if instance is None or instance.dtype is not None or not isinstance(instance.of, (SizeClass, ClassOfGradients)):
        return None
    one, definition = instance.of, plan.op.definition
    if definition.make_gradients is not None:
        return None
    # A class's samples are on the CPU: what is saved there may be other operands than on an accelerator.
    if plan.device is not CPU and (definition.backward is None or definition.backend_derivatives):
        return None
    if mask not in one.backwards:
        try:
            plan_at = functools.partial(planning.sample, plan) if isinstance(one, SizeClass) else one.plan_at
            found = GradientClass(one, plan_at, mask)
            one.backwards[mask] = found if found.is_general else None
        except Exception:  # noqa: BLE001  (see `GradientClass.program`)
            one.backwards[mask] = None
    return one.backwards[mask]
