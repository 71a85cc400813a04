"""How a call becomes a `Plan`: argument checks, dtype promotion, shapes. Runs once per kind of call."""

from __future__ import annotations

import contextlib
import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import Size, channels_last_stride, geometry, is_channels_last
from ..core.quiet import quiet
from ..core.registry import OPTIONAL_TENSOR, SCALAR, STATIC, TENSOR
from ..core.return_values import result_type
from ..kernels._common import check_fits, converted
from ..memory import host_memory
from ..memory.storage import KEPT_BYTES, Storage
from ..runtime import size_classes
from ..runtime.capture_trace import unwatched
from ..runtime.executor import COMPLEX, FLOAT, INT, Plan, record, translate_error, weak
from ..runtime.plan import remember
from ..runtime.value_checks import bind_checks, give, notices_of, static_value
from ..tensor import TensorBase, wrap
from . import unsigned
from .argument_types import check_arguments, public_name, type_name, wrong_call
from .operands import check_number, hashable
from .promotion import (
    broadcast_shape,
    pointwise_stride,
    preserved,
    result_type_of,
)
from .size_errors import raise_early

_KIND = {bool: INT, int: INT, float: FLOAT, complex: COMPLEX}


class OpPlan(Plan):
    """A plan of an op call.

    Attributes:
        operands: the structure of the operands (`_Structure`).
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


# --- building ------------------------------------------------------------------------


class Structure:
    """Where each flat tensor and scalar operand of a call goes in the kernel's arguments."""

    __slots__ = ("slots", "static", "kinds", "tensor_names")

    def __init__(self, slots, static, kinds, tensor_names):
        self.slots = slots  # per argument: ("t", i) ("s", i) ("l", [i or None]) ("n",) ("v", value)
        self.static = static
        self.kinds = kinds
        self.tensor_names = tensor_names


def _layout_arguments(definition, operands, static):
    """Spreads operands and static values over the schema's arguments."""
    operands, static = iter(operands), iter(static)
    slots, tensors, scalars, names = [], [], [], []
    for i, kind in enumerate(definition.kinds):
        name = definition.argument_names[i]
        if kind == STATIC:
            slots.append(("v", next(static)))
            continue
        o = next(operands)
        if o is None:
            default = definition.schema.arguments[i].default if kind == SCALAR else None
            slots.append(("n",) if default is None else ("v", default))
        elif isinstance(o, (list, tuple)):
            indices = []
            for t in o:
                if t is None:
                    indices.append(None)
                else:
                    indices.append(len(tensors))
                    tensors.append(t)
                    names.append(name)
            slots.append(("l", tuple(indices)))
        elif isinstance(o, TensorBase):
            if kind == SCALAR:
                check_number(o, definition.name, definition.schema.arguments[i])
            slots.append(("t", len(tensors)))
            tensors.append(o)
            names.append(name)
        else:
            slots.append(("s", len(scalars)))
            scalars.append(o)
    return slots, tensors, scalars, names


class MixedDevices(RuntimeError):
    """Tensors of the CPU beside some over several devices (`device.over`): they are put there.

    Attributes:
        device: the latter.
    """

    def __init__(self, text, device):
        super().__init__(text)
        self.device = device


def _check_devices(op, tensors):
    device, first_zero = None, False
    for t in tensors:
        g = t._ftorch_geometry
        if device is None or (g.device is not device and not g.is_zero_dim):
            if device is not None and not first_zero:
                text = (
                    f"Expected all tensors to be on the same device, but found at least two devices, {device} and "
                    f"{g.device}!"
                )
                for several, other in ((device, g.device), (g.device, device)):
                    if other is _device.CPU and _device.is_several(several):
                        raise MixedDevices(text, several)
                raise RuntimeError(text)
            device, first_zero = g.device, g.is_zero_dim
    return device


