"""The dispatcher: ``Op`` and the one way of a call: plan, record, wrap, and append to the graph.

A call finds its `Plan` by one look-up on the static arguments and the operands' geometries. The slow
path (`plan.build`) runs once for each: it checks types, devices and shapes, promotes dtypes, and asks
the kernel for its result's shapes.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .. import native
from ..core import device as _device
from ..core import dtype as dtypes
from ..core.geometry import has_internal_overlap
from ..core.registry import OpDef, static_key
from ..core.return_values import named
from ..core.user_warnings import warn_user
from ..memory import gpu_driver
from ..memory.storage import Storage
from ..memory.view import access
from ..runtime import capture_trace, executor, inplace_writes, strided_steps, value_checks
from ..runtime.executor import record
from ..runtime.plan import reading, remember, writing
from ..runtime.size_classes import ClassTable
from ..tensor import PLAIN, Tensor, counter_of, modes, new_leaf, recount, wrap
from . import call_checks, class_plans, host_ops, planning, promotion
from .argument_types import type_name
from .hooks import hooks
from .operands import hashable, holds_tensors, normalize, tensors_of

_new = object.__new__
_MAX_PLANS = 4096  # of one op

# Set by the layers above; calls that are not plain go to what they put into `hooks`.
special = [0]  # how many levels, modes or hooks are active in any thread


class Op:
    """An operator as it is called: its definition and the plans made so far.

    Attributes:
        found: {outline of calls: `class_plans.Model`}.
        definition: the `OpDef` (for derived ops, such as backward ops, an object like it).
        plans: (static, operand keys...) -> `Plan`.
        alternative: see `OpDef.instead`.
        exclusive: see `OpDef.overlap`.
    """

    __slots__ = ("definition", "name", "plans", "inplace_plans", "host",
                 "alternative", "exclusive", "classes", "found", "__weakref__")

    def __init__(self, definition):
        self.definition = definition
        self.name = definition.name
        self.host = definition.host
        self.alternative = getattr(definition, "alternative", None)
        self.exclusive = getattr(definition, "exclusive", False)
        self.plans, self.inplace_plans, self.found = {}, {}, {}
        # Of ops whose results are known otherwise nobody asks for a class: of derivatives there are many.
        self.classes: Any = ClassTable() if getattr(definition, "known", None) is None else None
        if self.classes is not None:
            _ALL_OPS.add(self)

    def __repr__(self):
        return f"<op {self.name}>"

    def __call__(self, *operands, static=()):
        return call(self, operands, static)


_ALL_OPS: weakref.WeakSet[Op] = weakref.WeakSet()  # those of derivatives go with their plans


def clear_plans():
    """Forgets all plans: something they depend on (the default dtype) has changed."""
    for op in list(_ALL_OPS):
        op.plans.clear()
        op.inplace_plans.clear()
        op.classes = op.classes and ClassTable()
        op.found = {}


def read(t) -> Storage:
    """A storage whose root is the tensor: its own, or a recorded read through its strides."""
    storage = t._ftorch_storage
    g = t._ftorch_geometry
    if g is storage.root:
        return storage
    root = storage.root
    if g == root:
        return storage
    if storage.host is not None:
        part = inplace_writes.part_of_host(storage, g, t._ftorch_offset)
        if part is not None:
            return Storage(dense_like(g), part)
    way, starts = access(root, g, t._ftorch_offset)
    plan = way.read_plan
    if plan is None:
        plan = way.read_plan = reading(way, dense_like(g))
    way.layout.note(way.layout.reads, t._ftorch_offset, plan, starts)
    return record(plan, (storage,), starts)


def dense_like(g):
    """The geometry of a dense copy that keeps the strides' order (``preserve_format``)."""
    return g if g.is_dense else promotion.preserved(g)


def write(t, value: Storage) -> None:
    """Makes ``value`` (of the tensor's shape and dtype) the tensor's elements; counts a write."""
    storage = t._ftorch_storage
    if t._ftorch_geometry is storage.root:
        plan = _identity(t._ftorch_geometry)
        record(plan, (value,), (), storage)
    else:
        record_write(t, value)
    recount(t)


def check_writable(t):
    """Raises where a tensor must not be written to nor change its own geometry, as by ``x.t_()`` and ``x.resize_(3)``."""
    if t._ftorch_storage.version < 0 and counter_of(t).version < 0 and not modes.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a "
            "clone to get a normal tensor before doing inplace update.See "
            "https://github.com/pytorch/rfcs/pull/17 for more details."
        )


