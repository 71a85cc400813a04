"""Batched tensors, the level of ``vmap``: each has a hidden batch dimension."""

from __future__ import annotations

import functools
import textwrap

import jax
import jax.numpy as jnp

from ..autograd import derivative_kernels, derivatives, inplace_history, tape
from ..autograd.derivative_kernels import Derived
from ..autograd.views import view_call
from ..call import op as _op
from ..call import planning
from ..call.operands import tensors_of
from ..core import api
from ..core.geometry import Geometry, Size, geometry, pointwise_stride, with_bits
from ..core.public_functions import python_of
from ..core.registry import OPS, OPTIONAL_TENSOR, SCALAR, OpDef
from ..core.return_values import named
from ..dispatch.levels import (
    Level,
    Wrapped,
    before_write,
    record_wrapped,
    save_of_write,
    wrapped_plan,
)
from ..dispatch.randomness import ELEMENT, FILL, LIKE, NEW, ROWS
from ..tensor import TensorBase, count_write, counter_of, extras, modes
from .batched_views import of_examples

_REPORT = "Please file an issue at https://github.com/pytorch/pytorch/issues"
_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
    ".item() on a Tensor, please try to rewrite what you're doing with other operations. If error is "
    "occurring somewhere inside PyTorch internals, please file a bug report."
)
_CONTROL_FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We "
    "don't support that yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
)
_LOOKS = {
    "item": _ITEM, "bool": _CONTROL_FLOW,
    "numpy": "Cannot access data pointer of Tensor that doesn't have storage",
}
_SAME = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an "
    "issue with functorch"
)
_ERROR_MODE = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
_INPLACE_DIFFERENT = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like "
    "same randomness. If this is necessary for your usage, please file an issue with functorch."
)
_ELEMENTWISE_VIEWS = ("view.dtype", "_conj", "_neg_view", "_real_part", "_imag_part")
_REDUCING = ("sum", "mean")
# Ops whose result has a shape that depends on values.
_DYNAMIC = ("nonzero", "argwhere", "_unique2", "unique_dim", "unique_consecutive")
# Ops on NumPy arrays that are no fallback where they are called for each example: PyTorch maps them in one go.
_MAPPED = ("masked_select", "linalg_ldl_factor", "linalg_ldl_factor_ex")


class Fallback:
    """Calls for each example, of operators that nothing maps in one go: allowed or not, for all threads."""

    def __init__(self):
        self.is_enabled = True

    def check(self, name: str) -> None:
        """Raises a RuntimeError where such calls are not allowed. ``name`` is the operator's, with its namespace."""
        if not self.is_enabled:
            raise RuntimeError(f"{name} hit the vmap fallback which is currently disabled")


fallback = Fallback()


