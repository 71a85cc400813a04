"""Dual tensors, the level of ``jvp``: each carries a tangent.

An op's forward derivative is ``jax.jvp`` of its kernel. Where the op declares its reverse derivative
(PyTorch's choice at ties and edges), forward mode is that rule's transpose, so both agree.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..autograd import derivative_kernels, derivatives, gradient_values, inplace_history, tape
from ..autograd.derivative_kernels import Derived
from ..autograd.views import ViewNode, view_call
from ..call import op as _op
from ..call import planning
from ..call.operands import tensors_of
from ..core.geometry import with_bits
from ..core.registry import OPS, OPTIONAL_TENSOR, SCALAR
from ..dispatch.levels import (
    Level,
    Wrapped,
    adopted,
    before_write,
    level_of,
    record_wrapped,
    save_of_write,
    wrapped_plan,
)
from ..dispatch.randomness import FILL
from ..native.contexts import repeatable
from ..tensor import TensorBase, count_write, counter_of, extras, modes
from .batching import Batched, BatchLevel, batched

OTHER_SIZE = (
    "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. "
    "Tensor is of size {} while the given forward gradient is of size {}."
)
_NO_TANGENTS = (
    "Trying to use forward AD with {} that does not support it because it has not been implemented yet.\nPlease file "
    "an issue to PyTorch at https://github.com/pytorch/pytorch/issues/new?template=feature-request.yml so that we can "
    "prioritize its implementation or submit a PR adding the implementation to derivatives.yaml"
)


class Dual(Wrapped):
    """A tensor (``_inner``) with a tangent of its shape; None stands for zeros."""

    __slots__ = ("_outside", "_tangent")  # _outside: the tensor that was taken in, if it is one's

    @property
    def _version(self):
        return self._inner._version


def dual(level: DualLevel, primal, tangent) -> Dual:
    """Joins a primal and its tangent."""
    t = Dual.make(level, primal, primal._ftorch_geometry)
    t._tangent = tangent
    return t


class DualLevel(Level):
    """One ``jvp``; with ``by_hand``, the level of `ftorch.autograd.forward_ad`."""

    def __init__(self, by_hand: bool = False):
        super().__init__()
        self.by_hand = self.records_outside = by_hand
        self.is_transform = not by_hand

    def call(self, op, operands, static):
        if op.host:
            return self._host(op, operands, static)
        plan, tensors, scalars = wrapped_plan(op, operands, static)
        outputs = self._outputs(plan, tensors, scalars)
        record_wrapped(plan, self, tensors, scalars, outputs)
        return outputs[0] if plan.is_single else plan.wrap_results(outputs)

    def _host(self, op, operands, static):
        """An op on NumPy arrays, where those that move elements are composed of others."""
        moves = any(self._tangent_of(t) is not None for t in tensors_of(operands))
        result = op.definition.composed(*operands, *static) if moves and op.definition.composed else None
        if result is not None:
            return result
        plain = [
            [self._primal(t) for t in o] if isinstance(o, (list, tuple)) else self._primal(o)
            for o in operands
        ]
        results = _op.call(op, tuple(plain), static)
        if moves and any(r.dtype.category >= 2 for r in tensors_of((results,))):
            name = op.definition.schema.name
            raise NotImplementedError(_NO_TANGENTS.format(name) if op.definition.backward else
                                      f"Trying to use forward AD with aten::{name} that does not support it.")
        return results

    def _primal(self, t):
        return t._inner if isinstance(t, Dual) and t._ftorch_level is self else t

    def _tangent_of(self, t):
        if not (modes.forward and isinstance(t, Dual) and t._ftorch_level is self):
            return None
        base = t._base
        if t._tangent is None and isinstance(base, Dual) and base._tangent is not None:  # it got one since
            t._tangent = _alias_like(base._tangent, t)
        return t._tangent

    def _outputs(self, plan, tensors, scalars):
        primals = [self._primal(t) for t in tensors]
        tangents = [self._tangent_of(t) for t in tensors]
        mask = tuple(t is not None for t in tangents)
        moving = [t for t in tangents if t is not None]
        count = len(plan.geometries)
        if not any(mask) or not plan.differentiable:
            results = _op.call(_primal_op(plan), (*primals, *scalars))
            results = (results,) if plan.is_single else tuple(results)
            return [dual(self, r, None) for r in results]
        results = _op.call(_dual_op(plan, mask), (*primals, *moving, *scalars))
        varies = level_of(moving)
        if isinstance(varies, BatchLevel) and level_of(primals) is not varies:
            same = _op.call(_primal_op(plan), (*primals, *scalars))  # for all examples: it may be written to what is so
            results = (same, *results[1:]) if plan.is_single else (*same, *results[count:])
        outputs, index = [], count
        for r, g in zip(results[:count], plan.geometries):
            tangent = None
            if g.dtype.category >= 2:
                tangent = results[index]
                index += 1
            outputs.append(dual(self, r, tangent))
        return outputs

    def call_inplace(self, op, operands, static):
        target = operands[0]
        if not (isinstance(target, Dual) and target._ftorch_level is self):
            if not self.by_hand:
                _op.check_captured(target, op.definition.full_name)
            target = self.adopt(target)
            operands = (target, *operands[1:])
        plan = planning.build_inplace(op, operands, static)
        tensors = list(tensors_of(operands))
        scalars = [o for o in operands if not isinstance(o, (TensorBase, list, tuple, type(None)))]
        mask = tuple(
            t._ftorch_requires_grad and (self.by_hand or (isinstance(t, Wrapped) and t._ftorch_level is self)) for t in tensors
        )
        recorded = modes.grad and plan.differentiable and any(mask)
        if recorded:
            inplace_history.check_inplace(target)
        (result,) = self._outputs(plan, before_write(self, tensors), scalars)
        if recorded:
            backward = derivatives.of_plan(plan, mask, tape.node_class)
            node = backward.node_class(backward, scalars)
            node._ftorch_edges = tuple(tape.edge_of(t) if m else None for t, m in zip(tensors, mask))
            node.saved = save_of_write(self, backward.saved, tensors, result)
        self._overwrite(target, result)
        count_write(target)
        if recorded:
            inplace_history.rebase(target, node)
        return target

    def adopt(self, t):
        """The level's tensor of one without a tangent that is written to, by which it is known until the level ends."""
        found = adopted.get(id(t))
        if found is not None:
            return found
        # What calls of this level read and write is another tensor of the same memory: `t` itself leads back here.
        if self.is_transform:
            made = self._adopt_made_inside(t)
        else:
            made = dual(self, view_call(OPS["alias"], t, ()), None)
            if t._base is not None:
                base = self.adopt(t._base)
                if base._tangent is None:
                    base._tangent = gradient_values.zeros(base._ftorch_geometry)
                made._tangent = _alias_like(base._tangent, t)
        made._outside = t
        made._ftorch_requires_grad, made._grad_fn = t._ftorch_requires_grad, t._grad_fn
        made._ftorch_output_nr = t._ftorch_output_nr
        adopted[id(t)] = made
        return made

    def _adopt_made_inside(self, t):
        """`adopt` for one that the function made: nobody outside has it, so it needs no history there."""
        if t._base is None:
            inner = view_call(OPS["alias"], t, ())
            inner._base = None  # else a view of `t`, which is taken in by way of it
            return dual(self, inner, None)
        base = self.adopt(t._base)
        made = dual(self, _alias_like(base._inner, t), None)
        made._base, made._ftorch_storage = base, base._ftorch_storage
        made._ftorch_offset = base._ftorch_offset + t._ftorch_offset - t._base._ftorch_offset
        return made

    @repeatable
    def __exit__(self, *exception):
        super().__exit__(*exception)
        for key in [key for key, t in adopted.items() if t._ftorch_level is self]:
            del adopted[key]

    def _overwrite(self, target, result):
        target._inner.copy_(result._inner)
        if not modes.forward:
            return
        self._tangent_of(target)
        if target._tangent is not None and result._tangent is not None:
            target._tangent.copy_(result._tangent)
        elif target._tangent is not None:
            target._tangent.zero_()
        else:
            target._tangent = result._tangent
            base = target._base
            if result._tangent is not None and isinstance(base, Dual) and base._tangent is None:
                base._tangent = _zeros_like_part(result._tangent, base._ftorch_geometry)
                target._tangent = _op.hooks.alias(base._tangent, target)
                target._tangent.copy_(result._tangent)

    def view(self, definition, x, static):
        primal = view_call(definition, x._inner, static)
        tangent = None if x._tangent is None else view_call(definition, x._tangent, static)
        out = dual(self, primal, tangent)
        out._base = x if x._base is None else x._base
        out._ftorch_storage, out._ftorch_offset = (
            x._ftorch_storage,
            x._ftorch_offset + primal._ftorch_offset - x._inner._ftorch_offset,
        )
        out._ftorch_attr_version = counter_of(x).version
        if x._ftorch_requires_grad:
            if modes.grad and primal._ftorch_geometry.dtype.category >= 2:
                node = tape.node_class(derivatives.node_name(definition), ViewNode)(
                    definition, static, x._ftorch_geometry
                )
                node._ftorch_edges = (tape.edge_of(x),)
                out._grad_fn, out._ftorch_requires_grad = node, True
            elif not modes.grad:
                extras(out).creation = "no_grad"
        return out

    def detach(self, t):
        inner = t._inner.detach()
        return inner if self.by_hand else dual(self, inner, None)

    def rewrapped(self, t, function):
        return dual(self, function(t._inner), None if t._tangent is None else function(t._tangent))

    def alias(self, t):
        """The tensor as one of this level, for a transform inside to differentiate."""
        if isinstance(t, Dual) and t._ftorch_level is self:
            return dual(self, t._inner, t._tangent)
        return dual(self, t, None)

    def resized(self, t, shape, memory_format):
        raise RuntimeError("cannot resize variables that has a forward grad")

    def set(self, t, source, storage_offset, size, stride):
        raise NotImplementedError(_NO_TANGENTS.format("set_"))

    def known(self, t, how):
        return t._inner

    def describe(self, t, shown):
        """The text of a tensor of this level, without its tangent where a transform made it; ``shown`` gives that
        of one below."""
        if not self.by_hand:
            return shown(t._inner)
        inner = t._inner
        if t._ftorch_requires_grad and not isinstance(inner, Wrapped):
            inner = inner.detach()
            inner._grad_fn, inner._ftorch_output_nr, inner._ftorch_requires_grad = t._grad_fn, t._ftorch_output_nr, True
        text = shown(inner)
        if t._tangent is None or not (self.is_active and modes.forward):
            return text
        tangent = f"tangent={t._tangent!r}"
        width = len(text) - (text.rfind("\n") + 1) + 1 + len(tangent)
        return f"{text[:-1]},{' ' if width <= 80 else chr(10) + ' ' * 7}{tangent})"

    def random(self, kind, function, args, kwargs):
        below = [self._primal(a) for a in args]
        with self.below():
            result = function(*below, **kwargs)
        if kind != FILL:
            return result
        target = args[0]
        if self._tangent_of(target) is not None:
            target._tangent.zero_()
        count_write(target)
        return target