def record_write(t, value):
    g, storage = t._ftorch_geometry, t._ftorch_storage
    if storage.root.numel >= inplace_writes.LARGE or storage.host is not None:
        if inplace_writes.copy(storage, g, t._ftorch_offset, value):
            return
    way, starts = access(storage.root, g, t._ftorch_offset)
    plan = way.write_plan
    if plan is None:
        plan = way.write_plan = writing(way, storage.root)
    way.layout.note(way.layout.writes, t._ftorch_offset, plan, starts)
    record(plan, (storage, value), starts, storage)


_identities: dict = {}


def _identity(g):
    plan = _identities.get(g)
    if plan is None:
        plan = executor.Plan(lambda x: x, (g,), "", "copy_", g.device)
        remember(_identities, g, plan, _MAX_PLANS)
        plan.host = strided_steps.IDENTITY
    return plan


# --- calls ---------------------------------------------------------------------------


def joined_graph(view):
    """Whether a view requires grad as its base does; it is marked if that is since something was written to the base, else
    its gradients go nowhere."""
    if not view._base._ftorch_requires_grad:
        return view._ftorch_requires_grad
    if view._ftorch_attr_version != counter_of(view).version:
        view._ftorch_requires_grad = True
    return True


def is_in_graph(t):
    """Whether a tensor requires grad, a view also as its base does."""
    return t._ftorch_requires_grad or (t._base is not None and joined_graph(t))


def are_inference(tensors):
    """Whether all were made in inference mode: autograd does not see calls of such only (numbers are ordinary tensors)."""
    return tensors[0]._ftorch_storage.version < 0 and all([t._ftorch_storage.version < 0 for t in tensors])


def scan(operands, wrapped=frozenset()):
    """(key, tensors, scalars, whether a plain one requires grad), or None where an operand is neither plain nor
    of a class ``wrapped``."""
    key, tensors, scalars, grad = [], [], [], False
    for o in operands:
        kind = o.__class__
        if kind in PLAIN:
            key.append(o._ftorch_geometry)
            tensors.append(o)
            if o._ftorch_requires_grad or (o._base is not None and joined_graph(o)):
                grad = True
        elif o is None:
            key.append(None)
        elif kind is float or kind is int or kind is bool or kind is complex:
            key.append(kind)
            scalars.append(o)
        elif kind is list or kind is tuple:
            key.append(len(o))
            for item in o:
                if item.__class__ in PLAIN:
                    key.append(item._ftorch_geometry)
                    tensors.append(item)
                    if item._ftorch_requires_grad or (item._base is not None and joined_graph(item)):
                        grad = True
                elif item is None:
                    key.append(None)
                elif item.__class__ in wrapped:
                    key.append(item._ftorch_geometry)
                    tensors.append(item)
                else:
                    return None
        elif kind in wrapped:
            key.append(o._ftorch_geometry)
            tensors.append(o)
        else:
            return None
    return key, tensors, scalars, grad


def _call(op: Op, operands, static=()):
    """Calls an op.

    Args:
        operands: the dynamic arguments in the schema's order: tensors, numbers, None, lists of
            tensors.
        static: the others, in order; hashable.
    """
    if special[0]:
        handled, result = hooks.dispatch(op, operands, static)
        if handled:
            return result
    scanned = scan(operands)
    if scanned is None:
        operands = normalize(op, operands)
        scanned = scan(operands)
        if scanned is None:
            scanned, result = hooks.override(op, operands, static)
            if scanned is None:
                return result
    key, tensors, scalars, grad = scanned
    if scalars and tensors and op.alternative is not None and (found := op.alternative(*operands)) is not None:
        return call(op_named(found[0]), *found[1:])
    static = static and static_key(static)
    key.append(static)
    key = tuple(key)
    try:
        plan = op.plans.get(key)
    except TypeError:
        static = hashable(static, op.definition)
        return call(op, operands, static)
    if plan is None:
        if static and holds_tensors(static):
            return call(op, operands, hashable(static, op.definition))
        if op.host:
            return _call_host(op, operands, static, tensors, grad)
        plan = class_plans.of_class(op, operands, static) if op.found else None  # nothing is traced, as in most new sizes
        if plan is None:
            try:
                plan = planning.build(op, operands, static)
            except call_checks.MixedDevices as mixed:
                return call(op, _moved(operands, mixed), static)
        remember(op.plans, key, plan)
    if plan.checks:
        value_checks.check_values(plan, operands, tensors, read)
    if grad and plan.differentiable and modes.grad and (scalars or not are_inference(tensors)):
        return hooks.record(plan, tensors, scalars)
    storages = [t._ftorch_storage if t._ftorch_geometry is t._ftorch_storage.root else read(t) for t in tensors]
    results = record(plan, storages, scalars and plan.numbers(scalars))
    if plan.is_single:
        return wrap(results)
    return plan.wrap_results([wrap(s) for s in results])


