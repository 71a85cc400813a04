"""Host operators: their kernels take NumPy's arrays."""

from __future__ import annotations

import numpy as np

from ..core import device as _device
from ..core.errors import translate_error
from ..core.geometry import Size, geometry
from ..core.return_values import result_type
from ..memory.storage import KEPT_BYTES
from .call_checks import check_devices, check_required, check_unsigned, promotion_of
from .kernel_functions import KINDS, KernelFunction, Structure, laid_out
from .planning import OpPlan
from .stored_dtypes import dtype_of_result, stored_dtype


def host_plan(op, operands, static, geometries):
    """The plan of a host op that has run: for its derivative, which is an ordinary kernel."""
    definition = op.definition
    slots, tensors, scalars, names = laid_out(definition, operands, static)
    casts, numbers = promotion_of(op, definition, slots, tensors, scalars)
    types = [type(s) for s in scalars]
    fn = KernelFunction(definition, slots, casts, numbers, len(tensors), None)
    plan = OpPlan(fn, tuple(geometries), "".join(KINDS[t] for t in types), op.name,
                  geometries[0].device, is_single=len(geometries) == 1)
    plan.op, plan.static, plan.raw = op, static, fn
    plan.inputs = tuple(t._ftorch_geometry for t in tensors)
    plan.structure = Structure(slots, static, types, names)
    plan.differentiable, plan.checks, plan.backwards = True, None, {}
    plan.scalar_types, plan.inplace = types, False
    plan.result_type = result_type(definition)
    return plan


def run_host(op, operands, static, to_numpy):
    """Runs a kernel that takes NumPy arrays: (arrays, geometries)."""
    definition = op.definition
    slots, tensors, scalars, _ = laid_out(definition, operands, static)
    check_required(op, definition, slots, scalars)
    device = check_devices(op, tensors) or _device.resolve(None)
    casts, numbers = promotion_of(op, definition, slots, tensors, scalars)
    check_unsigned(definition, slots, tensors, casts)
    fn = KernelFunction(definition, slots, casts, numbers, len(tensors), None)
    try:
        results = fn(*map(to_numpy, tensors), *scalars)
    except MemoryError as error:
        raise translate_error(error) from None
    if not isinstance(results, tuple):
        results = (results,)
    arrays, geometries = [], []
    stored = stored_dtype(op, slots, tensors, casts)
    results = [np.asarray(r) for r in results]
    strides = [None] * len(results)
    if callable(definition.layout):
        strides = definition.layout([t._ftorch_geometry for t in tensors], static, [r.shape for r in results])
    for r, stride in zip(results, strides, strict=True):
        geometries.append(geometry(Size(r.shape), dtype_of_result(r.dtype, stored), device, stride))
        arrays.append(r if device is _device.CPU and r.nbytes <= KEPT_BYTES else _device.put(r, device))
    return arrays, geometries
