"""``autograd.Function`` under transforms.

A level computes the results from the tensors below (`Level.custom`), where they have their graph for
gradients taken outside. For gradients taken inside the transform the function is recorded once more,
for the level's own tensors, with the user's ``setup_context`` and ``backward``.
"""

from __future__ import annotations

from typing import NamedTuple

from ..eager.call import op as _op
from ..eager.core import api
from ..eager.dispatch.levels import Wrapped, level_of
from ..eager.native.contexts import contextmanager
from ..eager.tensor import TensorBase, modes
from ..eager.transforms.batching import BatchLevel, batched
from ..eager.transforms.dual import OTHER_SIZE, Dual, DualLevel, dual
from ..utils import _pytree as pytree
from . import function as _function
from .function import Function

_GUIDE = (
    "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
)


_TRANSFORMS = (BatchLevel, DualLevel)


class VmapInfo(NamedTuple):
    """What the ``vmap`` static method is told of the transform."""

    batch_size: int
    randomness: str


def transformed_call(cls, args, kwargs):
    """(True, the results) of a function's call that a transform takes over, or (False, None)."""
    level = level_of(args)
    if level is None or not (isinstance(level, _TRANSFORMS) or hasattr(cls, "_overload")):
        return False, None  # a trace records what the function calls
    if cls.setup_context is Function.setup_context and not (
        isinstance(level, DualLevel) and level.by_hand
    ):
        raise RuntimeError(_function.NO_SETUP_CONTEXT)
    if isinstance(level, BatchLevel) and any(isinstance(a, TensorBase) for a in kwargs.values()):
        raise NotImplementedError("Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass kwarg-only "
                                  f"Tensors to autograd.Function. Got: {kwargs}")
    kinds = TensorBase if level.records_outside else Wrapped
    wants_graph = modes.grad and any(isinstance(a, kinds) and a._ftorch_requires_grad for a in args)
    if not wants_graph:
        return True, level.custom(cls, args)
    return True, _function._apply(_recorded(cls, level), args, kwargs)


def _recorded(cls, level):
    """The function as a level records it: its results come from below, with the graph there."""
    below, tangents = modes.grad, modes.forward

    class Recorded(Function):
        backward = staticmethod(cls.backward)
        vjp = staticmethod(cls.vjp)

    def forward(*args):
        with _grad_mode(below, tangents):
            return level.custom(cls, args)

    def forward_with_context(ctx, *args):
        with _grad_mode(below, tangents):
            output, own = _with_context(level, cls, args)
        many = output if isinstance(output, tuple) else (output,)
        same = {id(level._primal(t)): t for t in (*args, *many) if isinstance(t, TensorBase)}
        vars(ctx).update({k: v for k, v in vars(own).items() if k not in _OWN})
        ctx.materialize_grads = own.materialize_grads
        ctx.to_save, ctx.dirty_tensors, ctx.non_differentiable = (
            tuple(same.get(id(t), t) for t in kept) for kept in (own._ftorch_told, own.dirty_tensors, own.non_differentiable)
        )
        return output

    if cls.setup_context is Function.setup_context:
        Recorded.forward = staticmethod(forward_with_context)  # type: ignore[method-assign]
    else:
        Recorded.forward = staticmethod(forward)  # type: ignore[method-assign]
        Recorded.setup_context = staticmethod(cls.setup_context)  # type: ignore[method-assign]
    Recorded._backward_cls.__name__ = cls._backward_cls.__name__
    return Recorded


@contextmanager
def _grad_mode(value, forward):
    outer = modes.grad, modes.forward
    modes.grad, modes.forward = value, forward
    try:
        yield
    finally:
        modes.grad, modes.forward = outer


# --- vmap ----------------------------------------------------------------------------


def _custom_batched(level, cls, args):
    own_rule = cls.vmap is not Function.vmap
    if own_rule and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an "
            "overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            f"overridden vmap staticmethod to avoid ambiguity. {_GUIDE}"
        )
    inner = pytree.tree_map(lambda a: level._inner_of(a) if isinstance(a, TensorBase) else a, list(args))
    if not any(level.is_batched(a) for a in pytree.tree_leaves(args)):
        with level.below():
            return pytree.tree_map(lambda t: _rewrap(level, t, None), cls.apply(*inner))
    dims = pytree.tree_map(lambda a: a._bdim if level.is_batched(a) else None, tuple(args))
    if own_rule:
        return _by_rule(level, cls, inner, dims)
    if not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
            f"override and implement the vmap staticmethod or set generate_vmap_rule=True. {_GUIDE}"
        )
    with level.below():
        results = _generated(cls, level.batch_size, level.randomness, dims).apply(*inner)
    return pytree.tree_map(lambda t: _rewrap(level, t, 0), results)


def _rewrap(level, t, bdim):
    return batched(level, t, bdim) if isinstance(t, TensorBase) else t


