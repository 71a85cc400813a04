"""Bindings of the fast path in C (``recorded_calls.cpp``): the classes and the state that it works on.

Calls of ops whose plans are known are recorded there, with their nodes, where nothing is special. Until this module is
imported, and where there is no compiler, `ftorch.eager.call.op` does all of it.
"""

from __future__ import annotations

from .. import native
from ..call import class_plans, planning
from ..call import op as _op
from ..call.kernel_functions import KernelFunction
from ..core import device as _device
from ..core import dtype as dtypes
from ..core.geometry import INTERNED, SWEEP_AT, Geometry, Size, geometry, part_of
from ..core.refcount import RELIABLE
from ..host.floating_errors import ignoring_errors
from ..memory import view
from ..memory.storage import Storage, newest_level, on_look
from ..runtime import (
    executor,
    host_tier,
    inplace_writes,
    plan,
    short_traces,
    trace_programs,
    value_checks,
)
from ..runtime.jaxpr_classes import EXACT_BELOW, ClassProgram
from ..runtime.size_classes import SYMBOLS, Instance, SizeClass
from ..runtime.trace import KEPT_ELEMENTS, OVERWRITTEN, Run, Trace, threads
from ..tensor import PLAIN, Extras, Tensor, VersionCounter, modes
from . import derivatives, nodes, tape
from .derivative_classes import ClassOfGradients, GradientClass, KnownGradients

# Classes and their slots, in the order of `Slot` in ``recording.h``.
_SLOTS = (
    (_op.Op, "plans inplace_plans alternative exclusive found definition"),
    (planning.OpPlan, " ".join((*class_plans.SHARED, *class_plans.EMPTY)) + " inputs geometries geometry instance backwards "
     "spent runs pinned table key"),
    (class_plans.Model, "plan level fixed cases is_basic follows dtypes remade is_guarded"),
    (Instance, "of sizes shapes numbers dtype adopted"),
    (SizeClass, "program backwards"),
    (ClassOfGradients, "program backwards"),
    (GradientClass, "inputs results first plans is_plain"),
    (KnownGradients, "of base"),
    (KernelFunction, "kernel slots casts numbers keywords count"),
    (trace_programs.TraceProgram, "function kinds"),
    (ClassProgram, "places evaluate"),
    (derivatives.Backward, "op mask wanted saved differentiable node_class first"),
    (tape.OpNode, "_ftorch_edges _ftorch_sequence _ftorch_tensor_hooks _ftorch_node_pre_hooks _ftorch_post_hooks "
     "_ftorch_metadata _ftorch_trace backward saved scalars _ftorch_detached"),
    (
        Tensor,
        "_ftorch_storage _ftorch_geometry _ftorch_offset _ftorch_requires_grad _grad_fn _ftorch_output_nr _grad _base "
        "_ftorch_attr_version _ftorch_meta",
    ),
    (Storage, "array trace slot root version host error extra level"),
    (Geometry, "shape stride numel dtype device bits is_contiguous _reads _views ndim is_dense expanse is_zero_dim"),
    (view.Layout, "reads writes"),
    (Trace, "lock code owners inputs input_of ints floats steps birth replaced recording running device"),
    (value_checks.Checks, "bound notices bounds reads passed"),
    (Run, "content live keep finished around is_over"),
    (short_traces.ShortTrace, "seen run kinds"),
    (executor.Stats, "ops programs"),
    (Extras, "hooks accumulator counter"),
    (VersionCounter, "version"),
    (nodes.AccumulateGrad, "variable"),
)


def configure() -> None:
    """Switches the calls in C on."""
    native.module.configure_calls(
        _SLOTS,
        (_op.Op, executor.Plan, planning.OpPlan, Tensor, Storage, Trace, nodes.Node,
         tape.OpNode, nodes.AccumulateGrad, derivatives.Backward, Run, Instance, SizeClass, ClassOfGradients,
         trace_programs.TraceProgram, GradientClass, KnownGradients, KernelFunction, ClassProgram),
        (PLAIN, _op.special, newest_level, threads, modes, _device.CPU, executor.stats, OVERWRITTEN,
         nodes._sequence, nodes.ACCUMULATE_SEQUENCE, value_checks.postponed, on_look,
         frozenset(d for d in dtypes.ALL if not d.stored), short_traces.known, trace_programs.known, _device.forked,
         *ignoring_errors()),
        (_op.read, _op._call, _op._call_inplace, executor._record, value_checks.check_values, nodes.accumulator,
         _op.op_named, inplace_writes.write_of, part_of, inplace_writes.own, short_traces.note_once,
         tape.backward_of, derivatives.of_class, vars(executor), vars(host_tier)),
        (executor.MAX_STEPS, inplace_writes.LARGE, KEPT_ELEMENTS, host_tier.ENABLED and RELIABLE),
    )
    configure_class_plans()


def configure_class_plans(model=class_plans.Model) -> None:
    """Lets C make plans after the models of a class."""
    native.module.configure_class_plans(
        (Size, Geometry, dtypes.dtype, model), SYMBOLS, INTERNED, SWEEP_AT, geometry, class_plans.result_geometries,
        plan.remember_counted, plan.kept.append, (EXACT_BELOW, class_plans.UNCHECKED, plan.AT_ONCE),
    )


if native.module is not None and executor.DEFERRED:
    configure()