def build(op, operands, static, by_class=True) -> OpPlan:
    """The plan of a call: see the module.

    Args:
        by_class: whether the results' shapes may come from the call's size class.
    """
    definition = op.definition
    slots, tensors, scalars, names = _layout_arguments(definition, operands, static)
    _check_required(op, definition, slots, scalars)
    device = _check_devices(op, tensors) or _device.resolve(None)
    types = [type(s) for s in scalars]
    check_arguments(op, slots, tensors, types)
    casts, number_dtype = _promotion(op, definition, slots, tensors, scalars)
    _check_unsigned(definition, slots, tensors, casts)
    raw, fn = make_function(definition, slots, casts, number_dtype, len(tensors), types, device)
    plan = OpPlan(fn, (), "".join(_KIND[t] for t in types), op.name, device)

    notices = notices_of(definition, slots, tensors) if definition.notices else ()

    def trace():
        shaped = [jax.ShapeDtypeStruct(t._ftorch_geometry.shape, t._ftorch_geometry.dtype.numpy) for t in tensors]
        with unwatched() if definition.runs_kernels else contextlib.nullcontext():
            return _abstract(fn, shaped, plan.scalars)

    def check():
        dtypes = [_SCALAR_STRUCT[kind].dtype for kind in plan.scalars]
        raise_early(fn, [t._ftorch_geometry for t in tensors], dtypes, trace)

    try:
        known = None
        if by_class:
            known = _known_results(op, slots, tensors, types, casts, number_dtype, device, check)
        if known is not None:
            plan.instance, (results, plan.is_single) = known, known.results()
        else:
            results, plan.is_single = trace()
    except Exception as error:
        give(notices)
        raise translate_error(error, op.name) from None
    stored = _stored_dtype(op, slots, tensors, casts)
    plan.geometries = _result_geometries(definition, results, tensors, device, stored, slots)
    if tensors:  # else it is known later where the result is to be
        _check_memory(plan.geometries, device)
    if stored is not None or any(g.dtype.stored for g in plan.geometries):
        plan.fn = _storing(fn, [g.dtype for g in plan.geometries])
    plan.geometry = plan.geometries[0] if plan.geometries else None
    plan.element = _element(definition, plan)
    plan.op, plan.static = op, static
    plan.inputs = tuple(t._ftorch_geometry for t in tensors)
    plan.structure = Structure(slots, static, types, names)
    plan.differentiable = definition.differentiable and any(
        g.dtype.category >= 2 for g in plan.geometries
    )
    plan.checks = bind_checks(definition, slots, _fitting(definition, slots, types, plan.geometry), notices)
    plan.result_type = None if plan.is_single else result_type(definition)
    plan.backwards = {}
    plan.scalar_types = types
    plan.raw = raw
    plan.inplace = False
    return plan


def _known_results(op, slots, tensors, types, casts, number_dtype, device, check):
    """The `size_classes.Instance` of a call whose results' shapes need no tracing, or None.

    Args:
        check: raises errors about sizes that the kernel finds before it computes.
    """
    definition = op.definition
    if device is not _device.CPU or not definition.runs_kernels:
        return None
    if definition.known is not None:
        return definition.known.instance(slots, tensors, types)
    found = size_classes.signature(slots, tensors, types)
    if found is None or not found.sizes:
        check()
        return None
    known = op.classes.known(found)
    if known is not None:
        return known
    check()

    def trace(sizes):
        shapes, at = size_classes.at_sizes(found.key, sizes)
        structs = [jax.ShapeDtypeStruct(shape, dtype.numpy) for dtype, shape in shapes]
        with unwatched():
            return trace_kernel(definition, at, casts, number_dtype, structs, types)

    return op.classes.find(found, trace)


def trace_kernel(definition, slots, casts, numbers, structs, types):
    """(closed jaxpr of a call's kernel on the CPU, whether there is one result)."""
    _, fn = make_function(definition, slots, casts, numbers, len(structs), types, _device.CPU)
    return size_classes.traced(fn, structs, "".join(_KIND[t] for t in types), weak, _SCALAR_STRUCT)


def samples(plan) -> list[OpPlan]:
    """Plans of the same call at the sample points of the plan's size class."""
    one = plan.instance.of
    if one.samples is None:
        with quiet():
            one.samples = [_sample(plan, one.key, point) for point in one.points]
    return one.samples


def _sample(plan, key, point):
    shapes, slots = size_classes.at_sizes(key, point)
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
    return build(plan.op, operands, tuple(static), by_class=False)


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
    if dtype.stored:
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