def _by_rule(level, cls, inner, dims):
    with level.below():
        returned = cls.vmap(VmapInfo(level.batch_size, level.randomness), dims, *inner)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree "
            f"structure compatible with the output. Got a {type(returned)} instead"
        )
    output, out_dims = returned
    flat, spec = pytree.tree_flatten(output)
    flat_dims = pytree._broadcast_to_and_flatten(out_dims, spec)
    if flat_dims is None:
        raise RuntimeError(
            "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) "
            f"tuple. Expected out_dims={out_dims} to be compatible with the structure of `output`. "
            f"out_dims has structure {pytree.tree_flatten(out_dims)[1]} but output has structure "
            f"{spec}. {_GUIDE}"
        )
    wrapped = [
        _rewrap(level, t, d if d is None else d % t.dim()) for t, d in zip(flat, flat_dims)
    ]
    return pytree.tree_unflatten(wrapped, spec)


def _generated(cls, size, randomness, dims):
    """The function over all examples at once: each of its methods is run under ``vmap``."""

    def enter(level, values, dims):
        return tuple(
            batched(level, v, d) if isinstance(v, TensorBase) and d is not None else v
            for v, d in zip(values, dims)
        )

    def leave(level, t):
        """(the tensor below with the examples in front, or its own if all share it; its dim)."""
        if not isinstance(t, TensorBase):
            return t, None
        if level.is_batched(t):
            return level.in_front(t), 0
        return level._inner_of(t), None

    def spread(level, t):
        """A result of all examples, the examples in front; never a view."""
        if not isinstance(t, TensorBase):
            return t
        return level.in_front(t) if level.is_batched(t) else level.in_front(t).contiguous()

    class Generated(Function):
        generate_vmap_rule = True  # a ``vmap`` around this one

        @staticmethod
        def forward(*args):
            with BatchLevel(size, randomness) as level:
                output = cls.forward(*enter(level, args, dims))
                return pytree.tree_map(lambda t: spread(level, t), output)

        @staticmethod
        def setup_context(ctx, inputs, output):
            with BatchLevel(size, randomness) as level:
                seen = _Context(ctx)
                many = output if isinstance(output, tuple) else (output,)
                results = enter(level, many, [0] * len(many))
                given = enter(level, inputs, dims)
                cls.setup_context(
                    seen, given, results if isinstance(output, tuple) else results[0]
                )
                same = {id(w): t for w, t in zip((*given, *results), (*inputs, *many))}

                def parts(tensors):
                    # The graph knows inputs and outputs by identity.
                    found = [(same[id(t)], getattr(t, "_bdim", None)) if id(t) in same else leave(level, t) for t in tensors]
                    return [below for below, _ in found], [dim for _, dim in found]

                kept, saved_dims = parts(seen._ftorch_saved)
                ctx.save_for_backward(*kept)
                kept, forward_dims = parts(seen._ftorch_saved_for_forward)
                ctx.save_for_forward(*kept)
                ctx._ftorch_generated = seen._ftorch_attributes(), saved_dims, forward_dims
                for name in ("mark_dirty", "mark_non_differentiable"):
                    chosen = seen._ftorch_marked.get(name)
                    if chosen:
                        getattr(ctx, name)(*(same.get(id(t), t) for t in chosen))

        @staticmethod
        def backward(ctx, *grads):
            with BatchLevel(size, randomness) as level:
                attributes, saved_dims, _ = ctx._ftorch_generated
                seen = _Context(ctx, attributes, enter(level, ctx.saved_tensors, saved_dims))
                out = cls.backward(seen, *enter(level, grads, [0] * len(grads)))
                out = out if isinstance(out, tuple) else (out,)
                result = []
                for g, d in zip(out, dims):
                    if not isinstance(g, TensorBase):
                        result.append(g)
                    elif d is None:
                        result.append(level.in_front(g).sum(0))
                    else:
                        result.append(level.in_front(g).movedim(0, d))
                return tuple(result)

    def jvp(ctx, *tangents):
        with BatchLevel(size, randomness) as level:
            attributes, _, forward_dims = ctx._ftorch_generated
            seen = _Context(ctx, attributes, enter(level, ctx.saved_tensors, forward_dims))
            moved = cls.jvp(seen, *enter(level, tangents, dims))
            return pytree.tree_map(lambda t: spread(level, t), moved)

    if cls.jvp is not Function.jvp:
        Generated.jvp = staticmethod(jvp)  # type: ignore[method-assign]
    Generated.__name__ = f"Vmapped{cls.__name__}"
    return Generated


class _Context:
    """The ``ctx`` that the methods of a generated function see: attributes are the user's but for what PyTorch's has, too."""

    def __init__(self, ctx, attributes=(), saved_tensors=()):
        vars(self).update(attributes)
        self._ftorch_real, self._ftorch_saved, self._ftorch_saved_for_forward, self._ftorch_marked = ctx, (), (), {}
        self.saved_tensors, self.needs_input_grad = saved_tensors, getattr(ctx, "needs_input_grad", ())

    def _ftorch_attributes(self):
        """The user's attributes, and those of a generated function within."""
        return {name: value for name, value in vars(self).items() if name not in _OF_CONTEXTS}

    def save_for_backward(self, *tensors):
        self._ftorch_saved = tensors

    def save_for_forward(self, *tensors):
        self._ftorch_saved_for_forward = tensors

    def mark_dirty(self, *tensors):
        self._ftorch_marked["mark_dirty"] = tensors

    def mark_non_differentiable(self, *tensors):
        self._ftorch_marked["mark_non_differentiable"] = tensors

    def set_materialize_grads(self, value):
        self._ftorch_real.set_materialize_grads(value)


