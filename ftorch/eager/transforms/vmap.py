"""``vmap``: maps a function over a dimension of its inputs, in one go.

This module is `torch._functorch.vmap`, too: tensordict replaces the functions that prepare the inputs and take
the outputs apart (``_process_batched_inputs``, ``_create_batched_inputs``, ``_unwrap_batched``) by its own, which
is why they have PyTorch's names and signatures.
"""

from __future__ import annotations

import functools

from ...utils import _pytree as pytree
from ...utils._pytree import (  # noqa: F401
    _broadcast_to_and_flatten,
    tree_flatten,
    tree_map_,
    tree_unflatten,
)
from ..core import api
from ..sampling.generator import default_generator
from ..tensor import Tensor, TensorBase  # noqa: F401
from .batching import Batched, BatchLevel, batched, is_batchedtensor  # noqa: F401


def _get_name(func):
    return getattr(func, "__name__", repr(func))


def _flat_in_dims(in_dims, args, func):
    """(flat args, flat in_dims, tree spec).

    Raises:
        ValueError: with functorch's words if the dims do not fit the args.
    """
    name = _get_name(func)
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a "
            f"(potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
            f"trying to vmap over a function with no inputs. The latter is unsupported."
        )
    flat, spec = pytree.tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the "
            f"structure of `inputs`. in_dims has structure "
            f"{pytree.tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    for i, (arg, dim) in enumerate(zip(flat, dims)):
        if not isinstance(dim, int) and dim is not None:
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but "
                f"in_dim must be either an integer dimension or None."
            )
        if isinstance(dim, int) and not isinstance(arg, TensorBase):
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for an input but "
                f"the input is of type {type(arg)}. We cannot vmap over non-Tensor arguments, please "
                f"use None as the respective in_dim"
            )
        if dim is not None and not -arg.dim() <= dim < arg.dim():
            raise ValueError(
                f"vmap({name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={dim} for some input, "
                f"but that input is a Tensor of dimensionality {arg.dim()} so expected in_dim to "
                f"satisfy -{arg.dim()} <= in_dim < {arg.dim()}."
            )
        if dim is not None and dim < 0:
            dims[i] = dim % arg.dim()
    return flat, dims, spec


