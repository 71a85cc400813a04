"""Forward mode: ``jvp``, ``jacfwd``, ``linearize``."""

from __future__ import annotations

import functools

from ...utils import _pytree as pytree
from ..dispatch.levels import taken_in
from ..native.contexts import contextmanager
from ..tensor import TensorBase, modes
from .dual import Dual, DualLevel, dual
from .eager_transforms import (
    _basis,
    _called,
    _check_argnums,
    _check_input,
    _slice_args,
    differentiating,
    split_aux,
)
from .vmap import vmap


def _check_tangents(primals, tangents):
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to "
            "call f(*primals)."
        )
    flat, spec = pytree.tree_flatten(primals)
    flat_tangents, tangent_spec = pytree.tree_flatten(tangents)
    if spec != tangent_spec:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python "
            f"structure. For example, if primals is a tuple of 3 tensors, tangents also must be. Got "
            f"primals with structure {spec} and tangents with structure {tangent_spec}"
        )
    if not flat:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to contain at least one Tensor."
        )
    for name, values in ("primals", flat), ("tangents", flat_tangents):
        for v in values:
            if not isinstance(v, TensorBase):
                raise RuntimeError(
                    f"jvp(f, primals, tangents): Expected {name} to only contain Tensors, got {type(v)}"
                )
    for p, t in zip(flat, flat_tangents):
        for name, value in ("primal", p), ("tangent", t):
            if not (value.dtype.is_floating_point or value.dtype.is_complex):
                raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
        if p.shape != t.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original "
                f"Tensor, this is not supported. Tensor is of size {list(p.shape)} while the given "
                f"forward gradient is of size {list(t.shape)}."
            )
    return flat, flat_tangents, spec


@contextmanager
def _tangents():
    """Inside, tangents are computed, whatever was said outside."""
    outer, modes.forward = modes.forward, True
    try:
        yield
    finally:
        modes.forward = outer


def _check_real(tensors, what):
    for i, t in enumerate(tensors):
        if isinstance(t, TensorBase) and t.dtype.is_complex:
            raise RuntimeError(f"jacfwd: Expected all {what} to be real but received complex tensor at flattened input idx: "
                               f"{i}")


def _split(level, t):
    """(primal, tangent) of a result of a level; constants have tangent zero."""
    t = taken_in(t)
    if isinstance(t, Dual) and t._ftorch_level is level:
        tangent = level._tangent_of(t)
        return t._inner, _zeros(t._inner) if tangent is None else tangent
    return t, _zeros(t)


def _zeros(t):
    from ..core import api

    return api.zeros_like(t)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The output of a function and its derivative along tangents (``torch.func.jvp``).

    Raises:
        RuntimeError: if primals and tangents do not match, or the output is not made of tensors.

    >>> import ftorch as torch
    >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    flat, flat_tangents, spec = _check_tangents(primals, tangents)
    with DualLevel() as level, differentiating([*flat, *flat_tangents]), _tangents():
        inputs = [dual(level, p, t) for p, t in zip(flat, flat_tangents)]
        output = func(*pytree.tree_unflatten(inputs, spec))
        aux = None
        if has_aux:
            output, aux = split_aux(output, "jvp(f, primals, tangents)")
            aux = pytree.tree_map(
                lambda t: _split(level, t)[0] if isinstance(t, TensorBase) else t, aux
            )
        flat_out, out_spec = pytree.tree_flatten(output)
        if not flat_out or flat_out == [None]:
            raise RuntimeError(
                "jvp(f, primals, tangents): Expected f to be a function that has non-empty output (got "
                f"output = {flat_out})"
            )
        for o in flat_out:
            if not isinstance(o, TensorBase):
                raise RuntimeError(
                    f"jvp(f, primals, tangents): expected f(*primals) to return only tensors, got "
                    f"unsupported type {type(o)}"
                )
        if strict and not all(isinstance(o, Dual) and o._ftorch_level is level and o._tangent is not None for o in flat_out):
            raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is "
                               "not allowed with strict=True.")
        pairs = [_split(level, o) for o in flat_out]
    out = pytree.tree_unflatten([p for p, _ in pairs], out_spec)
    moved = pytree.tree_unflatten([t for _, t in pairs], out_spec)
    return (out, moved, aux) if has_aux else (out, moved)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """The Jacobian of a function, by forward mode: one push-forward per input element, mapped over.

    >>> import ftorch as torch
    >>> torch.func.jacfwd(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        _check_argnums(argnums, args)
        chosen = _slice_args(args, argnums)
        flat_in, in_spec = pytree.tree_flatten(chosen)
        for leaf in flat_in:
            _check_input(leaf)
        _check_real(flat_in, "inputs")
        sizes = [t.numel() for t in flat_in]
        basis = _basis(flat_in, sizes)

        def push(*tangents):
            def partial(*flat):
                new = pytree.tree_unflatten(list(flat), in_spec)
                return _called(functools.partial(func, **kwargs), args, argnums, new, {})

            result = jvp(partial, tuple(flat_in), tuple(tangents), has_aux=has_aux)
            return (result[1], result[2]) if has_aux else result[1]

        mapped = vmap(push, randomness=randomness)(*basis)
        aux = None
        if has_aux:
            mapped, aux = mapped
            aux = pytree.tree_map(lambda t: t[0], aux)
        flat_out, out_spec = pytree.tree_flatten(mapped)
        _check_real(flat_out, "outputs")
        per_output = []
        for out in flat_out:
            parts, start = [], 0
            for t, n in zip(flat_in, sizes):
                part = out.narrow(0, start, n).movedim(0, -1)
                parts.append(part.reshape((*out.shape[1:], *t.shape)))
                start += n
            per_output.append(pytree.tree_unflatten(parts, in_spec))
        jacobian = pytree.tree_unflatten(per_output, out_spec)
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def linearize(func, *primals):
    """The output at a point, and the function that pushes tangents forward there.

    >>> import ftorch as torch
    >>> out, push = torch.func.linearize(torch.sin, torch.tensor(0.0))
    >>> push(torch.tensor(3.0))
    tensor(3.)
    """
    output = func(*primals)
    flat, spec = pytree.tree_flatten(primals)

    def push(*tangents):
        flat_tangents, tangent_spec = pytree.tree_flatten(tangents)
        if tangent_spec != spec:
            raise RuntimeError(
                f"Expected the tangents {tangent_spec} to have the same argspec as the primals {spec}"
            )
        for i, (p, t) in enumerate(zip(flat, flat_tangents)):
            if p.shape != t.shape:
                raise RuntimeError(
                    f"tangent:{i} with shape {t.shape} in flattened pytree doesn't match the shape "
                    f"{p.shape} of the corresponding primal."
                )
        return jvp(func, primals, tangents)[1]

    return output, push
