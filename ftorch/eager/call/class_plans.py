"""Shape-polymorphic plans: where a call's size class was planned before, only what follows from sizes is new.

A call's outline says what its plan depends on besides sizes, as a `size_classes.Signature` does, but comes from the
operands as they are given: to lay them out over the schema's arguments, to look at dtypes and devices and to make the
kernel's function is what planning costs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import native
from ..core import device as _device
from ..core.errors import translate_error
from ..core.geometry import Geometry, Size, contiguous_stride, geometry
from ..core.jax_scope import scoped_trace
from ..memory import host_memory
from ..runtime import executor, size_classes
from ..runtime.size_classes import CHANGED, ORDERED
from ..tensor import PLAIN
from . import result_layouts
from .kernel_functions import SCALAR_STRUCTS, laid_out, regime_of
from .size_errors import raise_early, refuses, stand_ins

_new = object.__new__
_MOST = 1024  # of one op
_MOST_CASES = 64  # of one model: orders of sizes, sizes that stay
_BASIC = (None, "contiguous", "pointwise", "preserve")  # layouts that follow from dense operands' shapes alone


def outline(definition, operands, static):
    """(hashable key, sizes, geometries of the tensors) of a call; None if it has no class, or is not one of plain tensors of
    one device."""
    known: dict[int, Any] = {}
    key: list = []
    inputs: list[Geometry] = []
    exact, symbol, device = size_classes.EXACT_BELOW, size_classes.symbol, _device.CPU
    try:
        for o in operands:
            cls = o.__class__
            if cls in PLAIN:
                g = o._ftorch_geometry
                if g.device is not device and inputs:
                    return None
                device = g.device
                inputs.append(g)
                key.append((g.dtype, *[n if n < exact else known.get(n) or symbol(n, known) for n in g.shape]))
            elif cls is list or cls is tuple:
                key.append(len(o))
                for t in o:
                    if t is None:
                        key.append(None)
                    elif t.__class__ in PLAIN:
                        g = t._ftorch_geometry
                        if g.device is not device and inputs:
                            return None
                        device = g.device
                        inputs.append(g)
                        key.append((g.dtype, *[n if n < exact else known.get(n) or symbol(n, known) for n in g.shape]))
                    else:
                        return None
            else:
                key.append(o if o is None else cls)
        for value in static:
            key.append(size_classes.abstract(value, known))
    except OverflowError:
        return None
    if not inputs:
        device = _device.resolve(None)
    if device is not _device.CPU:
        if not has_classes(device):
            return None
        key.append(device)
    if definition.regime is not None:
        slots, tensors, _, _ = laid_out(definition, operands, static)
        key.append(regime_of(definition, slots, tensors))
    return tuple(key), tuple(known), inputs


def has_classes(device) -> bool:
    """Whether calls on a device have size classes: not where nothing is computed, nor where arrays have shardings."""
    return device is _device.CPU or (device.type != "meta" and not _device.is_several(device))


class Model:
    """A plan of a size class, after which others of the class are made.

    Attributes:
        plan: an `OpPlan`.
        signature: the key of its class; ``level``, ``fixed``: how the class's sizes are sampled (`size_classes`).
        cases: {order of sizes, or those that stay: the class}.
        is_basic: whether results of dense operands are contiguous.
        follows: whether the layout of results is that of an elementwise op's: 1, or 2 where there are numbers, too; 0.
        remade: (plan, static arguments, slots) -> None: makes what else of a plan follows from sizes; None: nothing does.
        has_static: whether sizes are among the static arguments.
        is_guarded: see `size_classes.SizeClass`.
    """

    __slots__ = (
        "plan",
        "signature",
        "level",
        "fixed",
        "cases",
        "is_basic",
        "follows",
        "dtypes",
        "remade",
        "has_static",
        "is_guarded",
    )

    def __init__(self, plan, signature, remade):
        self.plan = copied(
            plan, plan.inputs, plan.geometries, plan.instance
        )  # others go on with the plan itself
        self.signature, self.remade, self.has_static = signature.key, remade, signature.has_static
        self.is_guarded = plan.instance.of.is_guarded
        classes = plan.op.classes
        self.level, self.fixed = classes.level_of(signature)
        self.cases: dict = {}
        layout = plan.op.definition.layout
        self.is_basic = layout.is_basic if hasattr(layout, "is_basic") else not callable(layout) and layout in _BASIC
        self.follows = result_layouts.follows(plan.op.definition, plan.structure.slots)
        self.dtypes = [g.dtype for g in plan.geometries]

    def slots(self, static):
        """Of a call's arguments."""
        slots = self.plan.structure.slots
        if not self.has_static:
            return slots
        given = iter(static)
        return [("v", next(given)) if slot[0] == "v" else slot for slot in slots]

    def instance(self, sizes):
        """The class at the sizes of a call; None where it is not general for these."""
        if self.level == ORDERED:
            case: Any = tuple(sorted(range(len(sizes)), key=sizes.__getitem__))
        else:
            case = tuple([sizes[i] for i in self.fixed]) if self.level == CHANGED else None
        one = self.cases.get(case)
        if one is None:
            one = self.plan.op.classes.general_at(self.signature, sizes, self.level, self.fixed)
            if one is None:
                return None
            if len(self.cases) >= _MOST_CASES:
                self.cases.clear()
            self.cases[case] = one
        return size_classes.instance(one, sizes)