def _moved(operands, mixed):
    """Operands, with those of the CPU that may be there on the others' device.

    Raises:
        RuntimeError: if that were none.
    """
    were_there = []

    def moved(o):
        if isinstance(o, Tensor) and o._ftorch_geometry.device is _device.CPU:
            were_there.append(o)
            return o.to(mixed.device)
        return tuple(map(moved, o)) if o.__class__ in (list, tuple) else o
    found = tuple([moved(o) if mixed.places is None or i in mixed.places else o for i, o in enumerate(operands)])
    if not were_there:
        raise RuntimeError(*mixed.args) from None
    return found


in_c = native.module if executor.DEFERRED else None
call: Any = _call if in_c is None else in_c.call  # in C where nothing is special


def _call_host(op, operands, static, tensors, grad):
    """An op whose kernel works on NumPy arrays: shapes depend on values, so it runs at once."""
    composed = op.definition.composed if grad and modes.grad and not op.definition.saves_operands else None
    if composed is not None and (found := composed(*operands, *static)) is not None:
        return found
    arrays, geometries = host_ops.run_host(op, operands, static, to_numpy)
    outputs = [Storage(g, a) for g, a in zip(geometries, arrays)]
    if grad and modes.grad and op.definition.differentiable and op.definition.backward:
        return hooks.record_host(op, operands, static, tensors, outputs)
    return named(op.definition, [wrap(s) for s in outputs])


def _call_inplace(op: Op, operands, static=()):
    """Calls an op and writes its result into the first operand, which is returned."""
    if special[0]:
        handled, result = hooks.dispatch_inplace(op, operands, static)
        if handled:
            return result
    scanned = scan(operands)
    if scanned is None:
        operands = normalize(op, operands)
        scanned = scan(operands)
        if scanned is None:
            scanned, result = hooks.override(op, operands, static, "inplace")
            if scanned is None:
                return result
    key, tensors, scalars, grad = scanned
    if scalars and tensors and op.alternative is not None:
        found = op.alternative(*operands)
        if found is not None:
            return call_inplace(op_named(found[0]), *found[1:])
    target = tensors[0]
    if target is not operands[0]:
        raise TypeError(f"{op.name}_(): the first argument must be a Tensor")
    recorded = modes.grad and (grad or target._base is not None)
    if recorded:
        hooks.check_inplace(target, grad)  # before all other errors, as what overlaps is before what does not fit
    to_itself = op.name == "copy" and operands[1] is target
    definition = op.definition
    if has_overlap(target) and not to_itself:
        if definition.expanded is None:
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a "
                "single memory location. Please clone() the tensor before performing the operation."
            )
        if definition.expanded:
            warn_user(f"Use of {op.name}_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
                      f"operation. This also applies to advanced indexing e.g. {definition.expanded}")
    share = overlaps if op.exclusive else partly_overlaps
    for t in tensors[1 : definition.compared]:
        if t._ftorch_storage is target._ftorch_storage and (op.exclusive or t is not target) and share(t, target):
            raise RuntimeError(OVERLAP)
    static = static and static_key(static)
    key.append(static)
    key = tuple(key)
    try:
        plan = op.inplace_plans.get(key)
    except TypeError:
        return call_inplace(op, operands, hashable(static, op.definition))
    if plan is None:
        try:
            plan = planning.build_inplace(op, operands, static)
        except call_checks.MixedDevices as mixed:
            if target._ftorch_geometry.device is not mixed.device:
                raise RuntimeError(*mixed.args) from None
            return call_inplace(op, _moved(operands, mixed), static)
        if plan.geometry.shape != target._ftorch_geometry.shape:
            return hooks.resized(op, operands, static)
        remember(op.inplace_plans, key, plan)
    if plan.checks:
        value_checks.check_values(plan, operands, tensors, read)
    if target._ftorch_storage.version < 0:
        check_writable(target)
    if modes.differentiating:
        check_captured(target, op.definition.full_name)
    if definition.expanded and not (grad and recorded) and has_overlap(target):
        return hooks.overlapping(op, operands, static)
    if recorded:
        return hooks.record_inplace(plan, tensors, scalars, grad)
    write_result(plan, target, tensors, scalars)
    return target


