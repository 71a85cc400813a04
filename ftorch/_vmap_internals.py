"""``vmap`` by its older private name (``torch._vmap_internals``)."""

from __future__ import annotations

import functools

from .eager.transforms.vmap import vmap as _public
from .utils import _pytree as pytree

__all__ = ["_vmap", "vmap"]


def vmap(func, in_dims=0, out_dims=0):
    """``torch.func.vmap``; PyTorch's older function of this name warns that it is that."""
    import warnings

    warnings.warn("Please use torch.vmap instead of torch._vmap_internals.vmap.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through: bool = False):
    """``torch.func.vmap``; with ``allow_none_pass_through`` a function may give None among its tensors.

    >>> import ftorch as torch
    >>> from ftorch._vmap_internals import _vmap
    >>> _vmap(lambda x: (x.sum(), None), allow_none_pass_through=True)(torch.ones(2, 3))
    (tensor([3., 3.]), None)
    """
    if not allow_none_pass_through:
        return _public(func, in_dims, out_dims)

    @functools.wraps(func)
    def mapped(*args):
        shape: list = []

        def tensors(*inner):
            flat, spec = pytree.tree_flatten(func(*inner), is_leaf=lambda value: value is None)
            shape[:] = spec, [value is not None for value in flat]
            return tuple(value for value in flat if value is not None)

        found = iter(_public(tensors, in_dims, out_dims)(*args))
        spec, there = shape
        return pytree.tree_unflatten([next(found) if is_tensor else None for is_tensor in there], spec)

    return mapped