def keep(plan, operands, static, signature, remade) -> None:
    """Makes a plan the model of its class.

    Args:
        remade: see `Model`.
    """
    if plan.op.classes.level_of(signature)[1] is None:
        return
    found = outline(plan.op.definition, operands, static)
    if found is None or found[1] != signature.sizes or not plan.geometries:
        return
    models = plan.op.found
    model = Model(plan, signature, remade)
    before = models.get(found[0])
    if before.__class__ is not Model or (before.level, before.fixed) != (model.level, model.fixed):
        _remember(models, found[0], model)


def _remember(models, key, model):
    if len(models) >= _MOST:
        models.clear()
    models[key] = model


class _Refused(NamedTuple):
    """What raised the errors of a class of calls whose sizes do not fit: see `size_errors.raise_early`."""

    fn: Any
    scalars: list


def refuse(op, operands, static, fn, scalars) -> None:
    """Notes that a kernel's checks, which depend on sizes, have raised an error for a call."""
    found = outline(op.definition, operands, static)
    if found is not None:
        _remember(op.found, found[0], _Refused(fn, scalars))


def of_class(op, operands, static):
    """The plan of a call whose class was planned at other sizes, or None.

    Raises:
        RuntimeError: what the kernel says of the sizes, if it refused others of the class.
    """
    found = outline(op.definition, operands, static)
    if found is None:
        return None
    key, sizes, inputs = found
    model = op.found.get(key)
    if model is None:
        return None
    if model.__class__ is _Refused:
        try:
            _refused(model.fn, inputs, model.scalars, None)
        except Exception as error:
            raise translate_error(error, op.name) from None
        return None
    instance = model.instance(sizes)
    if instance is None:
        return None
    plan = copied(model.plan, tuple(inputs), result_geometries(model, instance, inputs, static), instance)
    if model.remade is not None:
        model.remade(plan, static, model.slots(static))
    if model.is_guarded:
        scalars = [SCALAR_STRUCTS[kind].dtype for kind in plan.scalars]
        if _refuses(plan.raw, stand_ins([(g.shape, g.dtype.numpy) for g in inputs], scalars)):
            return None
    return plan


_refused, _refuses = scoped_trace(raise_early), scoped_trace(refuses)


def result_geometries(model, instance, inputs, static):
    """Of a call's results, by its operands'.

    Raises:
        RuntimeError: there is not so much memory.
    """
    device = model.plan.device
    if model.is_basic and all([g.has_new_stride() for g in inputs]):
        return contiguous(inputs, instance.shapes, model.dtypes, device)
    definition = model.plan.op.definition
    found = result_layouts.geometries(definition, instance.shapes, model.dtypes, inputs, device, model.slots(static))
    for g in found if device is _device.CPU else ():
        if g.numel > UNCHECKED:
            host_memory.check(g.shape, g.dtype)
    return found


def contiguous(inputs, shapes, dtypes, device):
    """The contiguous geometries of results on a device, of which an input's may be one."""
    found = []
    for shape, dtype in zip(shapes, dtypes):
        for g in inputs:
            if g.shape == shape and g.dtype is dtype and g.is_dense and g.stride == contiguous_stride(shape):
                break
        else:
            g = geometry(tuple.__new__(Size, shape), dtype, device)
            # Without operands it is known later where the result is to be.
            if g.numel > UNCHECKED and inputs and device is _device.CPU:
                host_memory.check(g.shape, g.dtype)
        found.append(g)
    return tuple(found)


UNCHECKED = 1 << 16  # elements: so many always find memory


# Slots of a plan: those that all plans of a class share, and those of what a plan has when it ran.
SHARED = ("checks", "differentiable", "result_type", "device", "is_single", "scalars", "fn", "raw", "structure", "static",
          "name", "op", "element", "scalar_types", "inplace")
EMPTY = ("compiled", "backward", "extra", "host", "program", "writes", "compiling", "access")


def _copied(like, inputs, geometries, instance):
    """A plan that has not run, with the attributes of another that do not follow from sizes."""
    plan = _new(like.__class__)
    for name in SHARED:
        setattr(plan, name, getattr(like, name))
    if plan.checks is not None:
        plan.checks = plan.checks.fresh()
    for name in EMPTY:
        setattr(plan, name, None)
    plan.inputs, plan.geometries, plan.geometry, plan.instance = inputs, geometries, geometries[0], instance
    plan.backwards, plan.spent, plan.runs, plan.pinned = {}, 0.0, 0, False
    return plan


in_c = native.module if executor.DEFERRED else None
copied: Any = _copied if in_c is None else in_c.copied_plan
