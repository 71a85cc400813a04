"""Dynamic update slices: one row into a part of a larger array, as a cache of keys and values gets for each token.

Recorded are a part that is read, a copy of it with the row, and that copy put back into the whole. XLA makes both copies of
the part in a loop over its elements. Put into the whole at once, the row is all that is written.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import Literal

from .. import call

_LAYING = frozenset({"reshape", "transpose"})  # what lies between a whole and how its parts are cut
_DEPTH = 12  # steps that are looked at: of a whole's layout, of a start's arithmetic
_MODES = (lax.GatherScatterMode.PROMISE_IN_BOUNDS, lax.GatherScatterMode.FILL_OR_DROP)


def written(step, flat, read):
    """The results of a step `dynamic_update_slice` that puts a part with a new row into its whole; None for any other.

    Args:
        read: gives a name's value.
    """
    whole, part, *starts = step.inputs
    scatter = _maker(flat, part, "reshape", alone=True)
    if scatter is None or scatter.eqn.primitive.name != "scatter":
        return None
    row = _row(scatter)
    taken = _maker(flat, scatter.inputs[0], "reshape") if row is not None else None
    if taken is None or not _is_cut(flat, taken, whole, starts, step.eqn.invars[1].aval.shape):
        return None
    sizes = step.eqn.invars[1].aval.shape
    dim = _same_dim(scatter.eqn.invars[0].aval.shape, sizes, row)
    if dim is None:
        return None
    x, index, new = read(whole), read(scatter.inputs[1]).reshape(()), read(scatter.inputs[2])
    # As the write of the part does, where it would lie in the whole.
    places = [jnp.clip(jnp.asarray(read(s)).astype(jnp.int64), 0, n - size)
              for s, n, size in zip(starts, x.shape, sizes, strict=True)]
    shape = tuple(1 if d == dim else n for d, n in enumerate(sizes))
    is_within = (index >= 0) & (index < sizes[dim])
    places[dim] = places[dim] + index.astype(jnp.int64)
    places[0] = jnp.where(is_within, places[0], -1)
    # XLA's own step is fused with whoever reads a part, which writes the row once more and has the whole copied.
    return [call("ftorch_put_part", jax.ShapeDtypeStruct(x.shape, x.dtype), x, new.reshape(shape), jnp.stack(places), over=0)]


def _maker(flat, name, *passed, alone=False):
    """The step that gives a value, behind those that are passed; None where it is an input, or (``alone``) others read it."""
    for _ in range(_DEPTH):
        number = None if isinstance(name, Literal) else flat.maker.get(name)
        if number is None or (alone and flat.only_user(name) is None):
            return None
        step = flat.steps[number]
        if step.eqn.primitive.name not in passed:
            return step
        name = step.inputs[0]
    return None


def _row(scatter):
    """The dimension along which a scatter writes one row; None for any other scatter."""
    params = scatter.eqn.params
    numbers = params["dimension_numbers"]
    dims = tuple(numbers.scatter_dims_to_operand_dims)
    if len(dims) != 1 or tuple(numbers.inserted_window_dims) != dims or params["mode"] not in _MODES:
        return None
    operand, index, update = (v.aval for v in scatter.eqn.invars)
    is_one = index.size == 1 and update.size * operand.shape[dims[0]] == operand.size
    return dims[0] if is_one and not numbers.operand_batching_dims and update.dtype == operand.dtype else None


def _same_dim(shape, other, dim):
    """The dimension of another shape that a dimension is, where they differ in those of size 1 alone; or None."""
    places, others = ([d for d, n in enumerate(s) if n != 1] for s in (shape, other))
    if [shape[d] for d in places] != [other[d] for d in others] or dim not in places:
        return None
    return others[places.index(dim)]


def _is_cut(flat, taken, whole, starts, sizes):
    """Whether a step reads just that part of the whole."""
    params, name = taken.eqn.params, taken.eqn.primitive.name
    if taken.eqn.outvars[0].aval.shape != sizes:
        return False
    if name == "slice":
        if params["strides"] is not None and any(s != 1 for s in params["strides"]):
            return False
        found = [("number", int(s)) for s in params["start_indices"]]
    elif name == "dynamic_slice":
        found = [_meaning(flat, s) for s in taken.inputs[1:]]
    else:
        return False
    if found != [_meaning(flat, s) for s in starts]:
        return False
    return _layout(flat, taken.inputs[0]) == _layout(flat, whole)


def _layout(flat, name):
    """(what an array is made of, how that is laid out), so that equal ones have equal elements."""
    steps = []
    for _ in range(_DEPTH):
        number = None if isinstance(name, Literal) else flat.maker.get(name)
        eqn = None if number is None else flat.steps[number].eqn
        if eqn is None or eqn.primitive.name not in _LAYING:
            break
        steps.append((eqn.primitive.name, eqn.outvars[0].aval.shape, eqn.params.get("permutation")))
        name = flat.steps[number].inputs[0]
    return id(name), steps


def _meaning(flat, name, depth=_DEPTH):
    """What a scalar is: ("number", value), or steps and names."""
    if isinstance(name, Literal):
        return "number", int(name.val)
    number = flat.maker.get(name)
    if number is None or depth == 0:
        return "name", id(name)
    step = flat.steps[number]
    given = [_meaning(flat, x, depth - 1) for x in step.inputs]
    what = step.eqn.primitive.name
    fold = _FOLDED.get(what)
    if fold is not None and all(g[0] == "number" for g in given):
        return "number", int(fold(*(g[1] for g in given)))
    if what in _FOLDED:
        return what, *given
    return "name", id(name)


_FOLDED = {
    "lt": lambda a, b: a < b, "add": lambda a, b: a + b, "select_n": lambda which, *cases: cases[which],
    "convert_element_type": lambda a: a,
}

