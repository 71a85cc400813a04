"""``Op`` and the one way of a call: plan, record, wrap, and append to the graph.

A call finds its `Plan` by one look-up on the static arguments and the operands' geometries. The slow
path (`plan.build`) runs once for each: it checks types, devices and shapes, promotes dtypes, and asks
the kernel for its result's shapes.
"""

from __future__ import annotations

import numpy as np

from . import dtype as dtypes
from . import executor, planning, promotion, value_checks
from .device import CPU
from .executor import record
from .geometry import has_internal_overlap
from .operands import hashable, holds_tensors, normalize, tensors_of
from .registry import OpDef
from .return_values import named
from .storage import Storage
from .tensor import PLAIN, Tensor, modes, new_leaf, wrap
from .view import access

_new = object.__new__
_MAX_PLANS = 4096  # of one op

# Set by the layers above: calls that are not plain go to `dispatch.call`, graphs are made by `tape`.
special = [0]  # how many levels, modes or hooks are active in any thread
hooks = {}


class Op:
    """An operator as it is called: its definition and the plans made so far.

    Attributes:
        definition: the `OpDef` (for derived ops, such as backward ops, an object like it).
        plans: (static, operand keys...) -> `Plan`.
        alternative: see `OpDef.instead`.
    """

    __slots__ = ("definition", "name", "plans", "inplace_plans", "binary_plans", "host",
                 "alternative", "__weakref__")  # fmt: skip

    def __init__(self, definition):
        self.definition = definition
        self.name = definition.name
        self.host = definition.host
        self.alternative = getattr(definition, "alternative", None)
        self.plans: dict = {}
        self.inplace_plans: dict = {}
        self.binary_plans: dict = {}
        _ALL_OPS.append(self)

    def __repr__(self):
        return f"<op {self.name}>"

    def __call__(self, *operands, static=()):
        return call(self, operands, static)


_ALL_OPS: list[Op] = []


def clear_plans():
    """Forgets all plans: something they depend on (the default dtype) has changed."""
    for op in _ALL_OPS:
        op.plans.clear()
        op.inplace_plans.clear()
        op.binary_plans.clear()


def read(t) -> Storage:
    """A storage whose root is the tensor: its own, or a recorded read through its strides."""
    storage = t._storage
    g = t._geometry
    if g is storage.root:
        return storage
    root = storage.root
    if g == root:
        return storage
    way, starts = access(root, g, t._offset)
    plan = way.read_plan
    if plan is None:
        plan = way.read_plan = executor.Plan(
            way.read, (dense_like(g),), "i" * way.count, "view", g.device
        )
    return record(plan, (storage,), starts)


def dense_like(g):
    """The geometry of a dense copy that keeps the strides' order (``preserve_format``)."""
    return g if g.is_dense else promotion.preserved(g)


def write(t, value: Storage) -> None:
    """Makes ``value`` (of the tensor's shape and dtype) the tensor's elements; counts a write."""
    storage = t._storage
    if t._geometry is storage.root:
        plan = _identity(t._geometry)
        record(plan, (value,), (), storage)
    else:
        record_write(t, value)
    if t._meta is not None and t._meta.version is not None:
        _private_write(t)


def count_write(t):
    """Counts a write that changes no element, such as ``x.t_()``."""
    t._storage.version += 1
    if t._meta is not None and t._meta.version is not None:
        _private_write(t)


def _private_write(t):
    # Tensors from `.data` count their own writes, not the storage's.
    t._meta.version[0] += 1
    t._storage.version -= 1


def record_write(t, value):
    g, storage = t._geometry, t._storage
    way, starts = access(storage.root, g, t._offset)
    plan = way.write_plan
    if plan is None:
        plan = way.write_plan = executor.Plan(
            way.write, (storage.root,), "i" * way.count, "copy_", g.device
        )
    record(plan, (storage, value), starts, storage)


_identities: dict = {}


def _identity(g):
    plan = _identities.get(g)
    if plan is None:
        plan = _identities[g] = executor.Plan(lambda x: x, (g,), "", "copy_", g.device)
    return plan


# --- calls ---------------------------------------------------------------------------


def joined_graph(view):
    """Whether a view came to require grad by an in-place operation on its base (then it is marked)."""
    if view._base._requires_grad and view._attr_version != view._storage.version:
        view._requires_grad = True
    return view._requires_grad


