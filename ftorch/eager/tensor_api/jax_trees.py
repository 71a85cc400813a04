"""Pytree registration: tensors as nodes of JAX's pytrees, so that JAX's transformations take and return them.

``jax.jit(f)(tensor)`` calls ``f`` with a tensor around a tracer, on which every operation runs at once,
and makes a tensor of the result. Only the value goes through: what comes out is outside of any graph,
and a `Parameter` comes out as a plain tensor. Functions of ``jax.numpy`` take tensors as well; those of
``jax.lax``, and the scalar that ``jax.grad`` differentiates, must be arrays (``loss.jax()``).

>>> import ftorch as torch, jax
>>> jax.jit(lambda x: x.sin() + 1)(torch.zeros(2))
tensor([1., 1.])
>>> jax.grad(lambda x: (x ** 2).sum().jax())(torch.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ..core import device as _device
from ..core import dtype as _dtype
from ..core.geometry import Size, geometry
from ..memory.storage import Storage
from ..tensor import Tensor, from_array, wrap
from .jax_interop import from_jax, jax_array


def _flatten(t):
    if t._ftorch_storage.extra is _flatten:  # what `_unflatten` made of JAX's own markers
        return (t._ftorch_storage.array,), None
    return (jax_array(t),), None


def _unflatten(_, children):
    (child,) = children
    if isinstance(child, jax.Array) and not isinstance(child, jax.core.Tracer):
        return from_jax(child)
    if isinstance(child, (jax.core.Tracer, np.ndarray)):
        return from_array(child)
    if isinstance(child, Tensor):
        return child
    # JAX also builds trees of axes, shapes and other markers.
    dtype = getattr(child, "dtype", None)
    known = dtype is not None and not jnp.issubdtype(dtype, jax.dtypes.extended)
    shape = Size(getattr(child, "shape", ()))
    dtype = _dtype.from_numpy(np.dtype(dtype)) if known else _dtype.float32
    storage = Storage(geometry(shape, dtype, _device.META), child)
    storage.extra = _flatten
    return wrap(storage)


def register(cls: type = Tensor) -> None:
    """Makes a tensor class a node of JAX's pytrees."""
    jax.tree_util.register_pytree_node(cls, _flatten, _unflatten)


register()