# How PyTorch refuses in-place ops whose target is shared: most complain about room.
_BROADCAST_FIRST = ("add", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor")
_ARITHMETIC = frozenset(
    "sub mul div copy clamp clamp_min clamp_max logical_and logical_or logical_xor".split()
)


def _no_room(name):
    """The error of an in-place op whose target is shared by all examples."""
    inplace = "" if name.endswith("_") else "inplace "
    return RuntimeError(
        f"vmap: {inplace}{name}(self, *extra_args) is not possible because there exists a Tensor "
        f"`other` in extra_args that has more elements than `self`. This happened due to `other` being "
        f"vmapped over but `self` not being vmapped over in a vmap. Please try to use out-of-place "
        f"operators instead of {inplace}{name}. If said operator is being called inside the PyTorch "
        f"framework, please file a bug report instead."
    )


class Batched(Wrapped):
    """A tensor whose dimension ``_bdim`` of ``_inner`` is hidden; None: the same for all examples."""

    __slots__ = ("_bdim",)
    _bdim: int | None


def example_geometry(g: Geometry, bdim: int | None) -> Geometry:
    """The geometry of one example."""
    if bdim is None:
        return g
    found = _examples.get((g, bdim))
    if found is None:
        example = geometry(
            Size(g.shape[:bdim] + g.shape[bdim + 1 :]), g.dtype, g.device,
            g.stride[:bdim] + g.stride[bdim + 1 :],
        )
        if len(_examples) > _MOST_EXAMPLES:
            _examples.clear()
        found = _examples[g, bdim] = with_bits(example, g.bits)
    return found


_MOST_EXAMPLES = 1 << 14
_examples: dict[tuple[Geometry, int], Geometry] = {}  # geometries are interned


def batched(level: BatchLevel, inner, bdim: int | None) -> Batched:
    """Hides a dimension of a tensor."""
    t = Batched.make(level, inner, example_geometry(inner._ftorch_geometry, bdim))
    t._bdim = bdim
    return t


def is_batchedtensor(t) -> bool:
    """Whether a tensor stands for the examples of a `vmap`."""
    return isinstance(t, Batched)


class BatchLevel(Level):
    """One ``vmap``."""

    is_transform = True
    is_shown = True

    def __init__(self, batch_size: int, randomness: str):
        super().__init__()
        self.batch_size = batch_size
        self.randomness = randomness

    # --- calls

    def call(self, op, operands, static):
        if op.host:
            return self._host(op, operands, static)
        if _op.hooks.sees is not None and _op.hooks.sees(operands):
            found = self._seen(op, operands, static)
            if found is not None:
                return found
        plan, tensors, scalars = wrapped_plan(op, operands, static)
        outputs = self._outputs(plan, tensors, scalars)
        record_wrapped(plan, self, tensors, scalars, outputs)
        return outputs[0] if plan.is_single else plan.wrap_results(outputs)

    def _seen(self, op, operands, static):
        """The result of an op whose batched form is the same op of tensors with one dimension more; or None.

        Whoever records the calls below sees ATen's ops then, not derived ones.
        """
        definition = op.definition
        tensors = list(tensors_of(operands))
        if definition.__class__ is not OpDef or not any(map(self.is_batched, tensors)):
            return None
        is_alike = definition.layout == "pointwise" or definition.promote is not None
        if not is_alike and definition.name not in _REDUCING or any(isinstance(o, (list, tuple)) for o in operands):
            return None
        plan, tensors, scalars = wrapped_plan(op, operands, static)
        if not plan.is_single or plan.geometries[0].ndim < max(t.dim() for t in tensors) and is_alike:
            return None
        if definition.name in _REDUCING:
            dim = static[0] if definition.schema.overload else tuple(range(operands[0].dim()))
            if definition.name in ("sum", "mean") and (static[-1] is not None or dim is None) or not operands[0].dim():
                return None
            x, rank = self.in_front(operands[0]), operands[0].dim()
            dims = [d % rank + 1 for d in ((dim,) if isinstance(dim, int) else dim)]
            keep = bool(definition.schema.overload and static[1])
            result = getattr(api, definition.name)(x, dims, keep)
        else:
            rank = max(t.dim() for t in tensors)
            result = _op.call(op, tuple(self._aligned(o, rank) if isinstance(o, TensorBase) else o for o in operands), static)
        out = batched(self, result, 0)
        record_wrapped(plan, self, tensors, scalars, [out])
        return out

    def _aligned(self, t, rank):
        """A tensor below whose examples' dimensions are as many as the highest of all operands has."""
        if not self.is_batched(t):
            return self._inner_of(t)
        inner = self.in_front(t)
        for _ in range(rank - t.dim()):
            inner = inner.unsqueeze(1)
        return inner

    def _outputs(self, plan, tensors, scalars):
        inner, dims = self._lower(tensors)
        lowered = _batched_op(plan, dims)
        results = _op.call(lowered, (*inner, *scalars))
        many = (results,) if plan.is_single else results
        if any([d is not None for d in dims]):
            return [batched(self, result, 0) for result in many]
        outputs = []
        for result, g in zip(many, plan.geometries):
            t = Batched.make(self, result, g)
            t._bdim = None
            outputs.append(t)
        return outputs

    def _host(self, op, operands, static):
        """An op on NumPy arrays: called for each example, where all results have one shape."""
        if not any(self.is_batched(t) for t in tensors_of(operands)):
            return self._wrapped_tree(_op.call(op, self._tree(operands, self._inner_of), static))
        if op.name == "masked_select" and self.is_batched(operands[1]):
            raise RuntimeError(
                "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot "
                "support this because for each batch this would return a differently shaped Tensor. "
                f"{_REPORT} if you need this feature."
            )
        if not any(self.is_batched(t) for t in tensors_of(operands[1:])):
            result = op.definition.composed and op.definition.composed(*operands, *static)
            if result is not None:
                return result
        if op.name in _DYNAMIC:
            name = "nonzero" if op.name == "argwhere" else op.name
            raise RuntimeError(
                "vmap: We do not support batching operators that can output dynamic shape. Attempted "
                f"to vmap over aten::{name}. {_REPORT} if you need this feature."
            )
        if op.name not in _MAPPED:
            fallback.check(f"aten::{op.definition.full_name}")
        examples = [
            _op.call(op, self._tree(operands, lambda t, i=i: self._example(t, i)), static)
            for i in range(self.batch_size)
        ]
        if isinstance(examples[0], TensorBase):
            return batched(self, api.stack(examples), 0)
        results = [batched(self, api.stack(parts), 0) for parts in zip(*examples)]
        return named(op.definition, results)

    @staticmethod
    def _tree(operands, function):
        return tuple(
            tuple(function(t) for t in o) if isinstance(o, (list, tuple)) else function(o)
            for o in operands
        )

    def _wrapped_tree(self, results):
        if isinstance(results, tuple):
            return type(results)(batched(self, t, None) for t in results)
        return batched(self, results, None)

    def is_batched(self, t):
        """Whether a tensor differs between the examples of this level."""
        return isinstance(t, Batched) and t._ftorch_level is self and t._bdim is not None

    def _inner_of(self, t):
        return t._inner if isinstance(t, Batched) and t._ftorch_level is self else t

    def _example(self, t, i):
        return t._inner.select(t._bdim, i) if self.is_batched(t) else self._inner_of(t)

    def in_front(self, t):
        """The tensor below of all examples, the mapped dimension in front."""
        inner = self._inner_of(t)
        if not self.is_batched(t):
            return inner.unsqueeze(0).expand(self.batch_size, *inner.shape)
        return inner if t._bdim == 0 else inner.movedim(t._bdim, 0)

    def _lower(self, tensors):
        inner, dims = [], []
        for t in tensors:
            if isinstance(t, Batched) and t._ftorch_level is self:
                inner.append(t._inner)
                dims.append(t._bdim)
            else:
                inner.append(t)
                dims.append(None)
        return inner, tuple(dims)

    def call_inplace(self, op, operands, static):
        target = operands[0]
        tensors = list(tensors_of(operands))
        if not self.is_batched(target) and any(map(self.is_batched, tensors)):
            raise self._refused(op, target)
        plan = planning.build_inplace(op, operands, static)
        mask = tuple(
            isinstance(t, Wrapped) and t._ftorch_level is self and t._ftorch_requires_grad for t in tensors
        )
        recorded = modes.grad and plan.differentiable and any(mask)
        if recorded:
            inplace_history.check_inplace(target)
        scalars = [o for o in operands if not isinstance(o, (TensorBase, list, tuple, type(None)))]
        (result,) = self._outputs(plan, before_write(self, tensors), scalars)
        value = result._inner
        if recorded:
            backward = derivatives.of_plan(plan, mask, tape.node_class)
            node = backward.node_class(backward, scalars)
            node._ftorch_edges = tuple(tape.edge_of(t) if m else None for t, m in zip(tensors, mask))
            node.saved = save_of_write(self, backward.saved, tensors, result)
        if isinstance(target, Batched) and target._bdim not in (None, 0):
            value = value.movedim(0, target._bdim)
        (target._inner if isinstance(target, Batched) else target).copy_(value)
        count_write(target)
        if recorded:
            inplace_history.rebase(target, node)
        return target

    def _refused(self, op, target):
        if op.name in _BROADCAST_FIRST:
            shape = list(target._ftorch_geometry.shape)
            return RuntimeError(
                f"output with shape {shape} doesn't match the broadcast shape "
                f"{[self.batch_size, *shape]}"
            )
        if op.name in _ARITHMETIC:
            return _no_room("arithmetic")
        return _no_room(f"aten::{op.name}_" if op.definition.promote else f"{op.name}_")

    # --- views

    def view(self, definition, x, static):
        g, bdim = x._ftorch_geometry, x._bdim
        result = definition.kernel(g, *static)
        size, stride, offset = result[:3]
        inner = x._inner
        if bdim is None:
            lowered = view_call(definition, inner, static)
            out_dim = None
        else:
            lowered = None
            if definition.full_name in _ELEMENTWISE_VIEWS:
                lowered = view_call(definition, self.in_front(x), static)
            elif _op.hooks.sees is not None and _op.hooks.sees((x,)):
                lowered = of_examples(definition, self.in_front(x), g.ndim, static, size)
            if lowered is None:
                lowered = _strided_below(inner, bdim, size, stride, offset, result[3:])
            out_dim = 0
        example = geometry(Size(size), lowered._ftorch_geometry.dtype, g.device, tuple(stride))
        out = Batched.make(self, lowered, with_bits(example, lowered._ftorch_geometry.bits))
        out._bdim = out_dim
        out._base = x if x._base is None else x._base
        out._ftorch_offset = x._ftorch_offset + offset
        out._ftorch_storage = x._ftorch_storage
        out._ftorch_attr_version = counter_of(x).version
        if x._ftorch_requires_grad:
            if modes.grad and lowered._ftorch_geometry.dtype.category >= 2:
                from ..autograd.views import ViewNode

                node = tape.node_class(derivatives.node_name(definition), ViewNode)(
                    definition, static, g
                )
                node._ftorch_edges = (tape.edge_of(x),)
                out._grad_fn, out._ftorch_requires_grad = node, True
            elif not modes.grad:
                extras(out).creation = "no_grad"
        return out

    def detach(self, t):
        return _same(t, t._inner.detach())

    def rewrapped(self, t, function):
        return _same(t, function(t._inner))

    def alias(self, t):
        """The tensor as one of this level, for a transform inside to differentiate."""
        if isinstance(t, Batched) and t._ftorch_level is self:
            return _same(t, t._inner)
        return batched(self, t, None)

    def known(self, t, how):
        if t._bdim is None:
            return t._inner
        raise RuntimeError(_LOOKS["numpy" if how == "tolist" else how])

    def describe(self, t, shown):
        """The text of a tensor of this level; ``shown`` gives that of one below."""
        value = textwrap.indent(shown(t._inner), "    ")
        return f"BatchedTensor(lvl={self.number}, bdim={t._bdim}, value=\n{value}\n)"

    # --- random numbers

    def random(self, kind, function, args, kwargs):
        tensors = [a for a in args if isinstance(a, TensorBase)]
        if kind in (ELEMENT, ROWS) and not tensors:
            return python_of(function).__wrapped__(*args, **kwargs)
        if self.randomness == "error":
            raise RuntimeError(_ERROR_MODE)
        if self.randomness == "same":
            return self._same_for_all(kind, function, args, kwargs, tensors)
        if kind == NEW:
            name, shape, *rest = args
            with self.below():
                return batched(self, function(name, (self.batch_size, *shape), *rest, **kwargs), 0)
        if kind == LIKE:
            like, *rest = args
            if not self.is_batched(like):
                like = like.new_empty((self.batch_size, *like.shape))
            else:
                with self.below():
                    like = self.in_front(like)  # a view: the numbers are drawn as its elements lie
            with self.below():
                return batched(self, function(like, *rest, **kwargs), 0)
        if kind == FILL:
            return self._fill_differently(function, args, kwargs, tensors)
        rows = kind == ROWS and tensors[0].dim() > 1
        if len(tensors) > 1:
            given = iter(api.broadcast_tensors(*tensors))
            args = [next(given) if isinstance(a, TensorBase) else a for a in args]
        args = [self.in_front(a) if isinstance(a, TensorBase) else a for a in args]
        with self.below():
            if not rows:
                return batched(self, function(*args, **kwargs), 0)
            many, *rest = args
            result = function(many.flatten(0, 1), *rest, **kwargs)
            return batched(self, result.unflatten(0, many.shape[:2]), 0)

    def _same_for_all(self, kind, function, args, kwargs, tensors):
        mapped = [t for t in tensors if self.is_batched(t)]
        target = args[0]
        shape_only = kind == LIKE or (kind == FILL and len(mapped) == 1 and mapped[0] is target)
        if mapped and not shape_only:
            raise RuntimeError(_SAME)
        args = [self._inner_of(a) for a in args]
        if mapped:
            args[0] = target._inner.new_empty(target.shape)
        with self.below():
            result = function(*args, **kwargs)
        return target.copy_(result) if kind == FILL and mapped else result

    def _fill_differently(self, function, args, kwargs, tensors):
        target, *rest = args
        if not self.is_batched(target):
            if any(map(self.is_batched, tensors)):
                raise _no_room(function.__name__.rstrip("_"))
            raise RuntimeError(_INPLACE_DIFFERENT)
        rest = [
            self.in_front(a.expand(target.shape)) if isinstance(a, TensorBase) else a for a in rest
        ]
        with self.below():
            fresh = function(api.empty_like(self.in_front(target)), *rest, **kwargs)
        return target.copy_(batched(self, fresh, 0))


def _same(t, inner):
    out = Batched.make(t._ftorch_level, inner, t._ftorch_geometry)
    out._bdim = t._bdim
    return out


def _strided_below(inner, bdim, size, stride, offset, dtype):
    """The view of all examples at once, with the batch dimension in front."""
    if dtype and dtype[0] is not inner._ftorch_geometry.dtype:
        name = "view_as_real" if inner._ftorch_geometry.dtype.is_complex else "view_as_complex"
        inner_view = view_call(OPS[name], inner, ())
        scale = 2 if name == "view_as_real" else 0.5
        step = int(inner._ftorch_geometry.stride[bdim] * scale)
        shape = (inner._ftorch_geometry.shape[bdim], *size)
        return view_call(OPS["as_strided"], inner_view, (shape, (step, *stride), offset))
    g = inner._ftorch_geometry
    shape, steps = (g.shape[bdim], *size), (g.stride[bdim], *stride)
    return view_call(OPS["as_strided"], inner, (tuple(shape), tuple(steps), offset))


# --- ops over batches ----------------------------------------------------------------


def _batched_op(plan, dims):
    """The op that runs a plan on every example: its kernel is ``jax.vmap`` of the plan's."""
    if plan.extra is None:
        plan.extra = {}
    found = plan.extra.get(dims)
    if found is None:
        found = plan.extra[dims] = _make_batched(plan, dims)
    return found


def _make_batched(plan, dims):
    m = len(plan.scalars)
    if all(d is None for d in dims):
        kernel = plan.fn
    else:
        kernel = jax.vmap(plan.fn, in_axes=(*dims, *[None] * m))
    derived = Derived(plan.name, kernel, [OPTIONAL_TENSOR] * len(dims) + [SCALAR] * m)
    derived.runs_kernels = plan.op.definition.runs_kernels
    if any(d is not None for d in dims) and (plan.op.definition.promote is not None or
                                             plan.op.definition.layout in ("pointwise", "preserve")):
        derived.layout = functools.partial(_batched_strides, dims, plan.op.definition.layout == "preserve")
    derived.make_gradients = lambda mask, differentiable: _batched_gradients(
        plan, dims, mask, differentiable
    )
    return _op.Op(derived)


def _batched_strides(dims, keeps, inputs, static, shapes):
    """`OpDef.layout` of elementwise ops: results lie in memory as the operands with the batch in front do."""
    found = []
    for shape in shapes:
        aligned = []
        for g, d in zip(inputs, dims, strict=True):
            own, steps = list(g.shape), list(g.stride)
            if d is not None:
                size, step, gap = own.pop(d), steps.pop(d), len(shape) - g.ndim
                own, steps = [size, *[1] * gap, *own], [step, *[0] * gap, *steps]
            aligned.append(geometry(Size(own), g.dtype, g.device, tuple(steps)))
        first = aligned[0]
        if keeps and first.is_dense and first.shape == shape:
            found.append(first.stride)
        elif all(g.ndim <= len(shape) and all(n in (1, m) for n, m in zip(g.shape[::-1], shape[::-1])) for g in aligned):
            found.append(pointwise_stride(Size(shape), aligned))
        else:
            found.append(None)
    return found


def _batched_gradients(plan, dims, mask, differentiable):
    base = derivative_kernels.gradients_of(plan, mask, differentiable)
    wanted = [d for d, m in zip(dims, mask) if m]
    if all(d is None for d in dims):
        return base

    def gradients(inputs, scalars, results, grads):
        each = jax.vmap(
            lambda i, r, g: base(i, scalars, r, g), in_axes=(list(dims), 0, 0), out_axes=0
        )
        out = each(list(inputs), list(results), list(grads))
        return [
            g.sum(0) if d is None else jnp.moveaxis(g, 0, d) for g, d in zip(out, wanted)
        ]

    return gradients