def scan(operands, wrapped=frozenset()):
    """(key, tensors, scalars, whether a plain one requires grad), or None where an operand is neither plain nor
    of a class ``wrapped``."""
    key, tensors, scalars, grad = [], [], [], False
    for o in operands:
        kind = o.__class__
        if kind in PLAIN:
            key.append(o._geometry)
            tensors.append(o)
            if o._requires_grad or (o._base is not None and joined_graph(o)):
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
                    key.append(item._geometry)
                    tensors.append(item)
                    if item._requires_grad or (item._base is not None and joined_graph(item)):
                        grad = True
                elif item is None:
                    key.append(None)
                elif item.__class__ in wrapped:
                    key.append(item._geometry)
                    tensors.append(item)
                else:
                    return None
        elif kind in wrapped:
            key.append(o._geometry)
            tensors.append(o)
        else:
            return None
    return key, tensors, scalars, grad


def call(op: Op, operands, static=()):
    """Calls an op.

    Args:
        operands: the dynamic arguments in the schema's order: tensors, numbers, None, lists of
            tensors.
        static: the others, in order; hashable.
    """
    if special[0]:
        handled, result = hooks["dispatch"](op, operands, static)
        if handled:
            return result
    scanned = scan(operands)
    if scanned is None:
        operands = normalize(op, operands)
        scanned = scan(operands)
        if scanned is None:
            scanned, result = hooks["override"](op, operands, static)
            if scanned is None:
                return result
    key, tensors, scalars, grad = scanned
    if scalars and tensors and op.alternative is not None:
        found = op.alternative(*operands)
        if found is not None:
            return call(op_named(found[0]), *found[1:])
    key.append(static)
    key = tuple(key)
    try:
        plan = op.plans.get(key)
    except TypeError:
        static = hashable(static, op.definition)
        return call(op, operands, static)
    if plan is None:
        if holds_tensors(static):
            return call(op, operands, hashable(static, op.definition))
        if op.host:
            return _call_host(op, operands, static, tensors, grad)
        plan = planning.build(op, operands, static)
        if len(op.plans) >= _MAX_PLANS:
            op.plans.clear()
        op.plans[key] = plan
    if plan.checks:
        value_checks.check_values(plan, operands, tensors, read)
    if grad and plan.differentiable and modes.grad:
        return hooks["record"](plan, tensors, scalars)
    storages = [t._storage if t._geometry is t._storage.root else read(t) for t in tensors]
    results = record(plan, storages, scalars and plan.numbers(scalars))
    if plan.is_single:
        return wrap(results)
    return plan.wrap_results([wrap(s) for s in results])


def remember_binary(op: Op, x, y, extra, static):
    """Makes the plan of a call on two CPU tensors known to the operators' short cut."""
    key = (x._geometry, y._geometry, *extra, static)
    plan = op.plans.get(key)
    if plan is not None and not plan.checks and plan.is_single and plan.device is CPU:
        if len(op.binary_plans) >= _MAX_PLANS:
            op.binary_plans.clear()
        op.binary_plans[key[:2]] = plan


def _call_host(op, operands, static, tensors, grad):
    """An op whose kernel works on NumPy arrays: shapes depend on values, so it runs at once."""
    arrays, geometries = planning.run_host(op, operands, static, to_numpy)
    outputs = [Storage(g, a) for g, a in zip(geometries, arrays)]
    if grad and modes.grad and op.definition.differentiable and op.definition.backward:
        return hooks["record_host"](op, operands, static, tensors, outputs)
    results = [wrap(s) for s in outputs]
    return named(op.definition, results)


def call_inplace(op: Op, operands, static=()):
    """Calls an op and writes its result into the first operand, which is returned."""
    if special[0]:
        handled, result = hooks["dispatch_inplace"](op, operands, static)
        if handled:
            return result
    scanned = scan(operands)
    if scanned is None:
        operands = normalize(op, operands)
        scanned = scan(operands)
        if scanned is None:
            scanned, result = hooks["override"](op, operands, static, "inplace")
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
    key.append(static)
    key = tuple(key)
    try:
        plan = op.inplace_plans.get(key)
    except TypeError:
        return call_inplace(op, operands, hashable(static, op.definition))
    if plan is None:
        plan = planning.build_inplace(op, operands, static)
        if plan.geometry.shape != target._geometry.shape:
            return hooks["resized"](op, operands, static)
        op.inplace_plans[key] = plan
    if plan.checks:
        if modes.grad:
            hooks["check_inplace"](target)  # before errors about values
        value_checks.check_values(plan, operands, tensors, read)
    to_itself = op.name == "copy" and operands[1] is target
    if has_overlap(target) and op.name not in _IDEMPOTENT and not to_itself:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    for t in tensors:
        if t._storage is target._storage and t is not target and partly_overlaps(t, target):
            raise RuntimeError(OVERLAP)
    if target._storage.version < 0 and not modes.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a "
            "clone to get a normal tensor before doing inplace update.See "
            "https://github.com/pytorch/rfcs/pull/17 for more details."
        )
    if modes.grad and (grad or target._base is not None):
        return hooks["record_inplace"](plan, tensors, scalars, grad)
    write_result(plan, target, tensors, scalars)
    return target


