"""Tensors without elements that look like others (``torch._subclasses.meta_utils``)."""

from __future__ import annotations

import weakref

import ftorch as torch

from ..eager.tensor import Tensor


class MetaConverter:
    """Makes tensors on the meta device of others: of one storage, for tensors that share one.

    >>> import ftorch as torch
    >>> MetaConverter()(torch.ones(2, 3)[:, 1:]).stride()
    (3, 1)
    """

    def __init__(self, *, copy_data: bool = False):
        self._storages: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._made: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    def meta_storage(self, storage):
        """The meta storage that stands for one."""
        cell = storage._cell
        if cell not in self._storages:
            self._storages[cell] = torch.empty(storage.nbytes(), dtype=torch.uint8, device="meta")
        return self._storages[cell].untyped_storage()

    def meta_tensor(self, t, **_):
        """The meta tensor that stands for one, as a leaf if it is one."""
        base = torch.empty(0, dtype=t.dtype, device="meta").set_(
            self.meta_storage(t.untyped_storage()), t.storage_offset(), t.shape, t.stride()
        )
        base = base.requires_grad_(t.requires_grad)
        return type(t)(base, t.requires_grad) if type(t).__name__ == "Parameter" else base

    def __call__(self, t, shape_env=None, *, callback=None, source=None, symbolic_context=None):
        if not isinstance(t, Tensor):
            raise AssertionError(f"Expected a Tensor, got {type(t)}")
        return self.meta_tensor(t)