def _primal_op(plan):
    def make():
        made = Derived(plan.name, plan.fn, [OPTIONAL_TENSOR] * len(plan.inputs) + [SCALAR] * len(plan.scalars))
        made.layout = _layout_of(plan.geometries)
        return made

    return _derived(plan, ("primal",), make)


def _layout_of(geometries):
    """`OpDef.layout` of results that lie in memory as those of the function itself do."""

    def layout(inputs, static, shapes):
        return [g.stride if tuple(g.shape) == tuple(shape) else None for g, shape in zip(geometries, shapes, strict=True)]

    return layout


def _derived(plan, key, make):
    if plan.extra is None:
        plan.extra = {}
    found = plan.extra.get(key)
    if found is None:
        found = plan.extra[key] = _op.Op(make())
    return found


def _dual_op(plan, mask):
    """The op (primals, tangents of the mask, scalars) -> (results, tangents of the inexact ones)."""
    return _derived(plan, ("dual", mask), lambda: _make_dual(plan, mask))


def _make_dual(plan, mask):
    n, m = len(plan.inputs), len(plan.scalars)
    wanted = [i for i, w in enumerate(mask) if w and plan.inputs[i].dtype.category >= 2]
    moving = [i for i, w in enumerate(mask) if w]
    differentiable = tuple(g.dtype.category >= 2 for g in plan.geometries)
    definition = plan.op.definition
    declared = definition.backward is not None or definition.make_gradients is not None

    def forward(primals, scalars):
        out = plan.fn(*primals, *scalars)
        return (out,) if plan.is_single else tuple(out)

    def by_kernel(primals, tangents, scalars):
        def f(*chosen):
            full = list(primals)
            for i, x in zip(wanted, chosen):
                full[i] = x
            out = forward(full, scalars)
            return [o for o, d in zip(out, differentiable) if d]

        return jax.jvp(f, [primals[i] for i in wanted], tangents)[1]

    def by_rule(primals, tangents, scalars, results):
        gradients = derivative_kernels.gradients_of(
            plan, tuple(i in wanted for i in range(n)), differentiable
        )

        def pull(*grads):
            given = iter(grads)
            full = [next(given) if d else jnp.zeros_like(r) for r, d in zip(results, differentiable)]
            return gradients(primals, scalars, results, full)

        shapes = [r for r, d in zip(results, differentiable) if d]
        transpose = jax.linear_transpose(pull, *shapes)
        return [jnp.conj(t) for t in transpose([jnp.conj(t) for t in tangents])]

    def kernel(*operands):
        primals = list(operands[:n])
        scalars = operands[n + len(moving) :]
        by_input = dict(zip(moving, operands[n : n + len(moving)]))
        tangents = [by_input[i].astype(primals[i].dtype) for i in wanted]
        results = forward(primals, scalars)
        if declared:
            try:
                moved = by_rule(primals, tangents, scalars, results)
            except (NotImplementedError, TypeError, ValueError, AssertionError):
                moved = by_kernel(primals, tangents, scalars)
        else:
            moved = by_kernel(primals, tangents, scalars)
        return (*results, *moved)

    made = Derived(
        f"{plan.name}_jvp", kernel, [OPTIONAL_TENSOR] * (n + len(moving)) + [SCALAR] * m
    )
    made.layout = _layout_of([*plan.geometries, *(g for g, d in zip(plan.geometries, differentiable) if d)])
    return made


def _zeros_like_part(part, g):
    """The zero tangent of a base, for each example where that of its part is."""
    if not isinstance(part, Batched):
        return gradient_values.zeros(g)
    zeros = _zeros_like_part(part._inner, g)
    if part._bdim is None:
        return zeros
    zeros = zeros.unsqueeze(0).expand(part._inner.shape[part._bdim], *g.shape)
    return batched(part._ftorch_level, zeros.contiguous(), 0)


def _alias_like(tangent, view):
    """The part of a base's tangent that a view of the base covers."""
    g = view._ftorch_geometry
    base = view._base
    relative = with_bits(g, g.bits ^ base._ftorch_geometry.bits)
    return gradient_values.alias(tangent, relative, view._ftorch_offset - base._ftorch_offset)


_op.hooks.alias = _alias_like
