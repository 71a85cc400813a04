"""The ``autograd.Function`` of an op: how it is differentiated, mapped and pushed forward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..autograd.function import Function
from ..eager.core import api
from ..eager.tensor import TensorBase, modes
from ..eager.transforms.batching import fallback
from ..utils import _pytree as pytree
from . import _callback, _keys, _operators


@dataclass
class Formula:
    """What ``register_autograd`` was given; ``backward`` None raises in backward."""

    backward: Callable | None
    setup_context: Callable | None = None


class _Call:
    """One call's structure; it goes through `Function.apply` as the first argument."""

    def __init__(self, op, args, kwargs):
        self.op = op
        self.leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.out_spec = None
        self.outputs: list = []

    def arguments(self, leaves):
        """(args, kwargs) made of flat values."""
        return pytree.tree_unflatten(list(leaves), self.spec)

    def dims(self, flat):
        """The mapped dims as a structure like the arguments; None for lists without tensors."""
        args, kwargs = self.arguments(flat)
        given, named = self.arguments(self.leaves)

        def one(dim, value):
            has_tensor = isinstance(value, list) and any(isinstance(v, TensorBase) for v in value)
            return None if isinstance(dim, list) and not has_tensor else dim

        return tuple(map(one, args, given)), {k: one(d, named[k]) for k, d in kwargs.items()}

    def written(self, leaves):
        """(args, kwargs) as a program writes them, without defaults."""
        args, kwargs = self.arguments(leaves)
        return _operators._schema.without_defaults(self.op._schema, args, kwargs)

    def mutated(self, leaves):
        """The tensors among flat values that the op writes to."""
        return _callback._written(self.op, *self.arguments(leaves))

    def parts(self, getitem, whole):
        """For each flat result how it is reached from the whole one, by ``getitem(value, i)``."""
        result = self.result(range(self.out_spec.num_leaves))
        return [part for _, part in sorted(_parts(result, getitem, whole), key=lambda p: p[0])]

    def result(self, flat):
        """An output made of flat values."""
        return pytree.tree_unflatten(list(flat), self.out_spec)


def _parts(result, getitem, whole):
    if isinstance(result, int):
        yield result, whole
    elif isinstance(result, (list, tuple)):
        for i, item in enumerate(result):
            yield from _parts(item, getitem, getitem(whole, i))


def apply(op, args, kwargs):
    """Calls an op through its `Function`."""
    if op.function is None:
        op.function = make(op)
    call = _Call(op, args, kwargs)
    flat = op.function.apply(call, *call.leaves)
    return call.result(flat)


def make(op):
    """The function class of an op."""

    class Generated(Function):
        _overload = op

        @staticmethod
        def forward(call, *leaves):
            with _keys.AutoDispatchBelowAutograd():
                result = _operators.below_autograd(op, *call.arguments(leaves))
            flat, call.out_spec = pytree.tree_flatten(result)
            return tuple(flat)

        @staticmethod
        def setup_context(ctx, inputs, output):
            call, *leaves = inputs
            ctx._call, ctx._outputs = call, [
                o._ftorch_geometry if isinstance(o, TensorBase) else None for o in output
            ]
            formula = op.formula
            if formula is None or formula.setup_context is None:
                return
            args, kwargs = call.arguments(leaves)
            needs = getattr(ctx, "needs_input_grad", ())
            if len(needs) == len(inputs):
                ctx.needs_input_grad = tuple(call.arguments(needs[1:])[0])
            more = {"keyword_only_inputs": kwargs} if kwargs else {}
            formula.setup_context(ctx=ctx, inputs=args, output=call.result(output), **more)

        @staticmethod
        def backward(ctx, *grads):
            return _backward(op, ctx, grads)

        @staticmethod
        def vmap(info, in_dims, call, *leaves):
            return _vmap(op, info, in_dims[1:], call, leaves)

        @staticmethod
        def jvp(ctx, _, *tangents):
            # What is saved for the backward formula, which says the tangents.
            ctx._ftorch_given = tuple(ctx._ftorch_told or ctx.to_save)
            return _jvp(op, ctx, tangents)

    Generated.__name__ = f"GeneratedBackwardFor_{op.namespace}_{op._opname}_{op._overloadname}"
    Generated._backward_cls.__name__ = f"{Generated.__name__}Backward"
    return Generated


