"""``grad``, ``vjp``, ``jacrev`` and their kin, on the tape.

Inputs are aliased, the function runs, and ``autograd.grad`` walks the graph. Inside ``vmap`` the alias
is a tensor of that level, so gradients come out per example.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

from ...utils import _pytree as pytree
from ..autograd import backward as engine
from ..autograd import tape
from ..autograd.mode_contexts import DisabledSavedTensorsHooks, InferenceMode
from ..autograd.views import view_call
from ..call.op import special
from ..core import api
from ..core.registry import OPS
from ..dispatch.levels import Wrapped, transforms_running
from ..memory.storage import newest_level
from ..native.contexts import repeatable
from ..tensor import PLAIN, TensorBase, modes
from .vmap import vmap

_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. "
    "Please open an issue with your use case."
)


def _fresh(t):
    """An alias of a tensor to differentiate with respect to."""
    if t._ftorch_geometry.dtype.category < 2:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    if special[0] and modes.levels:
        out = modes.levels[-1].alias(t)
        if out is not t:
            if t._ftorch_requires_grad and t.__class__ is out.__class__:
                out = modes.levels[-1].identity(t)
            out._ftorch_requires_grad = True
            return out
    out = view_call(OPS["alias"], t, ())
    if not out._ftorch_requires_grad:
        out._base = None
        out._ftorch_requires_grad = True
    return out


# The aliases of transforms that have ended, by their ids: what leads to nothing else is in no graph of those around.
_finished: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


def _released(tree, fresh):
    """Results of a transform without the graph that belongs to it alone.

    A result that depends on nothing that requires grad but the aliases which the transform made
    (``fresh``) requires no grad itself.
    """
    known: dict[int, bool] = {}
    result = pytree.tree_map(functools.partial(_release, {id(t) for t in fresh}, known), tree)
    _finished.update((id(t), t) for t in fresh)
    return result


def _release(own, known, t):
    if not isinstance(t, TensorBase):
        return t
    if t._ftorch_requires_grad and _leads_outside(tape.edge_of(t)[0], own, known):
        return t
    if isinstance(t, Wrapped):
        return t._ftorch_level.rewrapped(t, functools.partial(_release, own, known))
    return t.detach() if t._ftorch_requires_grad else t


def _leads_outside(start, own, known):
    """Whether a node's graph reaches a leaf that is not one of ``own`` (``known``: earlier answers)."""
    seen, pending = {id(start)}, [start]
    while pending:
        node = pending.pop()
        if node._ftorch_is_accumulate:
            if id(node.variable) not in own and id(node.variable) not in _finished:
                return True
            continue
        if id(node) in known:
            continue
        for edge in node._ftorch_edges:
            if edge is not None and id(edge[0]) not in seen:
                seen.add(id(edge[0]))
                pending.append(edge[0])
    known.update(dict.fromkeys(seen, False))
    return False


class differentiating:  # noqa: N801
    """Within, a function of ``inputs`` is being differentiated.

    ``backward()`` has no place there, nor have writes to tensors that were made before.
    """

    def __init__(self, inputs):
        self._inputs = {_innermost(t)._ftorch_storage for t in inputs}
        self._is_active = False
        self._number = transforms_running() + 1

    def __enter__(self):  # without a call, where an interrupt could come
        newest_level[0] += 1
        modes.differentiating = [*modes.differentiating, (newest_level[0], self._inputs, self._number)]
        modes.transforming += 1
        self._is_active = True

    @repeatable
    def __exit__(self, *_):
        if self._is_active:
            self._is_active = False
            modes.transforming -= 1
            modes.differentiating = modes.differentiating[:-1]


def _innermost(t):
    while isinstance(t, Wrapped):
        t = t._inner
    return t


def _outside_graphs(tree):
    """Tensors of a tree outside all graphs: without gradients, a transform's results are constants."""
    return pytree.tree_map(_outside_graph, tree)


def _outside_graph(t):
    if isinstance(t, Wrapped):  # not by `detach`, which takes a tangent off
        return t._ftorch_level.rewrapped(t, _outside_graph)
    return t.detach() if isinstance(t, TensorBase) else t


def _wrap_tree(tree):
    return pytree.tree_map(lambda x: _fresh(x) if isinstance(x, TensorBase) else x, tree)


def _slice_args(args, argnums):
    if isinstance(argnums, int):
        return args[_checked(argnums, len(args))]
    return tuple(args[_checked(i, len(args))] for i in argnums)


def _checked(argnum, count):
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def _replace_args(args, argnums, new):
    args = list(args)
    if isinstance(argnums, int):
        args[_checked(argnums, len(args))] = new
    else:
        for i, value in zip(argnums, new):
            args[_checked(i, len(args))] = value
    return args