def _check_required(op, definition, slots, scalars):
    for i, (kind, slot) in enumerate(zip(definition.kinds, slots)):
        is_number = slot[0] == "s" and kind in (TENSOR, OPTIONAL_TENSOR)
        if (kind == TENSOR and slot[0] == "n") or (is_number and i not in definition.numbers):
            given = type(scalars[slot[1]]).__name__ if is_number else "NoneType"
            raise wrong_call(
                f"{op.name}(): argument '{public_name(definition.argument_names[i])}' "
                f"(position {i + 1}) must be Tensor, not {given}"
            )
    if definition.numbers and not any(s[0] == "t" for s in slots) and op.name not in _ARITHMETIC:
        given = ", ".join(type_name(v) for v in scalars)
        raise TypeError(
            f"{op.name}() received an invalid combination of arguments - got ({given}), but expected "
            f"one of:\n * (Tensor input, Tensor other)\n * (Tensor input, Number other)\n"
        )


_ARITHMETIC = ("add", "sub", "mul", "div", "floor_divide")  # all their arguments may be numbers


def _promotion(op, definition, slots, tensors, scalars):
    """({flat tensor index: dtype to cast to}, {flat scalar index: dtype})."""
    casts, numbers = {}, {}
    if definition.promote is None:
        # A number where the kernel wants a tensor becomes one of its default dtype.
        for kind, slot in zip(definition.kinds, slots):
            if slot[0] == "s" and kind in (TENSOR, OPTIONAL_TENSOR):
                numbers[slot[1]] = _dtype.from_python(type(scalars[slot[1]]))
        return casts, numbers
    taking = []
    for i in definition.promoting:
        slot = slots[i]
        if slot[0] == "t":
            taking.append((0, slot[1]))
        elif slot[0] == "s":
            taking.append((1, slot[1]))
        elif slot[0] == "l":
            taking.extend((0, j) for j in slot[1] if j is not None)
    values = [scalars[j] if is_scalar else tensors[j] for is_scalar, j in taking]
    common = result_type_of(values)
    if definition.promote == "float" and common.category < 2:
        common = _dtype.get_default_dtype()
    for is_scalar, j in taking:
        (numbers if is_scalar else casts)[j] = common
    if definition.precise is not None and common.itemsize == 2 and common.category == 2:
        tag, j = slots[definition.precise]
        if tag == "s":
            numbers[j] = _dtype.float32
        elif tensors[j]._ftorch_geometry.is_zero_dim and tensors[j]._ftorch_geometry.dtype is not common:
            casts[j] = _dtype.float32
    broadcast_shape([tensors[j]._ftorch_geometry.shape for is_scalar, j in taking if not is_scalar])
    for i, slot in enumerate(slots):
        if slot[0] == "s" and definition.kinds[i] in (TENSOR, OPTIONAL_TENSOR):
            numbers.setdefault(slot[1], common)
    return casts, numbers


def _check_unsigned(definition, slots, tensors, casts):
    if any(t._ftorch_geometry.dtype in unsigned.WIDE for t in tensors) or any(
        s[0] == "v" and isinstance(s[1], _dtype.dtype) and s[1] in unsigned.WIDE for s in slots
    ):
        unsigned.check(definition, slots, tensors, next(iter(casts.values()), None))


def make_function(definition, slots, casts, numbers, tensor_count, scalar_types, device):
    """(raw, fn): the kernel as a function of flat operands.

    ``raw(arrays, scalars)`` gives the kernel's arguments (cast as promotion says); ``fn(*operands)``
    its results.
    """
    kernel = definition.kernel
    if definition.backend_kernels and device is not None and not _device.is_several(device):
        kernel = definition.backend_kernels.get(device.type, kernel)
    casts = {i: d.numpy for i, d in casts.items()}
    numbers = {i: d.numpy for i, d in numbers.items()}

    def arguments(arrays, scalars):
        cast = [
            converted(a, casts[i]) if i in casts and a.dtype != casts[i] else a
            for i, a in enumerate(arrays)
        ]
        out = []
        for slot in slots:
            tag = slot[0]
            if tag == "t":
                out.append(cast[slot[1]])
            elif tag == "v":
                out.append(static_value(slot[1]))
            elif tag == "n":
                out.append(None)
            elif tag == "l":
                out.append([None if j is None else cast[j] for j in slot[1]])
            else:
                number = scalars[slot[1]]
                to = numbers.get(slot[1])
                out.append(number if to is None else jnp.asarray(number).astype(to))
        return out

    keywords = definition.keywords
    positional = len(slots) - len(keywords)

    def fn(*operands):
        given = arguments(operands[:tensor_count], operands[tensor_count:])
        if keywords:
            result = kernel(*given[:positional], **dict(zip(keywords, given[positional:])))
        else:
            result = kernel(*given)
        return tuple(result) if isinstance(result, list) else result

    return arguments, fn