def _backward(op, ctx, grads):
    formula, call = op.formula, ctx._call
    if formula is None or formula.backward is None:
        raise RuntimeError(
            f"Trying to backward through {op} but no autograd formula was registered. Please use "
            "register_autograd to add one."
        )
    grads = call.result(grads)
    many = grads if isinstance(grads, tuple) else (grads,)
    result = formula.backward(ctx, *many)
    result = result if isinstance(result, tuple) else (result,)
    args, kwargs = call.arguments(call.leaves)
    for i, extra in enumerate(result[len(args) :], len(args) + 1):
        if extra is not None:
            raise RuntimeError(
                f"function {type(ctx).__name__} returned a gradient different than None at position "
                f"{i}, but the corresponding forward input was not a Variable"
            )
    result = result[: len(args)]
    if len(result) != len(args):
        raise RuntimeError(
            f"function {type(ctx).__name__} returned an incorrect number of gradients (expected "
            f"{len(args)}, got {len(result)})"
        )
    flat = [None]  # of the call
    for arg, grad in zip(args, result):
        if not isinstance(arg, (list, tuple)):
            flat.append(grad)
        elif grad is None:
            flat.extend([None] * len(arg))
        elif isinstance(grad, (list, tuple)) and len(grad) == len(arg):
            flat.extend(grad)
        else:
            raise RuntimeError(
                "Expected the return from backward to be of the same structure as the inputs. Got: "
                f"{pytree.tree_structure(grad)} (return from backward), "
                f"{pytree.tree_structure(arg)} (inputs)"
            )
    return (*flat, *[None] * len(pytree.tree_leaves(kwargs)))


def _jvp(op, ctx, tangents):
    """Forward mode as the transpose of the backward formula, which is linear in the gradients."""
    outer, modes.grad = modes.grad, True
    try:
        dummies = [
            api.zeros(g.shape, dtype=g.dtype, device=g.device, requires_grad=g.dtype.category >= 2)
            for g in ctx._outputs
        ]
        grads = list(_backward(op, ctx, dummies))[1:]
        pairs = [
            (g, t) for g, t in zip(grads, tangents)
            if isinstance(g, TensorBase) and g.requires_grad and isinstance(t, TensorBase)
        ]
        moving = [d for d in dummies if d.requires_grad]
        if pairs:
            from ..autograd import grad as pull

            found = pull([g for g, _ in pairs], moving, [t for _, t in pairs], allow_unused=True,
                         create_graph=outer)
        else:
            found = [None] * len(moving)
    finally:
        modes.grad = outer
    given = iter(found)
    moved = [next(given) if d.requires_grad else None for d in dummies]
    return tuple(
        api.zeros_like(d) if m is None and d.requires_grad else m for m, d in zip(moved, dummies)
    )


def _vmap(op, info, in_dims, call, leaves):
    args, kwargs = call.arguments(leaves)
    if op.vmap_rule is not None:
        dims, named_dims = call.dims(in_dims)
        args, kwargs = _operators._schema.without_defaults(op._schema, args, kwargs)
        returned = op.vmap_rule(info, dims[: len(args)], *args, **kwargs)
        if not (isinstance(returned, tuple) and len(returned) == 2):
            return returned
        output, out_dims = returned
        flat, call.out_spec = pytree.tree_flatten(output)
        flat_dims = pytree._broadcast_to_and_flatten(out_dims, call.out_spec)
        return tuple(flat), None if flat_dims is None else tuple(flat_dims)
    fallback.check(op.name())
    lists = [a.type for a in (*op._schema.arguments, *op._schema.returns)]
    if any(t.base == "Tensor" and t.is_list for t in lists):
        raise RuntimeError(
            f"Batching rule not implemented for {op.name()}. We could not generate a fallback."
        )
    if op.is_mutable or op.is_view:
        raise RuntimeError(
            f"Batching rule not implemented for {op.name()}; the fallback path doesn't work on out= "
            "or view ops."
        )
    if info.batch_size == 0:
        raise RuntimeError("The fallback path does not support vmap over dims of size 0.")
    examples = []
    for i in range(info.batch_size):
        one = [v if d is None else v.select(d, i) for v, d in zip(leaves, in_dims)]
        result = _operators.dispatch(op, *call.arguments(one))
        flat, call.out_spec = pytree.tree_flatten(result)
        examples.append(flat)
    stacked = tuple(
        api.stack(parts) if isinstance(parts[0], TensorBase) else parts[0]
        for parts in zip(*examples)
    )
    return stacked, tuple(0 if isinstance(s, TensorBase) else None for s in stacked)
