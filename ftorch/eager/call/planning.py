"""Planning of calls: a `Plan` has the results' geometries and the function that computes them. Once per kind of call."""

from __future__ import annotations

import contextlib
import functools

import jax

from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import Size, geometry
from ..core.jax_scope import scoped_trace
from ..core.registry import STATIC, static_key
from ..core.return_values import result_type
from ..core.suppressed_warnings import quiet
from ..kernels._common import check_fits
from ..memory import host_memory
from ..memory.storage import Storage
from ..runtime import size_classes
from ..runtime.capture_trace import unwatched
from ..runtime.executor import COMPLEX, FLOAT, INT, Plan, record, translate_error
from ..runtime.plan import remember
from ..runtime.value_checks import bind_checks, give, notices_of
from ..tensor import PLAIN, wrap
from . import class_plans, result_layouts
from .argument_types import check_arguments
from .call_checks import check_devices, check_required, check_unsigned, promotion_of
from .kernel_functions import (
    KINDS,
    SCALAR_STRUCTS,
    KernelFunction,
    Structure,
    abstract_results,
    laid_out,
    regime_of,
    trace_kernel,
)
from .operands import hashable, holds_tensors
from .promotion import preserved, result_type_of
from .size_errors import raise_early, refuses, stand_ins
from .stored_dtypes import as_stored, dtype_of_result, in_stored_dtypes, stored_dtype


class OpPlan(Plan):
    """A plan of an op call.

    Attributes:
        structure: where its operands go (`kernel_functions.Structure`).
        differentiable: whether the results can require grad.
        checks: value checks to run before.
        result_type: the named tuple of several results.
    """

    __slots__ = ("differentiable", "checks", "result_type", "backwards", "structure", "scalar_types",
                 "inplace", "raw")

    def numbers(self, scalars):
        return numbers_of(self.scalars, scalars)

    def wrap_results(self, results):
        make = self.result_type
        return tuple(results) if make is None else make(results)


def numbers_of(kinds, scalars):
    """Python numbers as the executor packs them."""
    for k, v in zip(kinds, scalars):
        if k == INT and not -(1 << 63) <= v < 1 << 63:
            raise RuntimeError(
                "value cannot be converted to type int64_t without overflow"
            )
    return scalars


@scoped_trace
def build(op, operands, static, by_class=True, at=None) -> OpPlan:
    """The plan of a call: see the module.

    Args:
        by_class: whether the results' shapes may come from the call's size class. Otherwise it is a plan that nobody
            runs (see `sample`): its results may be larger than memory.
        at: the class at the call's sizes, if it is known.
    """
    definition = op.definition
    if by_class:
        if definition.known is not None:
            plan = definition.known.plan(op, operands)
        else:
            plan = class_plans.of_class(op, operands, static) if op.found else None
        if plan is not None:
            return plan
    slots, tensors, scalars, names = laid_out(definition, operands, static)
    types = [type(s) for s in scalars]
    signature = None
    if by_class and definition.known is None and definition.runs_kernels and all([t.__class__ in PLAIN for t in tensors]):
        signature = size_classes.signature(slots, tensors, types, regime_of(definition, slots, tensors))
    check_required(op, definition, slots, scalars)
    device = check_devices(op, tensors) or _device.resolve(None)
    check_arguments(op, slots, tensors, types)
    try:
        casts, number_dtype = promotion_of(op, definition, slots, tensors, scalars)
    except RuntimeError:
        if definition.notices:  # what is said of the operands comes before what is wrong with them
            give(notices_of(definition, slots, tensors))
        raise
    check_unsigned(definition, slots, tensors, casts)
    fn = KernelFunction(definition, slots, casts, number_dtype, len(tensors), device)
    plan = OpPlan(fn, (), "".join(KINDS[t] for t in types), op.name, device)

    notices = notices_of(definition, slots, tensors) if definition.notices else ()

    def trace():
        shaped = [jax.ShapeDtypeStruct(t._ftorch_geometry.shape, t._ftorch_geometry.dtype.numpy) for t in tensors]
        with unwatched() if definition.runs_kernels else contextlib.nullcontext():
            return abstract_results(fn, shaped, plan.scalars)

    def check():
        dtypes = [SCALAR_STRUCTS[kind].dtype for kind in plan.scalars]
        try:
            raise_early(fn, [t._ftorch_geometry for t in tensors], dtypes, trace)
        except Exception:
            if signature is not None and not signature.has_static and not definition.notices:
                class_plans.refuse(op, operands, static, fn, dtypes)
            raise

    try:
        known = None
        if by_class:
            known = _known_results(op, slots, tensors, types, casts, number_dtype, device, check, signature)
        if known is not None:
            plan.instance, (results, plan.is_single) = known, known.results()
        elif at is not None:
            results, plan.is_single = at.results()
        else:
            results, plan.is_single = trace()
    except Exception as error:
        give(notices)
        raise translate_error(error, op.name) from None
    stored = stored_dtype(op, slots, tensors, casts)
    plan.geometries = _result_geometries(definition, results, tensors, device, stored, slots)
    if tensors and by_class:  # without tensors it is known later where the result is to be
        _check_memory(plan.geometries, device)
    if stored is not None or any(g.dtype.stored for g in plan.geometries):
        plan.fn = in_stored_dtypes(fn, [g.dtype for g in plan.geometries])
    plan.geometry = plan.geometries[0] if plan.geometries else None
    plan.element = _element(definition, plan)
    plan.op, plan.static = op, static
    plan.inputs = tuple(t._ftorch_geometry for t in tensors)
    plan.structure = Structure(slots, static, types, names)
    plan.differentiable = definition.differentiable and any(
        g.dtype.category >= 2 for g in plan.geometries
    )
    fitting = _fitting(definition, slots, types, plan.geometry)
    plan.checks = bind_checks(definition, slots, fitting, notices, plan.inputs)
    plan.result_type = None if plan.is_single else result_type(definition)
    plan.backwards = {}
    plan.scalar_types = types
    plan.raw = fn
    plan.inplace = False
    if signature is not None and plan.instance is None and signature.sizes:
        op.classes.wait(signature, plan)
    if plan.instance is not None and stored is None and plan.fn is fn and not notices:
        if signature is None:
            if definition.known is not None:
                definition.known.keep(plan, operands)
        elif not ((has_static := signature.has_static) and _has_large_default(slots, static)):
            remade = _remade(plan, casts, number_dtype, fitting) if has_static else None
            class_plans.keep(plan, operands, static, signature, remade)
    return plan