call_inplace: Any = _call_inplace if in_c is None else in_c.call_inplace


def check_captured(target, full_name):
    """Raises where a function that is being differentiated writes to what it captured.

    Args:
        full_name: of the op, ``"add.Tensor"``.
    """
    started, own, _ = modes.differentiating[-1]
    storage = target._ftorch_storage
    if storage.level < started and storage not in own:
        name, dot, overload = full_name.partition(".")
        raise RuntimeError(
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
            f"in-place operation (aten::{name}_{dot}{overload}) that would mutate a captured Tensor. "
            "This is not supported; please rewrite the function being transformed to explicitly "
            "accept the mutated Tensor(s) as inputs."
        )


def has_overlap(t):
    return t._ftorch_geometry is not t._ftorch_storage.root and has_internal_overlap(t._ftorch_geometry)


OVERLAP = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
    "single memory location. Please clone() the tensor before performing the operation."
)


def overlaps(a, b):
    """Whether two tensors of one storage share elements."""
    if a is b:
        return True
    same = (
        a._ftorch_offset == b._ftorch_offset and a._ftorch_geometry.numel and a._ftorch_geometry == b._ftorch_geometry
    )
    return bool(same) or partly_overlaps(a, b)


def partly_overlaps(a, b):
    """Whether two dense tensors of one storage share elements, but not all in the same order."""
    g, h = a._ftorch_geometry, b._ftorch_geometry
    if not g.numel or not h.numel or not g.is_dense or not h.is_dense:
        return False
    if a._ftorch_offset == b._ftorch_offset and g.numel == h.numel:
        return g.stride != h.stride
    return a._ftorch_offset < b._ftorch_offset + h.numel and b._ftorch_offset < a._ftorch_offset + g.numel


def write_result(plan, target, tensors, scalars):
    """Records a plan whose result becomes the target's elements."""
    root = target._ftorch_storage.root
    if root.numel >= inplace_writes.LARGE and inplace_writes.update(plan, target, tensors, scalars):
        recount(target)
        return
    storages = [t._ftorch_storage if t._ftorch_geometry is t._ftorch_storage.root else read(t) for t in tensors]
    numbers = scalars and plan.numbers(scalars)
    storage = target._ftorch_storage
    if target._ftorch_geometry is storage.root and target._ftorch_meta is None:
        record(plan, storages, numbers, storage)
    else:
        write(target, record(plan, storages, numbers))