def _check_argnums(argnums, args):
    """Raises functorch's errors for what names no arguments; they come back as non-negative."""
    if isinstance(argnums, int):
        return _checked(argnums, len(args))
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    for a in argnums:
        if not isinstance(a, int):
            raise RuntimeError(f"argnum must be int, got: {type(a)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    positions = tuple(_checked(a, len(args)) for a in argnums)
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {positions}")
    return positions


def grad_and_value(func, argnums=0, has_aux=False):
    """Like `grad`, and gives the value as well: ``(gradients, value)``.

    >>> import ftorch as torch
    >>> torch.func.grad_and_value(lambda x: x ** 2)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        _check_argnums(argnums, args)
        # Grad modes are the levels' own: the function is differentiated even where the tensors
        # around it record nothing (in inference mode, too), and what comes out is a constant for them.
        recorded = modes.grad
        with InferenceMode(False):
            leaves, spec = pytree.tree_flatten(_slice_args(args, argnums))
            for leaf in leaves:
                _check_input(leaf)
            flat = [_fresh(leaf if recorded else _outside_graph(leaf)) for leaf in leaves]
            inputs = spec.unflatten(flat)
            with DisabledSavedTensorsHooks(_HOOKS), differentiating(flat):
                output = _called(func, args, argnums, inputs, kwargs)
            aux = None
            if has_aux:
                output, aux = split_aux(output, "grad_and_value(f)(*args)")
            _check_scalar(output)
            grads = spec.unflatten(_gradients([output], flat, None))
        result = (grads, (output, aux)) if has_aux else (grads, output)
        return _released(result, flat) if recorded else _outside_graphs(result)

    return wrapper


def _called(func, args, argnums, inputs, kwargs):
    """A function of inputs, which is being differentiated; it may write to its other arguments, too.

    These get what is written, but no place in the graph: the function sees other tensors on their memory.
    """
    *around, (_, own, _) = modes.differentiating

    def seen(t):
        if t.__class__ not in PLAIN or t._ftorch_requires_grad:
            return t
        storage = t._ftorch_storage
        if not all(storage.level >= started or storage in others for started, others, _ in around):
            return t  # captured by a function around
        own.add(storage)
        if isinstance(t, Wrapped) and not any(level.is_graph for level in modes.levels):
            return modes.levels[-1].alias(t)  # `detach` ends the tangents of forward mode, too
        return t.detach()

    places = {argnums} if isinstance(argnums, int) else set(argnums)
    places = {n % len(args) for n in places}
    args = tuple(a if n in places else pytree.tree_map(seen, a) for n, a in enumerate(args))
    if kwargs:
        kwargs = pytree.tree_map(seen, kwargs)
    return func(*_replace_args(args, argnums, inputs), **kwargs)


def _check_input(leaf):
    if not isinstance(leaf, TensorBase):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")


def split_aux(output, call):
    """(a function's output, what it gives beside it).

    Args:
        call: how the transform is called, for messages.

    Raises:
        RuntimeError: it is no pair, or the second one is not made of tensors.
    """
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(f"{call}: output of function f should be a tuple: (output, aux) if has_aux is True")
    for leaf in pytree.tree_leaves(output[1]):
        if not isinstance(leaf, TensorBase):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(leaf)}")
    return output


def _check_scalar(output):
    if not isinstance(output, TensorBase):
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}"
        )
    if output._ftorch_geometry.shape:
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
            f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def _gradients(outputs, inputs, cotangents):
    """autograd.grad with zeros where an input was not used or no graph leads to an output."""
    pairs = [
        (o, None if cotangents is None else cotangents[i])
        for i, o in enumerate(outputs) if o._ftorch_requires_grad
    ]
    if not pairs:
        return [_zeros_like(t) for t in inputs]
    outs, cots = zip(*pairs)
    found = engine.grad(
        outs, inputs, None if cotangents is None else cots, create_graph=True, allow_unused=True
    )
    return [_zeros_like(t) if g is None else g for t, g in zip(inputs, found)]


def _zeros_like(t):
    return api.zeros_like(t)


def grad(func, argnums=0, has_aux=False):
    """The gradient of a function with a scalar result (``torch.func.grad``).

    Args:
        argnums: which arguments to differentiate (trees of tensors).
        has_aux: the function returns ``(output, aux)``; so does the result.

    Raises:
        RuntimeError: if the output is not a scalar tensor.

    >>> import ftorch as torch
    >>> torch.func.grad(lambda x: x.sin())(torch.tensor(0.0))
    tensor(1.)
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        result = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        if has_aux:
            gradients, (_, aux) = result
            return gradients, aux
        return result[0]

    return wrapper


def _check_differentiable(output):
    if not (output.dtype.is_floating_point or output.dtype.is_complex):
        raise RuntimeError(
            "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
            f"{output.dtype}"
        )


def vjp(func, *primals, has_aux=False):
    """The output of a function and the function that pulls cotangents back through it.

    >>> import ftorch as torch
    >>> out, pull = torch.func.vjp(torch.sin, torch.tensor(0.0))
    >>> pull(torch.tensor(2.0))
    (tensor(2.),)
    """
    for leaf in pytree.tree_leaves(primals):
        _check_input(leaf)
    recorded = modes.grad
    with InferenceMode(False):
        inputs = _wrap_tree(primals)
        with DisabledSavedTensorsHooks(_HOOKS), differentiating(pytree.tree_leaves(inputs)):
            output = func(*inputs)
        aux = None
        if has_aux:
            output, aux = split_aux(output, "vjp(f, *primals)")
    flat_out, out_spec = pytree.tree_flatten(output)
    if not flat_out or flat_out == [None]:
        raise RuntimeError(
            f"vjp(f, *primals): Expected f to be a function that has non-empty output (got output = "
            f"{flat_out})"
        )
    for o in flat_out:
        if not isinstance(o, TensorBase):
            raise RuntimeError(
                f"vjp(f, *primals): expected f(*primals) to return only tensors, got unsupported type "
                f"{type(o)}"
            )
        _check_differentiable(o)
    flat_in, in_spec = pytree.tree_flatten(inputs)

    def wrapper(cotangents, retain_graph=True, create_graph=None):
        recorded = modes.grad
        flat_cots, cot_spec = pytree.tree_flatten(cotangents)
        for i, (c, o) in enumerate(zip(flat_cots, flat_out)):
            if cot_spec == out_spec and c.shape != o.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{i}] has a shape of {c.shape} and output[{i}] "
                    f"has a shape of {o.shape}."
                )
        if cot_spec != out_spec:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {pytree.treespec_pprint(cot_spec)}, primal output: "
                f"{pytree.treespec_pprint(out_spec)}"
            )
        with InferenceMode(False):
            flat_cots = [c.clone() if c.is_inference() else c for c in flat_cots]  # their graph may save them
            found = _gradients(flat_out, flat_in, flat_cots)
        given = [c for c in flat_cots if c._ftorch_requires_grad]
        if not recorded:
            found = _outside_graphs(found)
        elif not given:
            found = _released(found, flat_in)
        return tuple(pytree.tree_unflatten(found, in_spec))

    if recorded:
        output, aux = _released((output, aux), flat_in)
    else:
        output, aux = _outside_graphs((output, aux))
    wrapper.__qualname__ = "_vjp_with_argnums.<locals>.wrapper"  # errors name it
    return (output, wrapper, aux) if has_aux else (output, wrapper)


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """The Jacobian of a function, by reverse mode: one pull-back per output, mapped over.

    >>> import ftorch as torch
    >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        _check_argnums(argnums, args)
        chosen = _slice_args(args, argnums)

        def partial(new):
            return _called(func, args, argnums, new, kwargs)

        result = vjp(partial, chosen, has_aux=has_aux)
        output, pull = result[0], result[1]
        flat_out, out_spec = pytree.tree_flatten(output)
        flat_in, in_spec = pytree.tree_flatten(chosen)
        _refuse_complex(flat_in, "inputs")
        _refuse_complex(flat_out, "outputs")
        sizes = [o.numel() for o in flat_out]
        basis = _basis(flat_out, sizes)

        def pull_flat(*cots):
            return pull(pytree.tree_unflatten(list(cots), out_spec))[0]

        if chunk_size == 1 and sum(sizes):  # by a loop, which asks no batching rules of what the function's backward calls
            rows = [pytree.tree_leaves(pull_flat(*cots)) for cots in zip(*basis)]
            flat_mapped = [api.stack(parts) for parts in zip(*rows)]
        else:
            flat_mapped = pytree.tree_leaves(vmap(pull_flat, chunk_size=chunk_size)(*basis))
        per_output = []
        start = 0
        for o, n in zip(flat_out, sizes):
            parts = [
                m.narrow(0, start, n).reshape((*o.shape, *t.shape))
                for m, t in zip(flat_mapped, flat_in)
            ]
            per_output.append(pytree.tree_unflatten(parts, in_spec))
            start += n
        jacobian = pytree.tree_unflatten(per_output, out_spec)
        return (jacobian, result[2]) if has_aux else jacobian

    return wrapper


def _refuse_complex(values, what):
    for i, t in enumerate(values):
        if t.is_complex():
            raise RuntimeError(
                f"jacrev: Expected all {what} to be real but received complex tensor at flattened input idx: {i}"
            )


def _basis(outputs, sizes):
    """For each output, the cotangents of all output elements, one after the other."""
    total = sum(sizes)
    basis, start = [], 0
    with InferenceMode(False):  # graphs may save them
        for o, n in zip(outputs, sizes):
            eye = api.zeros((total, n), dtype=o.dtype, device=o.device)
            if n:
                eye.diagonal(-start).fill_(1)
            basis.append(eye.view(total, *o.shape))
            start += n
    return basis