_SCALAR_STRUCT = {
    INT: jax.ShapeDtypeStruct((), np.int64), FLOAT: jax.ShapeDtypeStruct((), np.float64),
    COMPLEX: jax.ShapeDtypeStruct((), np.complex128),
}


def _abstract(fn, shaped, kinds):
    """Result shapes and dtypes, and whether there is just one result."""

    def weakened(*operands):
        count = len(shaped)
        return fn(*operands[:count], *(weak(v, k) for v, k in zip(operands[count:], kinds)))

    results = jax.eval_shape(weakened, *shaped, *(_SCALAR_STRUCT[k] for k in kinds))
    if isinstance(results, tuple):
        return results, False
    return (results,), True


# What can be done with tensors of dtypes that have no arithmetic.
_OF_SHELLS = frozenset("empty empty_strided empty_like clone detach alias".split())


def _stored_dtype(op, slots, tensors, casts):
    """The dtype without a JAX one of its own that the results have, or None."""
    asked = [s[1] for s in slots if s[0] == "v" and isinstance(s[1], _dtype.dtype)]
    given = [t._ftorch_geometry.dtype for t in tensors]
    for d in (*given, *asked):
        if d.is_shell and op.name not in _OF_SHELLS:
            raise NotImplementedError(f"\"copy_\" not implemented for '{d.scalar_name}'")
    if asked or casts:
        found = (*asked, *casts.values())[0]
        return found if found.stored else None
    if any(d.is_complex for d in given):  # complex32 and complex64 are the same to JAX
        common = functools.reduce(_dtype._promote, given)
        return common if common.stored else None
    if op.name == "complex" and given[0] is _dtype.float16:
        return _dtype.complex32
    return next((d for d in given if d.stored), None)


def _dtype_of_result(numpy_dtype, stored):
    if stored is not None:
        if numpy_dtype == stored.numpy:
            return stored
        if stored is _dtype.complex32 and numpy_dtype == np.float32:
            return _dtype.float16
    return _dtype.from_numpy(numpy_dtype)


def as_stored(array, dtype):
    """An array in the dtype that stands in for a tensor's, with its precision."""
    array = array.astype(dtype.numpy)
    if dtype is _dtype.complex32:  # a cast there and back could be optimized away
        return jax.lax.complex(*(jax.lax.reduce_precision(p, 5, 10) for p in (array.real, array.imag)))
    return array


def _storing(fn, dtypes):
    def storing(*operands):
        results = fn(*operands)
        if isinstance(results, tuple):
            return tuple(map(as_stored, results, dtypes))
        return as_stored(results, dtypes[0])

    return storing


def _result_geometries(definition, results, tensors, device, stored, slots):
    geometries = []
    inputs = [t._ftorch_geometry for t in tensors]
    follows = definition.promote is not None or definition.layout == "pointwise"
    keeps = definition.layout == "preserve" and inputs[0].is_dense
    declared = getattr(definition, "result_dtypes", None)
    channels = definition.layout == "channels" and any(map(is_channels_last, inputs[:2]))
    dtypes = declared or [_dtype_of_result(r.dtype, stored) for r in results]
    if callable(definition.layout):
        static = {n: s[1] for n, s in zip(definition.argument_names, slots, strict=True) if s[0] == "v"}
        strides = definition.layout(inputs, static, [tuple(r.shape) for r in results])
        return tuple(
            geometry(Size(r.shape), dtype, device, stride)
            for r, dtype, stride in zip(results, dtypes, strides, strict=True)
        )
    for r, dtype in zip(results, dtypes, strict=True):
        shape = Size(r.shape)
        stride = inputs[0].stride if keeps and shape == inputs[0].shape else None
        if (follows or definition.layout == "preserve") and stride is None and shape and not all(
            g.is_contiguous for g in inputs
        ):
            if all(_broadcasts_to(g.shape, shape) for g in inputs):
                stride = pointwise_stride(shape, inputs)
        if channels and len(shape) == inputs[0].ndim:
            stride = channels_last_stride(shape)
        geometries.append(geometry(shape, dtype, device, stride))
    return tuple(geometries)