def _has_large_default(slots, static):
    """Whether a default in the place of an argument counts as a size, which the call's own arguments do not show."""
    values = [slot[1] for slot in slots if slot[0] == "v"]
    return len(values) != len(static) and any(v.__class__ in (int, tuple) for v in values)


def _remade(like, casts, numbers, fitting):
    """(plan, static arguments, slots) -> None: makes what of a plan follows from sizes, see `class_plans.Model`."""
    definition, types, names = like.op.definition, like.scalar_types, like.structure.tensor_names

    def remade(plan, static, slots):
        plan.raw = plan.fn = KernelFunction(definition, slots, casts, numbers, len(plan.inputs), like.device)
        plan.static, plan.structure = static, Structure(slots, static, types, names)
        if definition.checks:
            plan.checks = bind_checks(definition, slots, fitting, (), plan.inputs)

    return remade


def _known_results(op, slots, tensors, types, casts, number_dtype, device, check, found):
    """The `size_classes.Instance` of a call whose results' shapes need no tracing, or None.

    Args:
        check: raises errors about sizes that the kernel finds before it computes.
        found: the call's signature, if it was asked for already.
    """
    definition = op.definition
    if not class_plans.has_classes(device) or not definition.runs_kernels:
        return None
    if definition.known is not None:
        return definition.known.instance(slots, tensors, types)
    if found is None:  # it was not asked for
        found = size_classes.signature(slots, tensors, types, regime_of(definition, slots, tensors))
    if found is None or not found.sizes:
        check()
        return None
    known = op.classes.known(found)
    if known is not None and not known.of.is_guarded:
        return known
    check()
    if known is not None:
        return known

    def trace(sizes, inline):
        shapes, at = size_classes.at_sizes(found.key, sizes)
        structs = [jax.ShapeDtypeStruct(shape, dtype.numpy) for dtype, shape in shapes]
        with unwatched(), jax.disable_jit(inline):
            return trace_kernel(definition, at, casts, number_dtype, structs, types)

    def fits(sizes):
        shapes, at = size_classes.at_sizes(found.key, sizes)
        return regime_of(definition, at, [jax.ShapeDtypeStruct(shape, dtype.numpy) for dtype, shape in shapes]) == regime

    def refused(sizes):
        shapes, at = size_classes.at_sizes(found.key, sizes)
        fn = KernelFunction(definition, at, casts, number_dtype, len(shapes), device)
        scalars = [SCALAR_STRUCTS[KINDS[t]].dtype for t in types]
        return refuses(fn, stand_ins([(shape, dtype.numpy) for dtype, shape in shapes], scalars))

    regime = found.regime
    known = op.classes.find(found, trace, None if regime is None else fits, refused)
    if op.classes.stale:
        _forget_stale(op)
    return known