_OF_CONTEXTS = frozenset(vars(_Context(None)))


# --- jvp -----------------------------------------------------------------------------


def _custom_dual(level, cls, args):
    return _with_context(level, cls, args)[0]


# The attributes of a context that the call sets by itself.
_OWN = frozenset((*vars(Function._backward_cls()), "_ftorch_told", "_ftorch_given", "_ftorch_edges_by_argument",
                   "_ftorch_input_geometries", "_ftorch_edges"))


def _with_context(level, cls, args):
    """The results of a function of dual tensors, and the context that it saw."""
    primals = [level._primal(a) for a in args]
    tangents = [level._tangent_of(a) for a in args]
    moving = any(t is not None for t in tangents)
    if moving and cls.jvp is Function.jvp:
        cls.jvp(None)  # raises
    with level.below():
        handled, output = _op.hooks.custom_function(cls, tuple(primals), {}) if _op.special[0] else (False, None)
        ctx = cls._backward_cls()
        if not handled:
            output = _function._apply(cls, tuple(primals), {}, ctx)
        else:
            ctx.needs_input_grad = tuple(t is not None for t in tangents)
            with _grad_mode(False, False):
                cls.setup_context(ctx, tuple(primals), output)
        many = output if isinstance(output, tuple) else (output,)
        if moving:
            given = [
                api.zeros_like(p) if t is None and ctx.materialize_grads and _moves(p) else t
                for p, t in zip(primals, tangents)
            ]
            ctx._ftorch_given = tuple(ctx.saved_for_forward)
            versions = [t._version if isinstance(t, TensorBase) else None for t in given]
            with _grad_mode(modes.grad, False):
                moved = cls.jvp(ctx, *given)
            ctx._ftorch_given = None
            moves = _checked_moves(ctx, many, moved, primals, given, versions)
        else:
            moves = [None] * len(many)
    dirty = {id(p): a for p, a in zip(primals, args) if any(p is d for d in ctx.dirty_tensors)}
    results = []
    for o, t in zip(many, moves):
        if not isinstance(o, TensorBase):
            results.append(o)
        elif id(o) in dirty:
            results.append(dirty[id(o)])
            if isinstance(results[-1], Dual) and t is not None:
                results[-1]._tangent = t
        else:
            results.append(dual(level, o, t))
    return tuple(results) if isinstance(output, tuple) else results[0], ctx


def _moves(p):
    return isinstance(p, TensorBase) and p.dtype.category >= 2


def _checked_moves(ctx, outputs, moved, primals, given, versions):
    """The tangents that a function's ``jvp`` gave, one for each output.

    Args:
        given, versions: the tangents that it got, and how often they had been written to before.

    Raises:
        RuntimeError: as PyTorch does for what is no tangent of these outputs.
    """
    moves = list(moved) if isinstance(moved, tuple) else [moved]
    if len(moves) != len(outputs):
        raise RuntimeError(f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got "
                           f"{len(moves)})")
    for i, (out, move) in enumerate(zip(outputs, moves)):
        if move is not None and not isinstance(move, TensorBase):
            raise RuntimeError(f"expected Variable or None (got {type(move).__name__}) for grad output {i}.")
        if not isinstance(out, TensorBase):
            moves[i] = None
        elif not _moves(out) or any(out is t for t in ctx.non_differentiable):
            if move is not None:
                raise RuntimeError(f"Function's jvp returned a gradient at position {i}, but  the corresponding forward output "
                                   "is not a differentiable Tensor.You should return None at that position instead.")
        elif move is None:
            raise RuntimeError("Expected both tensor and its forward grad to be floating point or complex")
        else:
            if move.shape != out.shape:
                raise RuntimeError(OTHER_SIZE.format(list(out.shape), list(move.shape)))
            _check_aliases(ctx, out, move, primals, given, versions)
    return moves


def _check_aliases(ctx, out, move, primals, given, versions):
    """A tangent must share memory with tangents where its result does with operands."""
    place = next((k for k, p in enumerate(primals)
                  if isinstance(p, TensorBase) and p._ftorch_storage is out._ftorch_storage), None)
    if place is None:
        return
    source = given[place]
    if any(out is d for d in ctx.dirty_tensors):
        if move is not source or move._version == versions[place]:
            raise RuntimeError(
                "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying "
                "an input inplace, then the jvp function must modify the corresponding gradient inplace."
            )
    elif move._base is None:
        raise RuntimeError("A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a "
                           "view.")
    elif source is None or move._ftorch_storage is not source._ftorch_storage:
        of = "the same base as " if source is not None and source._base is not None else ""
        raise RuntimeError(f"A custom Function is returning a view but the jvp is not returning a view of {of}the given grad "
                           "input.")


BatchLevel.custom = _custom_batched  # type: ignore[method-assign]
DualLevel.custom = _custom_dual  # type: ignore[method-assign]