def _broadcasts_to(shape, target):
    gap = len(target) - len(shape)
    return gap >= 0 and all(n in (1, target[gap + i]) for i, n in enumerate(shape))


_RESIZING = frozenset({"addbmm"})  # in place, the first operand takes the shape of the result


def build_inplace(op, operands, static) -> OpPlan:
    """The plan of an in-place call: the result in the first operand's dtype and shape.

    One of another shape has the plan of an ordinary call (`outputs.write_resized` makes it).

    Raises:
        RuntimeError: if it does not fit (PyTorch's words).
    """
    plan = build(op, operands, static)
    target, result = operands[0]._ftorch_geometry, plan.geometry
    definition = op.definition
    if definition.promote is not None and not _dtype.can_cast(result.dtype, target.dtype):
        raise RuntimeError(
            f"result type {result.dtype.scalar_name} can't be cast to the desired output type "
            f"{target.dtype.scalar_name}"
        )
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

    kinds = "".join(_KIND[type(s)] for s in scalars)
    device = mutable[0]._ftorch_geometry.device
    geometries = tuple(
        t._ftorch_geometry if t._ftorch_geometry.is_dense else preserved(t._ftorch_geometry) for t in mutable
    )
    plan = Plan(step, geometries, kinds, getattr(fn, "__name__", "update"), device, is_single=False)
    plan.inputs = (*geometries, *(t._ftorch_geometry for t in inputs))
    return plan


def create(op, args, device, dtype, stride):
    """The storage of a creation op (see `ftorch.eager.call.op.create`)."""
    definition = op.definition
    operands, static = [], []
    for a, k in zip(args, definition.kinds):
        (static if k == STATIC else operands).append(a)
    device = _device.resolve(device)
    key = (*map(type, operands), *static, device, dtype, stride)
    try:
        plan = op.plans.get(key)
    except TypeError:  # a list
        plan = None
    if plan is None:
        static = hashable(static, definition)
        key = (*map(type, operands), *static, device, dtype, stride)
        plan = op.plans.get(key)
    if plan is None:
        if device is not _device.META:
            _device.to_jax(device)
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


# --- ops on the host -----------------------------------------------------------------


def host_plan(op, operands, static, geometries):
    """The plan of a host op that has run: for its derivative, which is an ordinary kernel."""
    definition = op.definition
    slots, tensors, scalars, names = _layout_arguments(definition, operands, static)
    casts, numbers = _promotion(op, definition, slots, tensors, scalars)
    types = [type(s) for s in scalars]
    raw, fn = make_function(definition, slots, casts, numbers, len(tensors), types, None)
    plan = OpPlan(fn, tuple(geometries), "".join(_KIND[t] for t in types), op.name,
                  geometries[0].device, is_single=len(geometries) == 1)
    plan.op, plan.static, plan.raw = op, static, raw
    plan.inputs = tuple(t._ftorch_geometry for t in tensors)
    plan.structure = Structure(slots, static, types, names)
    plan.differentiable, plan.checks, plan.backwards = True, None, {}
    plan.scalar_types, plan.inplace = types, False
    plan.result_type = result_type(definition)
    return plan


def run_host(op, operands, static, to_numpy):
    """Runs a kernel that takes NumPy arrays: (arrays, geometries)."""
    definition = op.definition
    slots, tensors, scalars, _ = _layout_arguments(definition, operands, static)
    _check_required(op, definition, slots, scalars)
    device = _check_devices(op, tensors) or _device.resolve(None)
    casts, numbers = _promotion(op, definition, slots, tensors, scalars)
    _check_unsigned(definition, slots, tensors, casts)
    raw, fn = make_function(
        definition, slots, casts, numbers, len(tensors), [type(s) for s in scalars], None
    )
    results = fn(*map(to_numpy, tensors), *scalars)
    if not isinstance(results, tuple):
        results = (results,)
    arrays, geometries = [], []
    stored = _stored_dtype(op, slots, tensors, casts)
    for r in results:
        r = np.asarray(r)
        geometries.append(geometry(Size(r.shape), _dtype_of_result(r.dtype, stored), device))
        arrays.append(r if device is _device.CPU and r.nbytes <= KEPT_BYTES else _device.put(r, device))
    return arrays, geometries