def call_out(op: Op, operands, static, out):
    """Calls an op and writes its results to ``out``, which is resized if it must be (and returned)."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    if modes.subclasses:
        handled, result = hooks.override_out(operands, outs)
        if handled:
            return result
    if outs is out and len(op.definition.schema.returns) == 1:
        raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type_name(out)}")
    if outs is not out and len(op.definition.schema.returns) > 1:
        raise TypeError(f"{op.name}(): argument 'out' must be tuple of Tensors, not {type_name(out)}")
    for o in outs:
        if not isinstance(o, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type_name(o)}")
    if hooks.python_out is not None:
        handled, result = hooks.python_out(op, operands, static, outs)
        if handled:
            return result if not isinstance(result, tuple) else named(op.definition, list(result), "_out")
    if modes.grad:
        tensors = [t for t in tensors_of(operands) if isinstance(t, Tensor)]
        if any(map(is_in_graph, (*tensors, *outs))) and op.definition.differentiable:
            raise RuntimeError(
                f"{op.name}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
    if special[0] and any(getattr(t, "_tangent", None) is not None for t in (*tensors_of(operands), *outs)):
        raise NotImplementedError(
            f"Trying to use forward AD with {op.definition.schema.name}_out that does not support it because it is an out= "
            "function"
        )
    static = hooks.static_for_out(op, static, outs[0])
    outer, modes.autocast = modes.autocast, None  # the dtype is that of `out`
    try:
        results = call(op, operands, static)
    finally:
        modes.autocast = outer
    many = results if isinstance(results, tuple) else (results,)
    if len(many) != len(outs):
        raise TypeError(f"expected tuple of {len(many)} elements but got {len(outs)}")
    for i, (result, o) in enumerate(zip(many, outs)):
        hooks.write_out(op, result, o, operands, i == 1 and result.dtype.name == "int64")
    if not isinstance(results, tuple):
        return outs[0]
    return named(op.definition, list(outs), "_out")


def create(name: str, *args, dtype=None, device=None, requires_grad=False, stride=None) -> Tensor:
    """Calls a kernel that makes a tensor of nothing but its arguments.

    Args:
        name: the op's full name in the registry.
        args: the schema's arguments, in order.
        device: anything ``device=`` takes; None is the default device.
        stride: the memory layout to report.
    """
    op = op_named(name)
    storage = planning.create(op, args, device, dtype, stride)
    t = wrap(storage)
    if special[0] and hooks.created is not None:  # a trace that records it
        t = hooks.created(t, (name, *args), dtype=dtype, device=device, stride=stride)
    return new_leaf(t, requires_grad)


_by_name: dict[str, Op] = {}


def op_named(full_name: str) -> Op:
    """The `Op` of a declaration: ``op_named("add.Tensor")``.

    Raises:
        KeyError: if there is none.
    """
    found = _by_name.get(full_name)
    if found is None:
        from ..core.registry import OPS

        definition = OPS[full_name]
        if not isinstance(definition, OpDef):
            raise KeyError(full_name)
        found = _by_name[full_name] = Op(definition)
    return found


def fused_update(fn, mutable, inputs, scalars=(), static=(), source=None, fixed=()) -> None:
    """Records one step that updates many tensors in place.

    Args:
        fn: ``fn(mutable_arrays, input_arrays, scalars, *static) -> new arrays of mutable``; pure.
        mutable: the tensors to write to.
        inputs: tensors only read.
        scalars: Python numbers; new values do not compile again.
        static: hashable; part of the program.
        source: gives the scalars anew when a captured program runs again.
        fixed: positions of scalars that hardly ever change.
    """
    capture = capture_trace.capturing()
    if capture is not None and scalars:
        capture.numbers(len(scalars), source, fixed)
    key = (fn, static, *[t._ftorch_geometry for t in mutable], None, *[t._ftorch_geometry for t in inputs],
           tuple(map(type, scalars)))
    plan = _updates.get(key)
    if plan is None:
        if len(_updates) > _MAX_PLANS:
            _updates.clear()
        plan = _updates[key] = planning.build_update(fn, mutable, inputs, scalars, static)
    targets = [t._ftorch_storage for t in mutable]
    storages = [s if t._ftorch_geometry is s.root else read(t) for t, s in zip(mutable, targets)]
    plain = storages == targets and not any([s.host is not None for s in targets])
    storages += [t._ftorch_storage if t._ftorch_geometry is t._ftorch_storage.root else read(t) for t in inputs]
    numbers = planning.numbers_of(plan.scalars, scalars)
    results = record(plan, storages, numbers, None, targets if plain else None)
    if results is targets:
        for t in mutable:
            if t._ftorch_meta is not None:
                recount(t)
        return
    try:
        _assign(mutable, results)
    except BaseException:  # an update is one: an interrupt is heard when all of it is written
        _assign(mutable, results)
        raise


def _assign(tensors, storages):
    """Gives tensors the values of storages. Can be done again."""
    for t, s in zip(tensors, storages):
        if t._ftorch_geometry is t._ftorch_storage.root and t._ftorch_storage.host is None:
            executor.move(s, t._ftorch_storage)
            recount(t)
        else:
            write(t, s)


_updates: dict = {}


def at_hand(t) -> np.ndarray | None:
    """The elements of a plain tensor where they are there, and nothing looks on or waits; else None."""
    if special[0] or value_checks.postponed.checks or t.__class__ not in PLAIN or capture_trace.capturing() is not None:
        return None
    g = t._ftorch_geometry
    return None if g.bits or g.dtype.stored else value_checks.peek(t)


def to_numpy(t) -> np.ndarray:
    """The tensor's elements as a NumPy array of its shape (a copy or JAX's own read-only buffer)."""
    array = read(t).ready()
    array = np.asarray(array) if t._ftorch_geometry.device is _device.CPU else gpu_driver.elements(array)
    if value_checks.postponed.checks:
        value_checks.run_postponed()
    return array


dtypes.on_default_change.append(clear_plans)