def _forget_stale(op):
    """Sizes that came before their class had a program are planned anew when they come again: by the class."""
    stale, op.classes.stale = op.classes.stale, []
    for plans in (op.plans, op.inplace_plans):
        for key, plan in list(plans.items()):
            if any(plan is other for other in stale) and plan.compiled is None and not plan.pinned:
                plans.pop(key, None)


def sample(plan, point) -> OpPlan:
    """The plan of the same call at a sample point of the plan's size class."""
    one = plan.instance.of
    found = one.samples.get(point)
    if found is None:
        with quiet():
            found = one.samples[point] = _sample(plan, one, point)
    return found


def _sample(plan, one, point):
    shapes, slots = size_classes.at_sizes(one.key, point)
    tensors = [wrap(Storage(geometry(Size(shape), dtype, _device.CPU))) for dtype, shape in shapes]
    operands, static = [], []
    for kind, slot in zip(plan.op.definition.kinds, slots, strict=True):
        tag = slot[0]
        if kind == STATIC:
            static.append(slot[1])
        elif tag == "t":
            operands.append(tensors[slot[1]])
        elif tag == "l":
            operands.append([None if j is None else tensors[j] for j in slot[1]])
        elif tag == "s":
            operands.append(plan.scalar_types[slot[1]](1))
        else:
            operands.append(None)
    return build(plan.op, operands, tuple(static), by_class=False, at=size_classes.instance(one, point))


def _check_memory(geometries, device):
    if device is _device.CPU:
        for g in geometries:
            host_memory.check(g.shape, g.dtype)


def _element(definition, plan):
    """What each element of a plan's result is, where NumPy makes the same of it: see `OpDef.every`."""
    element = definition.element
    if element is None:
        return None
    dtype = plan.geometry.dtype
    if dtype.stored or dtype is _dtype.float8_e8m0fnu:  # whose least number stands for zero
        return None
    if element == "scalar" and (
        not plan.scalars or dtype.category < {INT: 0, FLOAT: 2, COMPLEX: 3}[plan.scalars]
        or (dtype.category == 2 and dtype.itemsize < 4)
    ):
        return None
    return element


def _fitting(definition, slots, types, result):
    """The checks that numbers fit into the dtype of the results; those that any number fits into have none."""
    found = []
    for name, halves, floats in definition.fitting:
        slot = slots[definition.argument_names.index(name)]
        if slot[0] != "s" or result.dtype.category in (0, 3):
            continue
        if result.dtype is _dtype.int64 and types[slot[1]] in (int, bool):  # `numbers_of` refuses those beyond
            continue
        if callable(halves):
            halves = halves(result)
        half = halves and result.dtype is _dtype.float16
        if floats and result.dtype.category == 2:
            half = result.dtype is _dtype.float32 or (halves and result.dtype.itemsize == 2)
        if half or result.dtype.category == 1 or types[slot[1]] is complex:
            # What takes numbers beyond float16 takes them as float32.
            wide = result.dtype.category == 2 and result.dtype.itemsize == 2 and not halves and not floats
            to = _dtype.float32 if wide else result.dtype
            check = functools.partial(check_fits, dtype=to, halves=halves)
            found.append(((slot,), check, False))
    return found


def _result_geometries(definition, results, tensors, device, stored, slots):
    dtypes = getattr(definition, "result_dtypes", None) or [
        dtype_of_result(r.dtype, stored) for r in results
    ]
    inputs = [t._ftorch_geometry for t in tensors]
    return result_layouts.geometries(
        definition, [r.shape for r in results], dtypes, inputs, device, slots
    )


_RESIZING = frozenset({"addbmm"})  # in place, the first operand takes the shape of the result


def _check_castable(found, wanted):
    if not _dtype.can_cast(found, wanted):
        raise RuntimeError(
            f"result type {found.scalar_name} can't be cast to the desired output type {wanted.scalar_name}"
        )