_IDEMPOTENT = ("fill", "zero", "index_put", "masked_fill")  # may write to an expanded tensor


def has_overlap(t):
    return t._geometry is not t._storage.root and has_internal_overlap(t._geometry)


OVERLAP = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
    "single memory location. Please clone() the tensor before performing the operation."
)


def overlaps(a, b):
    """Whether two tensors of one storage share elements."""
    if a is b:
        return True
    same = a._offset == b._offset and a._geometry.numel and a._geometry == b._geometry
    return bool(same) or partly_overlaps(a, b)


def partly_overlaps(a, b):
    """Whether two dense tensors of one storage share elements, but not all in the same order."""
    g, h = a._geometry, b._geometry
    if not g.numel or not h.numel or not g.is_dense or not h.is_dense:
        return False
    if a._offset == b._offset and g.numel == h.numel:
        return g.stride != h.stride
    return a._offset < b._offset + h.numel and b._offset < a._offset + g.numel


def write_result(plan, target, tensors, scalars):
    """Records a plan whose result becomes the target's elements."""
    storages = [t._storage if t._geometry is t._storage.root else read(t) for t in tensors]
    numbers = scalars and plan.numbers(scalars)
    storage = target._storage
    if target._geometry is storage.root and target._meta is None:
        record(plan, storages, numbers, storage)
    else:
        write(target, record(plan, storages, numbers))


def call_out(op: Op, operands, static, out):
    """Calls an op and writes its results to ``out``, which is resized if it must be (and returned)."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    for o in outs:
        if not isinstance(o, Tensor):
            raise TypeError(
                f"{op.name}(): argument 'out' must be Tensor, not {type(o).__name__}"
            )
    if modes.grad:
        tensors = [t for t in tensors_of(operands) if isinstance(t, Tensor)]
        if any(t._requires_grad for t in (*tensors, *outs)) and op.definition.differentiable:
            raise RuntimeError(
                f"{op.name}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
    outer, modes.autocast = modes.autocast, None  # the dtype is that of `out`
    try:
        results = call(op, operands, static)
    finally:
        modes.autocast = outer
    many = results if isinstance(results, tuple) else (results,)
    if len(many) != len(outs):
        raise TypeError(f"{op.name}(): argument 'out' must have {len(many)} elements")
    for result, o in zip(many, outs):
        hooks["write_out"](op, result, o, operands)
    if not isinstance(results, tuple):
        return outs[0]
    return named(op.definition, list(outs))


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
    if special[0] and "created" in hooks:  # a trace that records it
        t = hooks["created"](t, (name, *args), dtype=dtype, device=device, stride=stride)
    return new_leaf(t, requires_grad)


_by_name: dict[str, Op] = {}


def op_named(full_name: str) -> Op:
    """The `Op` of a declaration: ``op_named("add.Tensor")``.

    Raises:
        KeyError: if there is none.
    """
    found = _by_name.get(full_name)
    if found is None:
        from .registry import OPS

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
    capture = executor.capturing()
    if capture is not None and scalars:
        capture.numbers(len(scalars), source, fixed)
    key = (fn, static, *[t._geometry for t in mutable], None, *[t._geometry for t in inputs],
           tuple(map(type, scalars)))  # fmt: skip
    plan = _updates.get(key)
    if plan is None:
        if len(_updates) > _MAX_PLANS:
            _updates.clear()
        plan = _updates[key] = planning.build_update(fn, mutable, inputs, scalars, static)
    targets = [t._storage for t in mutable]
    storages = [s if t._geometry is s.root else read(t) for t, s in zip(mutable, targets)]
    plain = storages == targets and not any([s.host is not None for s in targets])
    storages += [t._storage if t._geometry is t._storage.root else read(t) for t in inputs]
    numbers = planning.numbers_of(plan.scalars, scalars)
    results = record(plan, storages, numbers, None, targets if plain else None)
    if results is targets:
        return
    for t, s in zip(mutable, results):
        if t._geometry is t._storage.root and t._storage.host is None:
            executor.move(s, t._storage)
        else:
            write(t, s)


_updates: dict = {}


def to_numpy(t) -> np.ndarray:
    """The tensor's elements as a NumPy array of its shape (a copy or JAX's own read-only buffer)."""
    array = np.asarray(read(t).value())
    if value_checks.postponed.checks:
        value_checks.run_postponed()
    return array


dtypes.on_default_change.append(clear_plans)
