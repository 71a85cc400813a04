"""The JAX forms of ops that have no kernel: views, copies, creation, control flow."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FORMS: dict[str, Any] = {}


class NoForm(RuntimeError):
    """A program with a call that has no form in StableHLO."""
_END = 9223372036854775807


def _form(names: str):
    """Declares the JAX form of ops that have no kernel: they take arrays and numbers."""

    def register(function):
        for name in names.split():
            FORMS[name] = function
        return function

    return register


# --- views and copies -----------------------------------------------------------------


@_form("view reshape _unsafe_view")
def _reshape(node, x, shape):
    if sum(type(n) is int and n == -1 for n in shape):
        rest = math.prod(n for n in shape if not (type(n) is int and n == -1))
        shape = [x.size // rest if type(n) is int and n == -1 else n for n in shape]
    return jnp.reshape(x, tuple(shape))


@_form("permute")
def _permute(node, x, dims):
    return jnp.transpose(x, dims)


@_form("transpose swapaxes swapdims")
def _transpose(node, x, a, b):
    return jnp.swapaxes(x, a, b) if x.ndim else x


@_form("t mT")
def _t(node, x):
    return jnp.swapaxes(x, -1, -2) if x.ndim > 1 else x


@_form("numpy_T")
def _reversed(node, x):
    return x.T


@_form("_conj")
def _conj(node, x):
    return jnp.conj(x)


@_form("_neg_view")
def _negated(node, x):
    return -x


@_form("unflatten")
def _unflatten(node, x, dim, sizes):
    dim %= x.ndim
    return _reshape(node, x, [*x.shape[:dim], *sizes, *x.shape[dim + 1 :]])


@_form("movedim")
def _movedim(node, x, source, destination):
    return jnp.moveaxis(x, source, destination)


@_form("unsqueeze")
def _unsqueeze(node, x, dim):
    return jnp.expand_dims(x, dim)


@_form("squeeze")
def _squeeze(node, x, dims=None):
    dims = range(x.ndim) if dims is None else [dims] if isinstance(dims, int) else dims
    return jnp.squeeze(x, tuple(d for d in dims if x.ndim and x.shape[d] == 1))


@_form("expand broadcast_to")
def _expand(node, x, sizes, implicit=False):
    gap = len(sizes) - x.ndim
    sizes = [x.shape[i - gap] if type(n) is int and n == -1 else n for i, n in enumerate(sizes)]
    return jnp.broadcast_to(x, tuple(sizes))


@_form("select")
def _select(node, x, dim, index):
    return jax.lax.index_in_dim(x, index if type(index) is not int or index >= 0 else
                                x.shape[dim] + index, dim, keepdims=False)


@_form("slice")
def _slice(node, x, dim=0, start=None, end=None, step=1):
    if type(end) is int and end >= _END:
        end = None
    if any(v is not None and type(v) is not int for v in (start, end)):  # symbolic
        return jax.lax.slice_in_dim(jnp.asarray(x), start or 0, end, step, dim)
    index = [slice(None)] * x.ndim
    index[dim] = slice(start, end, step)
    return x[tuple(index)]


@_form("narrow")
def _narrow(node, x, dim, start, length):
    return _slice(node, x, dim, start, start + length)


@_form("diagonal")
def _diagonal(node, x, offset=0, dim1=0, dim2=1):
    return jnp.diagonal(x, offset, dim1, dim2)


@_form("as_strided")
def _as_strided(node, x, size, stride, offset=None):
    flat = _memory(node.args[0], x)
    where = 0 if offset is None else offset
    for d, (n, step) in enumerate(zip(size, stride)):
        where = where + (jnp.arange(n) * step).reshape([-1 if i == d else 1 for i in range(len(size))])
    return jnp.take(flat, jnp.broadcast_to(jnp.asarray(where), tuple(size)))


def _memory(node, x):
    """The elements of a node's value as they lie in memory, all of which is the value's.

    Raises:
        NoForm: it is not.
    """
    source = node.meta["val"]
    strides = source.stride()
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    is_part = False
    while node.op == "call_function" and not is_part:
        name = getattr(node.target, "_opname", getattr(node.target, "__name__", ""))
        is_part = name in _PIECES
        if name not in _WHOLES:
            break
        node = node.args[0]
    if is_part or not source.permute(order).is_contiguous():
        raise NoForm("aten.as_strided of a part of a tensor has no form in StableHLO")
    return x.transpose(order).reshape(-1)


_PIECES = frozenset(
    "slice select narrow as_strided unbind split chunk split_with_sizes tensor_split diagonal unfold real imag getitem".split()
)
_WHOLES = frozenset("view reshape t permute transpose alias detach flatten unflatten squeeze unsqueeze ravel view_as".split())


@_form("unfold")
def _unfold(node, x, dim, size, step):
    count = (x.shape[dim] - size) // step + 1
    index = jnp.arange(count)[:, None] * step + jnp.arange(size)[None]
    taken = jnp.take(x, index, axis=dim)
    return jnp.moveaxis(taken, dim % x.ndim + 1, -1)


@_form("real _real_part")
def _real(node, x):
    return jnp.real(x)


@_form("imag _imag_part")
def _imag(node, x):
    return jnp.imag(x)


@_form("view_as_real")
def _view_as_real(node, x):
    return jnp.stack([jnp.real(x), jnp.imag(x)], -1)


@_form("view_as_complex")
def _view_as_complex(node, x):
    return jax.lax.complex(x[..., 0], x[..., 1])


@_form("clone detach alias lift_fresh_copy lift_fresh contiguous")
def _same(node, x, **_):
    return x


@_form("copy")
def _copy(node, x, source, *_):
    return jnp.broadcast_to(source, x.shape).astype(x.dtype)


@_form("_to_copy to")
def _to_copy(node, x, *_, **__):
    return x.astype(_dtype(node))


@_form("sym_size")
def _sym_size(node, x, dim):
    return x.shape[dim]


@_form("select_scatter")
def _select_scatter(node, x, source, dim, index):
    return x.at[(slice(None),) * (dim % x.ndim) + (index,)].set(source)


@_form("slice_scatter")
def _slice_scatter(node, x, source, dim=0, start=None, end=None, step=1):
    end = None if type(end) is int and end >= _END else end
    return x.at[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)].set(source)


# --- creation


def _dtype(node):
    return node.meta["val"].dtype.numpy


@_form("full zeros ones empty")
def _full(node, sizes, value=0, *_, **__):
    value = 1 if node.target._opname == "ones" else value
    return jnp.full(tuple(sizes), value, _dtype(node))


@_form("full_like zeros_like ones_like empty_like")
def _full_like(node, x, value=0, *_, **__):
    value = 1 if node.target._opname == "ones_like" else value
    return jnp.full(x.shape, value, _dtype(node))


@_form("new_full new_zeros new_ones new_empty")
def _new_full(node, x, sizes, value=0, *_, **__):
    return _full(node, sizes, 1 if node.target._opname == "new_ones" else value)


@_form("arange")
def _arange(node, start, end=None, step=1, **_):
    if end is None:
        start, end = 0, start
    dtype = _dtype(node)
    if all(isinstance(v, (int, float)) for v in (start, end, step)):
        return jnp.asarray(np.arange(start, end, step).astype(dtype))
    count = (end - start + step - 1) // step
    return (jnp.arange(count) * step + start).astype(dtype)


@_form("eye")
def _eye(node, n, m=None, **_):
    return jnp.eye(n, m, dtype=_dtype(node))


@_form("linspace")
def _linspace(node, start, end, steps, **_):
    return jnp.linspace(start, end, steps, dtype=_dtype(node))


# --- control flow ---------------------------------------------------------------------


@_form("higher_order.cond")
def _cond(keys, pred, true_graph, false_graph, operands=()):
    def branch(graph):
        return lambda *arrays: tuple(map(jnp.asarray, graph(keys, *arrays)))

    return jax.lax.cond(
        jnp.reshape(pred, ()) != 0, branch(true_graph), branch(false_graph), *operands
    )


@_form("higher_order.while_loop")
def _while_loop(keys, condition, body, carried, additional=()):
    key = keys.next()

    def goes_on(carry):
        found = condition(keys.of_step(key, carry[0]), *carry[1:], *additional)
        return jnp.reshape(found[0] if isinstance(found, (tuple, list)) else found, ()) != 0

    def step(carry):
        following = body(keys.of_step(key, carry[0]), *carry[1:], *additional)
        return (carry[0] + 1, *map(jnp.asarray, following))

    start = (jnp.zeros((), jnp.int32), *map(jnp.asarray, carried))
    return jax.lax.while_loop(goes_on, step, start)[1:]


@_form("higher_order.scan")
def _scan(keys, graph, init, xs, additional=()):
    key, count = keys.next(), len(init)

    def step(carry, x):
        following = tuple(map(jnp.asarray, graph(keys.of_step(key, carry[0]), *carry[1:], *x, *additional)))
        return (carry[0] + 1, *following[:count]), following[count:]

    start = (jnp.zeros((), jnp.int32), *map(jnp.asarray, init))
    carry, ys = jax.lax.scan(step, start, tuple(map(jnp.asarray, xs)))
    return (*carry[1:], *ys)


@_form("higher_order.map_impl")
def _map(keys, graph, xs, additional=()):
    return _scan(keys, lambda own, *given: graph(own, *given), (), xs, additional)