def _validate_and_get_batch_size(dims, flat):
    sizes = [arg.size(dim) for arg, dim in zip(flat, dims) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(s != sizes[0] for s in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]


def _unwrap_batched(outputs, out_dims, level, batch_size, func):
    name = _get_name(func)
    flat, spec = pytree.tree_flatten(outputs)
    if isinstance(out_dims, int) or out_dims is None:
        dims = [out_dims] * len(flat)
    elif isinstance(out_dims, tuple) and len(flat) == 1 and len(out_dims) == 1 and spec.is_leaf():
        dims = list(out_dims)
    else:
        dims = _broadcast_to_and_flatten(out_dims, spec)
        if dims is None:
            raise ValueError(
                f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with "
                f"the structure of `outputs`. out_dims has structure "
                f"{pytree.tree_flatten(out_dims)[1]} but outputs has structure {spec}."
            )
    out = [
        _maybe_remove_batch_dim(name, t, level, batch_size, dim, out_dims) for t, dim in zip(flat, dims)
    ]
    return pytree.tree_unflatten(out, spec)


def _no_out_dims(name, out_dims):
    return ValueError(
        f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python "
        f"collection of ints representing where in the outputs the vmapped dimension should "
        f"appear."
    )


def _check_out_dims(out_dims, func):
    """Refuses what are no dims before the function runs, which may write to what it captured."""
    if not isinstance(out_dims, int):
        if any(not isinstance(dim, int) and dim is not None for dim in pytree.tree_leaves(out_dims)):
            raise _no_out_dims(_get_name(func), out_dims)


def _maybe_remove_batch_dim(name, t, level, batch_size, dim, out_dims=None):
    """An output of a function as the caller gets it, its mapped dimension at ``dim``."""
    is_mine = isinstance(t, Batched) and t._ftorch_level is level
    if dim is None:
        if is_mine and t._bdim is not None:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None"
            )
        return t._inner if is_mine else t
    if not isinstance(t, TensorBase):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(t)}. Did "
            f"you mean to set out_dims= to None for output?"
        )
    if not isinstance(dim, int):
        raise _no_out_dims(name, dim if out_dims is None else out_dims)
    inner = t._inner if is_mine else t
    if not is_mine or t._bdim is None:
        inner = inner.unsqueeze(0).expand(batch_size, *inner.shape)
        source = 0
    else:
        source = t._bdim
    rank = inner.dim()
    if not -rank <= dim < rank:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"
        )
    return inner if source == dim % rank else inner.movedim(source, dim)


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """Maps ``func`` over a dimension of its tensor arguments (``torch.vmap``).

    Args:
        in_dims: which dimension to map over, per argument (a tree like the arguments); None for
            arguments that all examples share.
        out_dims: where the mapped dimension goes in the outputs.
        randomness: what random operations do: "error", "same" or "different" numbers per example.
        chunk_size: examples mapped at once; None for all.

    Raises:
        ValueError: if dims do not fit the arguments or outputs.

    >>> import ftorch as torch
    >>> torch.vmap(torch.dot)(torch.ones(3, 2), torch.ones(3, 2))
    tensor([2., 2., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        return vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)

    return wrapped


def vmap_impl(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs):
    """The call of a function made by `vmap`."""
    _check_out_dims(out_dims, func)
    size, dims, flat, spec = _process_batched_inputs(in_dims, args, func)
    if chunk_size is not None and chunk_size < size:
        return _chunked(func, flat, dims, spec, out_dims, randomness, chunk_size, size, kwargs)
    return _flat_vmap(func, size, dims, flat, spec, out_dims, randomness, **kwargs)


def _process_batched_inputs(in_dims, args, func):
    """(batch size, dims, flat arguments, their tree), checked."""
    flat, dims, spec = _flat_in_dims(in_dims, args, func)
    return _validate_and_get_batch_size(dims, flat), dims, flat, spec


def _flat_vmap(func, batch_size, flat_in_dims, flat_args, args_spec, out_dims, randomness, **kwargs):
    with BatchLevel(batch_size, randomness) as level:
        inputs = _create_batched_inputs(flat_in_dims, flat_args, level, args_spec)
        outputs = func(*inputs, **kwargs)
        return _unwrap_batched(outputs, out_dims, level, batch_size, func)


def _create_batched_inputs(flat_in_dims, flat_args, level, args_spec):
    """The arguments with their mapped dimensions hidden."""
    inputs = [
        arg if dim is None else batched(level, arg, dim) for arg, dim in zip(flat_args, flat_in_dims)
    ]
    return tree_unflatten(inputs, args_spec)


def _add_batch_dim(tensor, in_dim, level):
    """A tensor with a dimension hidden at a level (PyTorch's levels are numbers)."""
    return batched(level, tensor, in_dim % tensor.dim())


def _remove_batch_dim(tensor, level, batch_size, out_dim):
    """A tensor with the dimension that a level hides at ``out_dim``."""
    return _maybe_remove_batch_dim("_remove_batch_dim", tensor, level, batch_size, out_dim)


def get_unwrapped(tensor):
    """The tensor that one of a transform's level stands for, with its hidden dimension."""
    return tensor._inner


def _chunked(func, flat, dims, spec, out_dims, randomness, chunk_size, size, kwargs):
    parts = []
    state = default_generator.get_state() if randomness == "same" else None
    for start in range(0, size, chunk_size):
        if state is not None:
            default_generator.set_state(state)
        length = min(chunk_size, size - start)
        chunk = [
            arg if dim is None else arg.narrow(dim, start, length) for arg, dim in zip(flat, dims)
        ]
        parts.append(_flat_vmap(func, length, dims, chunk, spec, out_dims, randomness, **kwargs))
    flat_parts = [pytree.tree_flatten(part) for part in parts]
    spec = flat_parts[0][1]
    where = pytree._broadcast_to_and_flatten(out_dims, spec)
    pieces = zip(*(leaves for leaves, _ in flat_parts))
    merged = [p[0] if dim is None else api.cat(p, dim) for p, dim in zip(pieces, where)]
    return pytree.tree_unflatten(merged, spec)