@scoped_trace
def build_inplace(op, operands, static) -> OpPlan:
    """The plan of an in-place call: the result in the first operand's dtype and shape.

    One of another shape has the plan of an ordinary call (`outputs.write_resized` makes it).

    Raises:
        RuntimeError: if it does not fit (PyTorch's words).
    """
    target = operands[0]._ftorch_geometry
    if op.name in _IN_OWN_DTYPE and target.device is not _device.META:
        static = _in_own_dtype(target.dtype, *static)
    definition = op.definition
    try:
        plan = build(op, operands, static)
    except NotImplementedError:
        if definition.promote is not None:  # PyTorch asks for the place of the result before it looks for a kernel
            aside = [name for name, *_ in definition.fitting]  # factors, which do not promote
            dynamic = [name for name, kind in zip(definition.argument_names, definition.kinds) if kind != STATIC]
            found = result_type_of([o for o, name in zip(operands, dynamic) if name not in aside])
            _check_castable(found if definition.promote != "float" or found.category > 1 else _dtype.get_default_dtype(),
                            target.dtype)
        raise
    result = plan.geometry
    if definition.promote is not None:
        _check_castable(result.dtype, target.dtype)
    if result.shape != target.shape and op.name not in _RESIZING:
        raise RuntimeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    if result is not target and result.shape == target.shape:
        inner, to = plan.fn, target.dtype
        if result.dtype is not to:
            plan.fn = lambda *operands: as_stored(inner(*operands), to)
            plan.instance = plan.instance and plan.instance.cast(to)
        dense = target if target.is_dense else preserved(target)
        plan.geometries, plan.geometry = (dense,), dense
    plan.inplace = True
    return plan


_IN_OWN_DTYPE = frozenset({"cumsum", "cumprod"})


def _in_own_dtype(own, dim, dtype):
    """The static arguments of a scan in place, which computes in the dtype of what it writes to."""
    if dtype is not None and dtype is not own:
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {own.c_name} and output tensor dtype {dtype.c_name} should match"
        )
    return dim, own


@scoped_trace
def build_update(fn, mutable, inputs, scalars, static) -> Plan:
    """The plan of `fused_update`."""
    count, total = len(mutable), len(mutable) + len(inputs)

    def step(*operands):
        return tuple(
            new.astype(old.dtype)
            for new, old in zip(
                fn(list(operands[:count]), list(operands[count:total]), list(operands[total:]),
                   *static), operands[:count],
            )
        )

    kinds = "".join(KINDS[type(s)] for s in scalars)
    device = mutable[0]._ftorch_geometry.device
    geometries = tuple(
        t._ftorch_geometry if t._ftorch_geometry.is_dense else preserved(t._ftorch_geometry) for t in mutable
    )
    plan = Plan(step, geometries, kinds, getattr(fn, "__name__", "update"), device, is_single=False)
    plan.inputs = (*geometries, *(t._ftorch_geometry for t in inputs))
    return plan


@scoped_trace
def create(op, args, device, dtype, stride):
    """The storage of a creation op (see `ftorch.eager.call.op.create`)."""
    definition = op.definition
    operands, static = [], []
    for a, k in zip(args, definition.kinds):
        (static if k == STATIC else operands).append(a)
    device = _device.resolve(device)
    static = static_key(tuple(static))
    key = (*map(type, operands), *static, device, dtype, stride)
    try:
        plan = op.plans.get(key)
    except TypeError:  # a list
        plan = None
        static = hashable(static, definition)
        key = (*map(type, operands), *static, device, dtype, stride)
        plan = op.plans.get(key)
    if plan is None:
        if holds_tensors(static):  # sizes that are tensors
            static = hashable(static, definition)
            key = (*map(type, operands), *static, device, dtype, stride)
        if device is not _device.META:
            _device.to_jax(device)
        plan = None
        if op.found and class_plans.in_c is not None and _device.resolve(None) is _device.CPU:
            plan = class_plans.in_c.plan_without_tensors(op, (*map(type, operands), static))
        if plan is None:
            plan = build(op, operands, static)
        _check_memory(plan.geometries, device)
        if plan.device is not device or stride is not None or (
            dtype is not None and plan.geometry.dtype is not dtype
        ):
            inner = plan.fn
            if dtype is not None and plan.geometry.dtype is not dtype:
                plan.fn = lambda *numbers: as_stored(inner(*numbers), dtype)
                plan.instance = plan.instance and plan.instance.cast(dtype)
            g = plan.geometry
            g = geometry(g.shape, dtype or g.dtype, device, stride)
            plan.device, plan.geometry, plan.geometries = device, g, (g,)
        remember(op.plans, key, plan)
    return record(plan, (), plan.numbers(operands))
